"""Bad luck on this machine: a clear line for the user, the pane flagged, the others go on."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from conductor.lock import holder
from tests.support.fleet import DEADLINE, FleetWorld, Step, Turn, fleet, good_work, mending, turn, write, wrong_work
from tests.support.repos import commit_file, git
from tests.support.waiting import wait_until

AS_ROOT = os.geteuid() == 0


def gate(world: FleetWorld, name: str = "go") -> tuple[Step, Callable[[], None]]:
    """A step in which an agent waits, and what lets it go on."""
    path = world.folder / name
    return {"run": ["sh", "-c", f"until test -e '{path}'; do sleep 0.05; done"]}, path.touch


def behind(step: Step, work: Turn) -> Turn:
    """The turn with a step before the others."""
    return {**work, "steps": [step, *work["steps"]]}


def told(world: FleetWorld, index: int = 1) -> str:
    held = world.pane(index).get("attention")
    return str(held["message"]) if held else ""


def conductor_screen(world: FleetWorld) -> str:
    rows = world.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_start_command}").splitlines()
    pane = next(row.split()[0] for row in rows if row.split()[-1].strip("'\"") == "conduct")
    shown = world.tmux("capture-pane", "-p", "-J", "-S", "-200", "-t", pane)
    return " ".join(shown.split())  # the live table folds long lines


# --- the disk


@pytest.fixture
def small_disk() -> Iterator[FleetWorld]:
    """A world whose state folder is a file system of 1 MB."""
    with fleet() as world:
        state = world.layout.state
        state.mkdir(parents=True)
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(state)], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            pytest.skip(f"no leave to mount a small file system here: {made.stderr.strip()}")
        try:
            yield world
        finally:
            subprocess.run(["umount", "--lazy", str(state)], check=True)


def approved_or_retried(world: FleetWorld) -> bool:
    """Whether it came to an approval. A review that the full disk kept from being made waits for a person."""
    if world.attention(1) == "review_failed":
        assert "No space left" in told(world)
        world.decide(1, "retry")
        wait_until(lambda: world.attention(1) != "review_failed", DEADLINE, "the retry")
    return bool(world.pane(1)["status"] == "approved")


def fill(path: Path) -> None:
    """Write until the disk is full; raises what says so."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def test_a_full_disk_pauses_the_conductor_and_nothing_is_lost(small_disk: FleetWorld) -> None:
    world = small_disk
    step, go = gate(world)
    world.begin(behind(step, wrong_work(1)), mending(1))
    world.wait_event("task_delivered")
    filler = world.layout.state / "filler"
    with pytest.raises(OSError, match="No space"):
        fill(filler)
    go()
    wait_until(lambda: "no space left on the disk" in conductor_screen(world), DEADLINE, "the line for the user")
    wait_until(lambda: (world.worktree(1) / "RESULT.json").exists(), DEADLINE, "the worker's report")
    filler.unlink()
    wait_until(lambda: approved_or_retried(world), 2 * DEADLINE, "the approval")
    world.wait_settled()
    assert world.turns_done(1) == 2
    assert len(world.reviews(2)) == 2
    world.taskmaestro("replay")


