"""Checks of the local forge: real processes, and everything that they and their runners can do wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import psutil
import pytest

from conductor.forge.local import runs
from conductor.forge.local.forge import LocalForge
from conductor.forge.local.process import KEPT, BoundedLog
from schemas.config import LocalForgeConfig
from schemas.forge import Checks, CheckState
from tests.forge.conftest import runners_of
from tests.forge.contract import settled
from tests.forge.stage import MakeStage, Stage
from tests.support.repos import git
from tests.support.waiting import wait_until


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def py(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


def folder_of(stage: Stage) -> Path:
    return Path(stage.forge.remote_url() or "").parent


def log_of(checks: Checks, position: int = 0) -> str:
    return Path(checks.checks[position].log_url).read_text(encoding="utf-8", errors="replace")


def running(marker: str) -> list[psutil.Process]:
    """Live processes with this word on their command line, but for us."""
    found = []
    for process in psutil.process_iter():
        try:
            if marker in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # ended meanwhile
            continue
    return found


def test_checks_run_on_the_head_in_a_checkout_with_its_base_and_no_worktree_of_ours(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(checks={"where": sh("pwd; git rev-parse HEAD; git rev-parse origin/main; cat feature.txt")})
    opened = stage.open("feature")
    done = settled(stage, opened.number)
    assert done.state is CheckState.PASSED
    where, head, base, text = log_of(done).splitlines()
    assert (head, base, text) == (opened.head, opened.base, "work")
    assert not Path(where).is_relative_to(stage.root)
    wait_until(lambda: not Path(where).exists(), 10, "the checkout to be removed")


def test_checks_see_neither_logins_nor_tokens(make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKMAESTRO_LOGIN", "worker-1")
    monkeypatch.setenv("GH_TOKEN", "secret-word")
    monkeypatch.setenv("WANTED", "passed-on")
    stage = make_stage(checks={"env": sh("env")}, check_env=("WANTED", "UNSET"))  # type: ignore[call-arg]
    done = settled(stage, stage.open("feature").number)
    seen = dict(line.split("=", 1) for line in log_of(done).splitlines() if "=" in line)
    assert seen["WANTED"] == "passed-on"
    assert seen["CI"] == "true"
    assert set(seen) <= {
        "PATH",
        "HOME",
        "LANG",
        "TMPDIR",
        "WANTED",
        "CI",
        runs.COOKIE,
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }


def test_a_check_that_hangs_is_ended_with_all_that_it_started(make_stage: MakeStage) -> None:
    script = sh("trap '' TERM; echo begun; sleep 987.31 & sleep 987.31")
    stage = make_stage(checks={"slow": script, "next": ("true",)}, timeout=1.0)
    number = stage.open("feature").number
    wait_until(
        lambda: all(c.state is not CheckState.PENDING for c in stage.forge.checks([number])[number].checks),
        30,
        "both checks",
    )
    done = stage.forge.checks([number])[number]
    assert [check.state for check in done.checks] == [CheckState.FAILED, CheckState.PASSED]
    assert "timed out after 1 s" in done.failing[0].tail
    assert "begun" in done.failing[0].tail
    assert running("987.31") == []


def test_a_daemon_that_a_check_leaves_behind_is_ended_and_does_not_hold_it_up(make_stage: MakeStage) -> None:
    daemon = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execvp('sleep', ['sleep', '986.42'])\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print('left it')\n"
    )
    stage = make_stage(checks={"forks": py(daemon)})
    done = settled(stage, stage.open("feature").number)
    assert done.state is CheckState.PASSED
    assert "left it" in log_of(done)
    assert "1 process that it left running ended" in log_of(done)
    assert running("986.42") == []


def test_of_a_hundred_megabytes_the_first_and_the_last_are_kept(make_stage: MakeStage) -> None:
    script = py(
        "import sys\n"
        "sys.stdout.write('the first line\\n')\n"
        "for n in range(100): sys.stdout.write(('x' * 1023 + '\\n') * 1024)\n"
        "sys.stdout.write('the last line\\n')\n"
    )
    stage = make_stage(checks={"loud": script})
    done = settled(stage, stage.open("feature").number, 60)
    assert done.state is CheckState.PASSED
    text = log_of(done)
    assert text.startswith("the first line\n")
    assert text.endswith("the last line\n")
    assert "bytes left out here" in text
    assert 2 * KEPT < len(text) < 2 * KEPT + 200


def test_the_memory_of_a_log_is_bounded(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "log")
    tracemalloc.start()
    for _ in range(100):
        log.write(b"x" * KEPT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    log.close()
    assert peak < 6 * KEPT
    assert (tmp_path / "log").stat().st_size < 2 * KEPT + 200


def test_a_failing_log_shows_its_last_forty_lines_without_control_characters(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"bad": sh("seq 1 100; printf '\\033[31mred\\033[0m\\r\\n\\007end\\n'; exit 1")})
    done = settled(stage, stage.open("feature").number)
    lines = done.failing[0].tail.splitlines()
    assert len(lines) == 40
    assert lines[-2:] == ["[31mred[0m", "end"]
    assert lines[0] == "63"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("no-such-program-at-all", "x"), "no-such-program-at-all was not found; looked in /"),
        (("./feature.txt",), "could not be started: Permission denied"),
        (sh("kill -SEGV $$"), "SIGSEGV"),
        (sh("exit 7"), ""),
    ],
)
def test_a_check_that_cannot_run_or_crashes_says_why(make_stage: MakeStage, argv: tuple[str, ...], said: str) -> None:
    stage = make_stage(checks={"broken": argv})
    done = settled(stage, stage.open("feature").number)
    assert done.state is CheckState.FAILED
    assert said in done.failing[0].tail


def test_a_superseded_heads_checks_are_ended_and_not_counted(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"slow-at-first": sh("test -f quick || exec sleep 985.53")})
    number = stage.open("feature").number
    wait_until(lambda: running("985.53"), 20, "the first check to run")
    pushed = stage.push("feature", "quick")
    done = settled(stage, number)
    assert (done.head, done.state) == (pushed, CheckState.PASSED)
    wait_until(lambda: not running("985.53"), 10, "the superseded check to be ended")


def test_closing_a_pull_request_ends_its_checks(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"slow": ("sleep", "984.64")})
    number = stage.open("feature").number
    wait_until(lambda: running("984.64"), 20, "the check to run")
    stage.forge.close_pull_request(number)
    wait_until(lambda: not running("984.64"), 10, "the check to be ended")
    assert stage.forge.checks([number])[number].state is CheckState.NONE


def test_a_killed_runner_is_taken_over_and_what_it_left_is_ended(make_stage: MakeStage, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stage = make_stage(checks={"waits": sh(f"test -f '{gate}' || exec sleep 983.75")})
    number = stage.open("feature").number
    wait_until(lambda: running("983.75"), 20, "the check to run")
    (runner,) = runners_of(folder_of(stage))
    os.kill(runner.pid, signal.SIGKILL)
    assert running("983.75"), "the check outlives its runner: that is what is to be mended"
    gate.touch()
    done = settled(stage, number)
    assert done.state is CheckState.PASSED
    assert running("983.75") == []
    wait_until(lambda: not list((tmp_path / "scratch").iterdir()), 10, "both checkouts to be removed")


def test_a_check_that_kills_its_runner_fails_in_the_end(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"patricide": sh("kill -9 $PPID; sleep 0.2")})
    done = settled(stage, stage.open("feature").number, 60)
    assert done.state is CheckState.FAILED
    assert "runner of the checks died 4 times" in done.failing[0].tail
    for path in (folder_of(stage).parents[2] / "scratch").iterdir():
        # Nothing is left to run, so nobody comes by to clear up after the last one.
        shutil.rmtree(path)


def test_a_runner_that_is_asked_to_end_gives_its_run_back(make_stage: MakeStage, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stage = make_stage(checks={"waits": sh(f"test -f '{gate}' || exec sleep 982.86")})
    number = stage.open("feature").number
    wait_until(lambda: running("982.86"), 20, "the check to run")
    (runner,) = runners_of(folder_of(stage))
    os.kill(runner.pid, signal.SIGTERM)
    wait_until(lambda: not runners_of(folder_of(stage)), 10, "the runner to end")
    assert running("982.86") == []
    gate.touch()
    assert settled(stage, number).state is CheckState.PASSED


def test_checks_go_on_when_the_program_that_asked_for_them_ends(make_stage: MakeStage, tmp_path: Path) -> None:
    stage = make_stage(checks={"slow": sh("sleep 0.5; echo done")})
    stage.push("feature")
    script = (
        "import sys; from pathlib import Path\n"
        "from conductor.forge.local.forge import LocalForge\n"
        "from schemas.config import LocalForgeConfig\n"
        "config = LocalForgeConfig(checks={'slow': ('sh', '-c', 'sleep 0.5; echo done')})\n"
        "forge = LocalForge.create_or_open(Path(sys.argv[1]), config, 'worker-1')\n"
        "pull = forge.create_pull_request(branch='feature', base='main', title='T', body='', draft=False)\n"
        "print(pull.number)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(stage.root)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    number = int(done.stdout)
    forge = stage.forge
    assert isinstance(forge, LocalForge)

    def passed() -> bool:
        with forge._store.read() as connection:  # read without asking for checks, which would start a runner itself
            rows = connection.execute("SELECT state FROM results").fetchall()
        return [row["state"] for row in rows] == ["passed"]

    wait_until(passed, 20, "the check to pass on its own")
    assert forge.checks([number])[number].state is CheckState.PASSED


def test_no_more_runs_than_processors_at_a_time(make_stage: MakeStage, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.mkdir()
    script = sh(f"touch '{counter}'/$$; ls '{counter}' | wc -l; sleep 0.4; rm '{counter}'/$$")
    stage = make_stage(checks={"counts": script})
    numbers = [stage.open(f"feature-{n}").number for n in range(2 * runs.bound() + 1)]
    most = 0

    def all_done() -> bool:
        nonlocal most
        most = max(most, len(runners_of(folder_of(stage))))
        found = stage.forge.checks(numbers)
        return all(one.state is CheckState.PASSED for one in found.values())

    wait_until(all_done, 60, "all checks")
    seen = [int(log_of(one)) for one in stage.forge.checks(numbers).values()]
    assert max(seen) <= runs.bound()
    assert most <= runs.bound() + 1, "one more may be on its way out"


def test_one_run_for_a_head_however_many_ask(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"one": sh("sleep 0.3; echo ran")})
    number = stage.open("feature").number
    others = [
        LocalForge.create_or_open(stage.root, LocalForgeConfig(checks={"one": sh("sleep 0.3; echo ran")}), "conductor")
        for _ in range(3)
    ]
    deadline = time.monotonic() + 20
    while stage.forge.checks([number])[number].state is CheckState.PENDING and time.monotonic() < deadline:
        for other in others:
            other.checks([number])
    for other in others:
        other.close()
    assert log_of(stage.forge.checks([number])[number]) == "ran\n"
    assert len(list((folder_of(stage) / "logs").rglob("*one*.log"))) == 1


def test_a_changed_configuration_runs_the_new_checks_of_the_same_head(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"old": ("false",)})
    number = stage.open("feature").number
    assert settled(stage, number).state is CheckState.FAILED
    changed = LocalForge.create_or_open(stage.root, LocalForgeConfig(checks={"new": ("true",)}), "conductor")
    done = settled(Stage(stage.root, changed, "origin", acting=stage.acting), number)
    assert [(check.name, check.state) for check in done.checks] == [("new", CheckState.PASSED)]
    changed.close()


def test_checks_are_run_again_on_demand_and_only_the_last_run_counts(make_stage: MakeStage, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stage = make_stage(checks={"flaky": ("test", "-f", str(gate))})
    number = stage.open("feature").number
    assert settled(stage, number).state is CheckState.FAILED
    gate.touch()
    assert isinstance(stage.forge, LocalForge)
    assert stage.forge.rerun_checks(number).state is CheckState.PENDING
    assert settled(stage, number).state is CheckState.PASSED


def test_a_result_wakes_the_watcher(make_stage: MakeStage, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stage = make_stage(checks={"waits": sh(f"until test -f '{gate}'; do sleep 0.05; done")})
    number = stage.open("feature").number
    (events,) = stage.forge.wake_paths()
    wait_until(lambda: (events / "checks").exists(), 10, "the start to be told")
    before = (events / "checks").stat().st_ino, (events / "checks").stat().st_mtime_ns
    gate.touch()
    wait_until(
        lambda: ((events / "checks").stat().st_ino, (events / "checks").stat().st_mtime_ns) != before,
        10,
        "the result to be told",
    )
    assert settled(stage, number).state is CheckState.PASSED


def test_a_package_of_the_same_name_in_the_project_is_not_taken_for_ours(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"unit": ("true",)})
    stage.push("main", "conductor/__init__.py", "raise SystemExit('not this one')\n")
    stage.push("main", "schemas/__init__.py", "raise SystemExit('not this one')\n")
    assert settled(stage, stage.open("feature").number).state is CheckState.PASSED


def test_a_log_that_cannot_be_written_is_said_and_the_result_still_counts(tmp_path: Path) -> None:
    log = BoundedLog(Path("/dev/full"))
    log.write(b"some words\n")
    log.close()
    assert "No space left" in log.fault
    assert log.tail() == "some words"


def test_git_variables_of_a_hook_do_not_lead_astray(make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(checks={"unit": sh("git rev-parse HEAD")})
    stage.push("feature")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    opened = stage.forge.create_pull_request(branch="feature", base="main", title="T", body="", draft=False)
    done = settled(stage, opened.number)
    monkeypatch.delenv("GIT_DIR")
    assert log_of(done).strip() == git(stage.root, "rev-parse", "feature")


def test_checks_have_the_ignored_files_that_every_checkout_needs(make_stage: MakeStage) -> None:
    stage = make_stage(checks={"cat": ("cat", "generated.txt")})
    (stage.root / "generated.txt").write_text("by the build\n")
    config = LocalForgeConfig(checks={"cat": ("cat", "generated.txt")})
    LocalForge.create_or_open(stage.root, config, "conductor", needed=["generated.txt"]).close()
    done = settled(stage, stage.open("feature").number)
    assert (done.state, log_of(done)) == (CheckState.PASSED, "by the build\n")
