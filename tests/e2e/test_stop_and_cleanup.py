"""``stop`` and ``cleanup``: what ends, what stays, and that no work is ever lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from conductor.forge.local.forge import LocalForge
from conductor.lock import holder
from conductor.panes.tmux import session_name
from schemas.config import LocalForgeConfig
from tests.support.fleet import DEADLINE, FleetWorld, good_work, turn
from tests.support.repos import commit_file, git
from tests.support.waiting import wait_until


def sessions(world: FleetWorld) -> list[str]:
    return world.tmux("list-sessions", "-F", "#S").split()


def test_cleanup_refuses_and_lists_what_would_be_lost(fleet_world: FleetWorld) -> None:
    work = turn(
        1,
        "first",
        {"write": {"path": "kept.txt", "text": "kept\n"}},
        {"git": ["add", "kept.txt"]},
        {"git": ["commit", "-q", "-m", "Not pushed anywhere"]},
        {"write": {"path": "new.txt", "text": "new\n"}},
        {"write": {"path": "README.md", "text": "changed\n"}},
        {"write": {"path": ".gitignore", "text": ".env\n"}},
        {"git": ["add", ".gitignore"]},
        {"write": {"path": ".env", "text": "SECRET=1\n"}},
        {"say": "That is all"},
    )
    fleet_world.begin(work, good_work(2), issues=2)
    fleet_world.wait_status(2, "approved")
    fleet_world.wait_settled()
    wait_until(lambda: "That is all" in fleet_world.capture(1), DEADLINE, "the agent's work")
    refused = fleet_world.taskmaestro("cleanup", code=1).stderr
    for name in ("README.md", "new.txt", ".env", "Not pushed anywhere"):
        assert name in refused
    assert "pane 2" not in refused
    assert fleet_world.worktree(1).is_dir()
    assert fleet_world.worktree(2).is_dir()
    assert holder(fleet_world.layout.lock) is not None

    removed = json.loads(fleet_world.taskmaestro("cleanup", "--force", "--json").stdout)["removed"]
    ref = removed["1"]
    assert ref.startswith("refs/taskmaestro/recovery/")
    assert removed["2"] is None
    assert not list(fleet_world.layout.home.glob("wt-*"))
    assert holder(fleet_world.layout.lock) is None
    wait_until(lambda: session_name(fleet_world.root) not in sessions(fleet_world), DEADLINE, "the session's end")
    rescued = fleet_world.folder / "rescued"
    fleet_world.git("worktree", "add", "--quiet", str(rescued), ref)
    texts = {name: (rescued / name).read_text() for name in ("kept.txt", "new.txt", "README.md", ".env")}
    assert texts == {"kept.txt": "kept\n", "new.txt": "new\n", "README.md": "changed\n", ".env": "SECRET=1\n"}


def test_work_that_was_merged_by_squash_needs_no_force(fleet_world: FleetWorld) -> None:
    fleet_world.begin(good_work(1))
    fleet_world.wait_status(1, "approved")
    fleet_world.wait_settled()
    branch = fleet_world.pane(1)["branch"]
    forge = LocalForge.create_or_open(fleet_world.root, LocalForgeConfig())
    forge.merge(fleet_world.pane(1)["pr_number"], method="squash")
    forge.close()
    fleet_world.wait_event("pr_merged")
    fleet_world.git("push", "--quiet", "origin", "--delete", branch)
    fleet_world.git("fetch", "--quiet", "--prune", "origin")
    done = fleet_world.taskmaestro("cleanup")
    assert "Removed 1 worktree" in done.stdout
    assert fleet_world.git("for-each-ref", "refs/taskmaestro/recovery") == ""
    assert branch not in fleet_world.git("branch", "--list")


def test_one_pane_can_be_cleaned_up_while_the_others_go_on(fleet_world: FleetWorld) -> None:
    waits = turn(2, "first", {"run": ["sh", "-c", f"until test -e '{fleet_world.folder}/go'; do sleep 0.05; done"]})
    fleet_world.begin(good_work(1), {**waits, "steps": waits["steps"] + good_work(2)["steps"]}, issues=2)
    fleet_world.wait_status(1, "approved")
    fleet_world.wait_settled()
    fleet_world.taskmaestro("cleanup", "--pane", "1")
    assert not fleet_world.worktree(1).exists()
    assert 1 not in fleet_world.status()
    (fleet_world.folder / "go").touch()
    fleet_world.wait_status(2, "approved")
    fleet_world.wait_settled()
    fleet_world.taskmaestro("replay")


def test_stop_ends_the_conductor_alone_and_up_goes_on(fleet_world: FleetWorld) -> None:
    waits = {"run": ["sh", "-c", f"until test -e '{fleet_world.folder}/go'; do sleep 0.05; done"]}
    fleet_world.begin(turn(1, "first", waits, *good_work(1)["steps"]))
    fleet_world.wait_event("task_delivered")
    fleet_world.taskmaestro("stop")
    assert holder(fleet_world.layout.lock) is None
    pane = fleet_world.pane_id(1)
    (fleet_world.folder / "go").touch()
    wait_until(lambda: (fleet_world.worktree(1) / "RESULT.json").exists(), DEADLINE, "the worker's report")
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved")
    assert fleet_world.pane_id(1) == pane
    assert fleet_world.turns_done(1) == 1


def test_stop_with_panes_ends_everything_and_up_brings_it_back(fleet_world: FleetWorld) -> None:
    fleet_world.begin(turn(1, "first", {"wait": 600}), good_work(1))
    fleet_world.wait_event("task_delivered")
    fleet_world.taskmaestro("stop", "--panes")
    assert session_name(fleet_world.root) not in sessions(fleet_world)
    assert fleet_world.worktree(1).is_dir()
    assert "No conductor ran" in fleet_world.taskmaestro("stop").stdout
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved")
    assert fleet_world.turns_done(1) == 2


def test_a_replay_after_a_cleanup_says_that_the_removal_waits_and_finds_no_difference(fleet_world: FleetWorld) -> None:
    fleet_world.begin(good_work(1))
    fleet_world.wait_status(1, "approved")
    fleet_world.wait_settled()
    fleet_world.taskmaestro("cleanup")
    told = fleet_world.taskmaestro("replay").stdout
    assert "states and files agree" in told
    assert "1 request waits for a conductor" in told


def two_idle(world: FleetWorld) -> None:
    world.begin(turn(1, "first", {"wait": 600}), turn(2, "first", {"wait": 600}), issues=2)
    world.wait_event("task_delivered", 2)


def test_a_cleanup_that_fails_changes_nothing(fleet_world: FleetWorld) -> None:
    two_idle(fleet_world)
    held = holder(fleet_world.layout.lock)
    without = fleet_world.folder / "without-tmux"
    without.mkdir()
    (without / "git").symlink_to(str(shutil.which("git")))
    (without / "env").symlink_to(str(shutil.which("env")))
    usual = fleet_world.environment.get("PATH")
    fleet_world.environment["PATH"] = str(without)
    refused = fleet_world.taskmaestro("cleanup", code=3).stderr
    fleet_world.environment.pop("PATH")
    fleet_world.environment.update({"PATH": usual} if usual else {})
    assert "tmux" in refused
    fleet_world.git("init", "-q", str(fleet_world.worktree(2) / "nested"))  # no commit can keep it
    assert "nested" in fleet_world.taskmaestro("cleanup", "--force", code=1).stderr
    fleet_world.git("worktree", "lock", str(fleet_world.worktree(1)))
    assert "is locked" in fleet_world.taskmaestro("cleanup", "--pane", "1", code=1).stderr
    assert holder(fleet_world.layout.lock) == held
    assert "pane_removed" not in fleet_world.layout.journal.read_text()
    assert set(fleet_world.status()) == {1, 2}


def test_commits_that_no_branch_holds_are_kept_and_a_deleted_worktree_can_be_cleaned_up(
    fleet_world: FleetWorld,
) -> None:
    two_idle(fleet_world)
    dropped = []
    for index in (1, 2):
        dropped.append(commit_file(fleet_world.worktree(index), "lone.txt", f"{index}\n"))
        git(fleet_world.worktree(index), "reset", "-q", "--hard", "HEAD~1")
    shutil.rmtree(fleet_world.worktree(2))
    done = [fleet_world.taskmaestro("cleanup", "--pane", str(index), "--json") for index in (2, 1)]
    for said, index in zip(done, (2, 1), strict=True):
        (ref,) = json.loads(said.stdout)["dropped"][str(index)]
        assert fleet_world.git("rev-parse", ref).strip() == dropped[index - 1]
        assert f"git branch NAME {ref}" in said.stderr
    assert not list(fleet_world.layout.panes.glob("*.json"))


def test_the_second_of_two_cleanups_says_that_there_is_nothing_to_remove(fleet_world: FleetWorld) -> None:
    two_idle(fleet_world)
    with ThreadPoolExecutor() as both:
        calls = [both.submit(fleet_world.taskmaestro, "cleanup", "--pane", "1", code=None) for _ in range(2)]
        said = sorted(
            (call.result().stdout + call.result().stderr for call in calls), key=lambda text: "Removed" in text
        )
    assert "Removed 1 worktree(s)." in said[1]
    # The later one may also have begun when all was over.
    assert "Nothing to remove." in said[0] or "pane 1 has no worktree" in said[0]


def stands_or_is_gone(world: FleetWorld, *, stands: bool | None = None) -> None:
    """Either two panes in order with a living conductor, or nothing at all; never some of both."""
    there = holder(world.layout.lock) is not None
    assert stands in (None, there)
    assert {path.name for path in world.layout.home.glob("wt-*")} == ({"wt-1", "wt-2"} if there else set())
    assert (session_name(world.root) in sessions(world)) == there
    if there:
        for index in (1, 2):
            world.wait_status(index, attention=None)
        world.wait_settled()
    assert set(world.status()) == ({1, 2} if there else set())
    assert "states and files agree" in world.taskmaestro("replay").stdout
    assert not {"pane_died", "effect_failed"} & {event["kind"] for event in world.events()}


@pytest.mark.parametrize("when", ["it has its turn", "a worktree is gone", "the session is gone", "at once"])
def test_an_up_that_comes_into_a_cleanup_waits_and_then_brings_everything_back(
    fleet_world: FleetWorld, when: str
) -> None:
    two_idle(fleet_world)
    fleet_world.taskmaestro("stop")
    with ThreadPoolExecutor() as both:
        cleanup = both.submit(fleet_world.taskmaestro, "cleanup", "--force")
        reached = {
            "it has its turn": lambda: holder(fleet_world.layout.turn) is not None,
            "a worktree is gone": lambda: not fleet_world.worktree(1).exists(),
            "the session is gone": lambda: session_name(fleet_world.root) not in sessions(fleet_world),
            "at once": lambda: True,
        }[when]
        wait_until(lambda: reached() or cleanup.done(), DEADLINE, when)
        up = both.submit(fleet_world.taskmaestro, "up", "2")
        assert "Removed 2 worktree(s)." in cleanup.result().stdout
        up.result()
    stands_or_is_gone(fleet_world, stands=None if when == "at once" else True)


@pytest.mark.parametrize("when", ["it has its turn", "a worktree is there", "a conductor lives"])
@pytest.mark.parametrize("verb", ["stop", "cleanup"])
def test_what_ends_a_fleet_waits_for_the_up_that_is_at_work(fleet_world: FleetWorld, verb: str, when: str) -> None:
    fleet_world.configure()
    with ThreadPoolExecutor() as both:
        up = both.submit(fleet_world.taskmaestro, "up", "2")
        reached = {
            "it has its turn": lambda: holder(fleet_world.layout.turn) is not None,
            "a worktree is there": lambda: fleet_world.worktree(1).exists(),
            "a conductor lives": lambda: holder(fleet_world.layout.lock) is not None,
        }[when]
        wait_until(lambda: reached() or up.done(), DEADLINE, when)
        after = both.submit(fleet_world.taskmaestro, verb)
        assert "the conductor runs (pid" in up.result().stdout
        said = after.result().stdout
    assert said.startswith("Removed 2" if verb == "cleanup" else "The conductor (pid")
    assert holder(fleet_world.layout.lock) is None
    if verb == "stop":
        fleet_world.taskmaestro("up")
    stands_or_is_gone(fleet_world, stands=verb == "stop")


def test_when_stop_says_that_it_ended_its_process_has_and_up_starts_the_next_one(fleet_world: FleetWorld) -> None:
    """The conductor's pane is free then: a process that only lets go of its lock would be taken for the next one."""
    fleet_world.begin(good_work(1))
    for _ in range(4):
        pid = fleet_world.conductor()
        fleet_world.taskmaestro("stop")
        fleet_world.taskmaestro("up")
        assert not psutil.pid_exists(pid)
    fleet_world.wait_status(1, "approved", attention=None)