def test_a_journal_that_cannot_grow_pauses_the_conductor_until_it_can(fleet_world: FleetWorld) -> None:
    """The same by a limit on the conductor's files, which needs no leave of anybody."""
    step, go = gate(fleet_world)
    fleet_world.begin(behind(step, good_work(1)))
    fleet_world.wait_event("task_delivered")
    held = holder(fleet_world.layout.lock)
    assert held is not None
    limit = fleet_world.layout.journal.stat().st_size + 10
    resource.prlimit(held["pid"], resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    go()
    wait_until(lambda: "the conductor goes on by itself" in conductor_screen(fleet_world), DEADLINE, "the line")
    assert fleet_world.layout.journal.stat().st_size <= limit
    resource.prlimit(held["pid"], resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.taskmaestro("replay")


@pytest.fixture
def lock_folder() -> Iterator[Callable[[Path], Callable[[], None]]]:
    """Makes a folder one in which nothing can be made, and gives it back."""
    held: list[Path] = []

    def give_back() -> None:
        for path in held:
            if AS_ROOT:
                subprocess.run(["chattr", "-i", str(path)], check=True)
            else:
                path.chmod(0o755)
        held.clear()

    def lock(path: Path) -> Callable[[], None]:
        if AS_ROOT:
            done = subprocess.run(["chattr", "+i", str(path)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"root cannot be kept out of a folder here: {done.stderr.strip()}")
        else:
            path.chmod(0o555)
        held.append(path)
        return give_back

    yield lock
    give_back()


def test_a_folder_that_cannot_be_written_flags_its_pane_and_is_tried_again(
    fleet_world: FleetWorld, lock_folder: Callable[[Path], Callable[[], None]]
) -> None:
    step, go = gate(fleet_world)
    fleet_world.tables["forge.local.checks"] = {
        "quick": ["sh", "-c", f"while test -e '{fleet_world.folder}/hold'; do sleep 0.05; done"]
    }
    (fleet_world.folder / "hold").touch()
    fleet_world.begin(wrong_work(1), mending(1), behind(step, good_work(2)), issues=2)
    fleet_world.wait_status(1, "reviewing")
    give_back = lock_folder(fleet_world.worktree(1))
    (fleet_world.folder / "hold").unlink()
    state = wait_until(lambda: fleet_world.pane(1) if told(fleet_world) else None, DEADLINE, "the flag")
    assert state is not None
    assert str(fleet_world.worktree(1)) in told(fleet_world)
    assert "tried again" in told(fleet_world)
    go()
    fleet_world.wait_status(2, "approved", attention=None)
    give_back()
    fleet_world.wait_status(1, "approved", cycle=1, attention=None, timeout=2 * DEADLINE)
    fleet_world.taskmaestro("replay")


# --- commands


VERIFY = """\
if test -e hang.txt; then sleep 987 & echo $! > "{folder}/hung"; wait; fi
if test -e loud.txt; then head -c 104857600 /dev/zero | tr '\\0' x; exit 1; fi
"""
CHECK = """\
if test -e daemon.txt; then setsid sh -c 'echo $$ > "{folder}/daemon"; exec sleep 986' & fi
until test ! -e daemon.txt || test -s "{folder}/daemon"; do sleep 0.02; done
"""


def file_work(issue: int, name: str) -> Turn:
    steps = [{"write": {"path": name, "text": f"{issue}\n"}}, {"git": ["add", name]}, {"ship": {"title": name}}]
    return {"issue": issue, "task": "first", "steps": steps}


def ended(pid_file: Path) -> bool:
    pid = int(pid_file.read_text())
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_commands_that_hang_shout_or_leave_daemons_hurt_nobody_else(fleet_world: FleetWorld) -> None:
    world = fleet_world
    world.begin(
        file_work(1, "hang.txt"),
        file_work(2, "loud.txt"),
        file_work(3, "daemon.txt"),
        good_work(4),
        turn(2, "fix", {"say": "Hm"}),
        issues=4,
        review={"step_timeout": 3.0},
        review__verification={"quick": ["sh", "-c", VERIFY.format(folder=world.folder)]},
        forge__local__checks={"quick": ["sh", "-c", CHECK.format(folder=world.folder)]},
    )
    world.wait_status(4, "approved", attention=None)
    world.wait_status(3, "approved", attention=None)
    assert ended(world.folder / "daemon")
    world.wait_status(1, "reviewing", attention="review_failed")
    assert "quick" in told(world)
    assert "3 s" in told(world)
    world.wait_status(2, "review_pending", cycle=1)
    world.wait_settled()
    assert ended(world.folder / "hung")
    assert world.reviews(world.pane(1)["pr_number"]) == []
    (shouted,) = [row["body"] for row in world.reviews(world.pane(2)["pr_number"])]
    assert "quick" in shouted
    assert len(shouted) < 70_000
    assert world.layout.journal.stat().st_size < 2_000_000
    held = holder(world.layout.lock)
    assert held is not None
    assert psutil.Process(held["pid"]).memory_info().rss < 300_000_000


# --- the forge


def pending_review(world: FleetWorld) -> Callable[[], None]:
    """A pane whose checks are awaited; answers what lets them pass."""
    hold = world.folder / "hold"
    hold.touch()
    world.begin(
        good_work(1),
        forge__local__checks={"quick": ["sh", "-c", f"while test -e '{hold}'; do sleep 0.05; done"]},
        ci={"poll": 0.5},
    )
    world.wait_status(1, "reviewing")
    return hold.unlink


def test_a_remote_that_is_gone_is_reported_and_asked_again(fleet_world: FleetWorld) -> None:
    pass_checks = pending_review(fleet_world)
    wait_until(lambda: run_is_started(database_of(fleet_world)), DEADLINE, "the checks' start")
    repo = fleet_world.layout.home / "forge" / "repo.git"
    repo.rename(repo.with_name("away.git"))
    fleet_world.wait_status(1, "reviewing", attention="forge_unavailable")
    assert "repo.git" in told(fleet_world)
    assert "Traceback" not in told(fleet_world)
    repo.with_name("away.git").rename(repo)
    pass_checks()
    fleet_world.wait_status(1, "approved", attention=None, timeout=2 * DEADLINE)


def test_a_damaged_forge_database_keeps_the_conductor_from_starting_and_nothing_is_lost(
    fleet_world: FleetWorld,
) -> None:
    pass_checks = pending_review(fleet_world)
    database = database_of(fleet_world)
    wait_until(lambda: run_is_started(database), DEADLINE, "the checks' start")
    fleet_world.taskmaestro("stop")
    pass_checks()
    wait_until(lambda: run_is_over(database), DEADLINE, "the checks' end")
    with sqlite3.connect(database, timeout=30) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = database.read_bytes()
    database.write_bytes(b"this is no database " * 200)
    refused = fleet_world.taskmaestro("conduct", "--plain", code=3)
    assert str(database) in refused.stderr
    assert "Traceback" not in refused.stderr
    database.write_bytes(whole)
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved", attention=None)


def database_of(world: FleetWorld) -> Path:
    return world.layout.home / "forge" / "forge.sqlite3"


def run_is_over(database: Path) -> bool:
    with sqlite3.connect(database, timeout=30) as connection:
        return connection.execute("SELECT count(*) FROM runs WHERE state <> 'done'").fetchone()[0] == 0


def run_is_started(database: Path) -> bool:
    with sqlite3.connect(database, timeout=30) as connection:
        return connection.execute("SELECT count(*) FROM results WHERE pid IS NOT NULL").fetchone()[0] > 0


def test_a_locked_forge_database_only_delays(fleet_world: FleetWorld) -> None:
    pass_checks = pending_review(fleet_world)
    database = database_of(fleet_world)
    wait_until(lambda: run_is_started(database), DEADLINE, "the checks' start")
    lock = sqlite3.connect(database, timeout=30, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        pass_checks()
        polls = len(fleet_world.journal())
        wait_until(lambda: told(fleet_world) or len(fleet_world.journal()) >= polls, DEADLINE)
    finally:
        lock.close()
    fleet_world.wait_status(1, "approved", attention=None, timeout=2 * DEADLINE)


# --- the worktree


def test_a_worktree_that_was_deleted_by_hand_flags_its_pane_and_its_lone_commits_are_kept(
    fleet_world: FleetWorld,
) -> None:
    step, go = gate(fleet_world)
    fleet_world.begin(turn(1, "first", {"wait": 600}), behind(step, good_work(2)), issues=2)
    fleet_world.wait_event("task_delivered", 2)
    git(fleet_world.worktree(1), "checkout", "-q", "--detach")
    lone = commit_file(fleet_world.worktree(1), "lone.txt", "lone\n")
    shutil.rmtree(fleet_world.worktree(1))
    wait_until(lambda: str(fleet_world.worktree(1)) in told(fleet_world), DEADLINE, "the flag")
    assert "refs/taskmaestro/recovery/wt-1/" in told(fleet_world)
    go()
    fleet_world.wait_status(2, "approved", attention=None)
    fleet_world.turns.append(good_work(1))
    fleet_world.configure()
    said = fleet_world.taskmaestro("up").stderr
    fleet_world.wait_status(1, "working")
    assert fleet_world.worktree(1).is_dir()
    ref = fleet_world.git("for-each-ref", "--format=%(refname)", "refs/taskmaestro/recovery/wt-1").strip()
    assert f"git branch NAME {ref}" in said
    assert fleet_world.git("rev-parse", ref).strip() == lone


# --- RESULT.json


def invalid(world: FleetWorld, text: str | bytes, *, count: int) -> str:
    """Write this as RESULT.json in place; the message that the pane shows then."""
    data = text.encode() if isinstance(text, str) else text
    (world.worktree(1) / "RESULT.json").write_bytes(data)
    world.wait_event("result_invalid", count)
    world.wait_status(1, "working", attention="invalid_result")
    world.wait_event("task_delivered", count + 1)
    return told(world)


def test_results_that_cannot_be_read_are_shown_with_their_place_and_told_once(fleet_world: FleetWorld) -> None:
    world = fleet_world
    world.begin(turn(1, "first", {"say": "Over to you"}), turn(1, "notice", {"say": "I see"}, repeat=True))
    world.wait_event("task_delivered")
    path = str(world.worktree(1) / "RESULT.json")
    shown = invalid(world, '{"status": "success",\n "pr_number": }', count=1)
    assert path in shown
    assert "line 2" in shown
    assert "pr_number" in invalid(world, '{"status": "success", "issue": 1}', count=2)
    assert "status" in invalid(world, '{"status": "finished"}', count=3)
    assert "object" in invalid(world, "[1, 2]", count=4)
    assert "UTF-8" in invalid(world, b'{"status": "\xff"}', count=5)
    assert "at most 1048576 bytes" in invalid(world, b" " * (1024 * 1024 + 1), count=6)
    result = world.worktree(1) / "RESULT.json"
    result.unlink()
    result.symlink_to(world.script)
    world.wait_event("result_invalid", 7)
    result.unlink()
    os.mkfifo(result)
    world.wait_event("result_invalid", 8)
    world.wait_event("task_delivered", 9)
    result.unlink()
    world.wait_settled()
    wait_until(lambda: world.turns_done(1) == 9, DEADLINE, "one notice for each of the eight")
    assert len(world.events("result_invalid")) == 8
    assert len(world.events("task_delivered")) == 9
    assert world.status()[1]["attention"]["reason"] == "invalid_result"


def test_a_result_for_another_issue_goes_to_quarantine(fleet_world: FleetWorld) -> None:
    fleet_world.begin(
        turn(1, "first", write("x.txt", "x\n"), {"result": {"status": "success", "pr_number": 2, "issue": 9}})
    )
    kept = wait_until(lambda: list(fleet_world.layout.quarantine.glob("wt-1-*")), DEADLINE, "the quarantine")
    assert b'"issue": 9' in kept[0].read_bytes()
    assert not (fleet_world.worktree(1) / "RESULT.json").exists()
    assert fleet_world.wait_status(1, "working", attention=None)["review_cycle"] == 0
