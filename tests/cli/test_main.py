"""The command as a whole: it starts light, lists its verbs without loading them, and turns faults into exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from conductor.cli import main as module
from conductor.cli.main import VERBS, Verb, cli, main
from conductor.docs.commands import top_context, walk
from schemas.errors import BadInput, Fault, NeedsPerson, NotSo, StillPending, Unavailable
from tests.cli.conftest import Taskmaestro, command, environment
from tests.support.stories import Run
from tests.support.waiting import wait_until

HEAVY = ("pydantic", "libtmux", "git", "rich", "textual", "watchdog", "sqlite3", "conductor.core.cycle")


def loaded(*arguments: str) -> list[str]:
    """The heavy modules that are loaded once the command has run."""
    code = (
        "import sys, json\n"
        "from conductor.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    modules = set(json.loads(done.stderr.splitlines()[-1]))
    assert "conductor.cli.main" in modules
    return [name for name in HEAVY if name in modules]


@pytest.mark.parametrize(
    "arguments", [("--help",), ("status", "--json"), ("status",), ("status", "--help"), ("schema", "result")]
)
def test_reading_verbs_and_help_load_nothing_heavy(run: Run, arguments: tuple[str, ...]) -> None:
    assert loaded(*arguments) == []


def test_garbage_is_looked_for_again_once_a_verb_is_loaded(run: Run) -> None:
    code = (
        "import gc, sys\n"
        "from conductor.__main__ import main\n"
        "sys.argv[1:] = ['journal']\n"
        "main()\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 1000, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.splitlines()[-1] == "True True"


def test_the_list_of_loaded_modules_can_tell(run: Run) -> None:
    assert "pydantic" in loaded("replay")


def test_help_lists_every_verb_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, verb in VERBS.items():
        assert f"{name} {verb.help}" in shown


@pytest.mark.parametrize("name", VERBS)
def test_the_line_in_the_list_is_the_verbs_own(name: str) -> None:
    context = top_context()
    verb = cli.get_command(context, name)
    assert verb is not None
    assert verb.name == name
    assert verb.get_short_help_str(limit=200).rstrip(".") == VERBS[name].help


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_shows_an_example(name: str) -> None:
    context = top_context()
    verb = cli.get_command(context, name)
    assert verb is not None
    for below, its_context in walk(verb, name, context):
        own = its_context.command_path
        group = its_context.parent.command.get_help(its_context.parent) if its_context.parent else ""
        examples = below.get_help(its_context).replace(f"Usage: {own}", "")
        assert f"taskmaestro {own.partition(' ')[2]}" in examples or own in group, f"{own} has no example"


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("taskmaestro ")


def test_an_unknown_verb_is_a_usage_error_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statsu"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "There is no verb `statsu`. Did you mean `status`?" in told.err


def test_a_usage_error_names_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "two"]) == 2
    assert "taskmaestro explain --help" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["explain", "x", "--json"], ["explain", "--jq", ".", "x"], ["explain", "--jq=.", "x"]]
)
def test_a_usage_error_is_json_where_json_is_asked_for(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["ok"] is False
    assert "'x' is not a valid integer" in told["error"]


def plant(monkeypatch: pytest.MonkeyPatch, raised: BaseException) -> None:
    """A verb ``planted`` that raises this."""

    @click.command(name="planted", help="Raise.")
    @click.option("--json", "as_json", is_flag=True, help="JSON.")
    def planted(as_json: bool) -> None:
        raise raised

    monkeypatch.setattr(module, "planted", planted, raising=False)
    monkeypatch.setitem(VERBS, "planted", Verb("conductor.cli.main:planted", "Raise"))


@pytest.mark.parametrize(
    ("fault", "code"),
    [(NotSo, 1), (BadInput, 2), (Unavailable, 3), (NeedsPerson, 4), (StillPending, 8)],
)
def test_each_fault_has_its_exit_code_and_says_what_to_do(
    fault: type[Fault], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, fault("the \x1b[31mmoon is down", "Wait a month."))
    assert main(["planted"]) == code
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "taskmaestro: the [31mmoon is down\nWait a month.\n")
    assert main(["planted", "--json"]) == code
    assert json.loads(capsys.readouterr().err) == {"ok": False, "error": "the [31mmoon is down\nWait a month."}


def test_an_interrupt_ends_with_130_and_no_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, KeyboardInterrupt())
    assert main(["planted"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_defect_is_one_line_and_its_traceback_is_kept_in_the_state_folder(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, ZeroDivisionError("a moon\nof two lines"))
    assert main(["planted"]) == 70
    told = capsys.readouterr().err
    assert "this is a defect of taskmaestro: ZeroDivisionError: a moon\n" in told
    assert "Traceback (" not in told
    (kept,) = run.layout.state.glob("crash-*.txt")
    assert str(kept) in told
    assert "ZeroDivisionError: a moon" in kept.read_text(encoding="utf-8")
    assert kept.stat().st_mode & 0o077 == 0


def test_a_defect_outside_of_a_repository_is_kept_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plant(monkeypatch, RuntimeError("far out"))
    assert main(["planted", "--json"]) == 70
    (kept,) = tmp_path.glob("crash-*.txt")
    assert str(kept) in json.loads(capsys.readouterr().err)["error"]


def test_a_reader_that_stops_reading_ends_it_quietly(run: Run) -> None:
    for number in range(60):
        run.note(f"line {number} {'x' * 2000}")  # more than a pipe holds
    reading, writing = os.pipe()
    process = subprocess.Popen(
        command("journal", "--json"), env=environment(), cwd=run.layout.root, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    _, told = process.communicate(timeout=60)
    assert told == b""
    assert process.returncode == 141


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["up", "--help"], ["pr", "--help"]])
def test_help_that_nobody_reads_any_more_ends_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command(*arguments), env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["journal"], ["--help"], ["explain", "3"]])
@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [(">/dev/full", 3, "No space left on device"), (">&-", 141, "standard output is closed")],
)
def test_an_answer_that_cannot_be_written_is_no_defect(
    run: Run, arguments: list[str], redirection: str, code: int, said: str
) -> None:
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", *command(*arguments)]
    done = subprocess.run(shell, env=environment(), stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "defect" not in done.stderr


def test_without_stdout_and_stderr_the_exit_code_tells(run: Run) -> None:
    shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command("status")]
    assert subprocess.run(shell, env=environment(), timeout=60).returncode == 141
    quiet = ["sh", "-c", 'exec "$@" >&-', "sh", *command("status", "--silent")]
    assert subprocess.run(quiet, env=environment(), timeout=60).returncode == 0


def test_outside_of_a_repository_it_says_where_to_go(tmp_path: Path, taskmaestro: Taskmaestro) -> None:
    done = taskmaestro("status", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not in a git repository" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("verb", ["status", "up"])
@pytest.mark.parametrize("folder", ["", "objects"])
def test_in_a_bare_repository_it_says_that_a_work_tree_is_needed(
    tmp_path: Path, taskmaestro: Taskmaestro, verb: str, folder: str
) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    done = taskmaestro(verb, cwd=tmp_path / folder)
    assert done.returncode == 2
    assert f"{tmp_path.resolve()} is a bare repository" in done.stderr
    assert "clone it" in done.stderr


def test_following_the_journal_ends_quietly_at_an_interrupt(run: Run) -> None:
    process = subprocess.Popen(
        command("journal", "--follow"),
        env=environment(),
        cwd=run.layout.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "conductor started" in first
        seen = [first]

        def grown() -> bool:
            run.note("the moon rises")
            assert process.stdout is not None
            while "the moon rises" not in seen[-1]:
                seen.append(process.stdout.readline())
            return True

        wait_until(grown, what="the new line")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert told == ""
    assert process.returncode == 0