def test_a_pane_that_was_cleaned_up_is_missed_by_no_later_conductor(fleet_world: FleetWorld) -> None:
    fleet_world.begin(good_work(1))
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.wait_settled()
    fleet_world.taskmaestro("stop", "--panes")
    fleet_world.taskmaestro("cleanup", "--force")
    before = len(fleet_world.journal())
    fleet_world.taskmaestro("up", "1")

    def kinds() -> list[str]:
        return [line["event"]["kind"] for line in fleet_world.journal()[before:] if line.get("event")]

    wait_until(lambda: "pane_bound" in kinds(), DEADLINE, "the new pane")
    assert "pane_removed" in kinds()
    assert not {"pane_died", "effect_failed"} & set(kinds()[: kinds().index("pane_removed")])


@pytest.mark.parametrize("end", ["stop", "hangup", "kill-server"])
def test_a_review_that_an_end_interrupts_is_run_by_the_next_conductor(fleet_world: FleetWorld, end: str) -> None:
    gate = fleet_world.folder / "go"
    slow = ["sh", "-c", f"while ! test -e {gate}; do sleep 0.05; done"]
    fleet_world.begin(good_work(1), review__verification={"quick": slow})
    wait_until(
        lambda: any(one["stage"] == "running" for one in fleet_world.events("review_stage")), DEADLINE, "the review"
    )
    pid = fleet_world.conductor()
    if end == "stop":
        fleet_world.taskmaestro("stop")
    elif end == "hangup":
        os.kill(pid, signal.SIGHUP)
    else:
        fleet_world.tmux("kill-server")
    wait_until(lambda: holder(fleet_world.layout.lock) is None, DEADLINE, "the conductor's end")
    gate.touch()
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.wait_settled()
    assert len(fleet_world.reviews(2)) == 1
    assert json.loads(fleet_world.taskmaestro("replay", "--json").stdout)["differences"] == []
