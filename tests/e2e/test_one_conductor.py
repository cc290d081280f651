"""One conductor for each repository, and a journal whose last line was torn."""

from __future__ import annotations

import json
import os
import socket

from conductor.lock import holder
from tests.support.fleet import DEADLINE, FleetWorld, good_work, turn
from tests.support.waiting import wait_until


def test_a_second_conductor_is_refused_with_the_first_ones_pid_and_host(fleet_world: FleetWorld) -> None:
    fleet_world.begin(turn(1, "first", {"say": "Thinking"}))
    first = holder(fleet_world.layout.lock)
    assert first is not None
    refused = fleet_world.taskmaestro("conduct", "--plain", code=3)
    assert f"pid {first['pid']} on {socket.gethostname()}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert holder(fleet_world.layout.lock) == first


def test_a_torn_last_line_is_kept_aside_and_reported_and_the_run_goes_on(fleet_world: FleetWorld) -> None:
    fleet_world.begin(turn(1, "first", {"say": "Waiting"}, {"wait": 600}), good_work(2), issues=1)
    fleet_world.wait_event("task_delivered")
    fleet_world.kill_conductor()
    journal = fleet_world.layout.journal
    whole = journal.read_bytes()
    torn = b'{"seq": 99, "at": "2026-01-01T00:0'
    journal.write_bytes(whole + torn)
    second = fleet_world.issue("Another")
    fleet_world.up(second, count=2)
    fleet_world.wait_status(2, "approved")
    kept = list(journal.parent.glob("journal.jsonl.torn-*"))
    assert [path.read_bytes() for path in kept] == [torn]
    assert journal.read_bytes().startswith(whole)
    assert any("torn" in note and str(kept[0]) in note for note in fleet_world.notes())
    fleet_world.wait_settled()
    fleet_world.taskmaestro("replay")


def test_up_makes_nothing_where_the_journal_cannot_be_read_and_says_what_the_conductor_says(
    fleet_world: FleetWorld,
) -> None:
    fleet_world.layout.state.mkdir(parents=True)
    fleet_world.layout.journal.write_text("garbage\n")
    told = [fleet_world.taskmaestro(*argv, code=2).stderr for argv in (["up", "2"], ["conduct", "--plain"], ["replay"])]
    assert f"{fleet_world.layout.journal}, line 1: not a journal line" in told[0]
    assert told[0] == told[1] == told[2]
    assert not list(fleet_world.layout.home.glob("wt-*"))
    assert fleet_world.tmux("list-sessions") == ""
    fleet_world.layout.journal.unlink()
    fleet_world.up(count=2)


def test_up_says_that_the_conductor_ended_with_what_its_pane_shows(fleet_world: FleetWorld) -> None:
    fleet_world.layout.state.mkdir(parents=True)
    fleet_world.layout.panes.write_text("no folder\n")
    told = fleet_world.taskmaestro("up", "1", code=3).stderr
    assert "the conductor ended as soon as it was started; its pane shows:" in told
    assert str(fleet_world.layout.panes) in told
    fleet_world.layout.panes.unlink()
    assert "the conductor runs" in fleet_world.taskmaestro("up").stdout
    fleet_world.wait_status(1, attention=None)


def test_when_up_has_ended_the_conductor_is_at_its_work(fleet_world: FleetWorld) -> None:
    fleet_world.configure()
    conductor = json.loads(fleet_world.taskmaestro("up", "1", "--json").stdout)["conductor"]
    assert conductor["begun"] is True
    assert f"conductor started (pid {conductor['pid']})" in fleet_world.notes()


def test_a_killed_conductor_is_followed_by_one_that_goes_on(fleet_world: FleetWorld) -> None:
    fleet_world.begin(turn(1, "first", {"wait": 0.5}, *good_work(1)["steps"]))
    fleet_world.wait_event("task_delivered")
    gone = fleet_world.kill_conductor()
    wait_until(lambda: fleet_world.worktree(1).joinpath("RESULT.json").exists(), DEADLINE, "the worker's report")
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved")
    held = holder(fleet_world.layout.lock)
    assert held is not None
    assert held["pid"] not in (gone, os.getpid())
    assert fleet_world.turns_done(1) == 1
    assert json.loads(fleet_world.taskmaestro("status", "--json").stdout)["conductor"]["pid"] == held["pid"]
