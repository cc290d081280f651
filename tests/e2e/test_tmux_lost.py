"""tmux and its users: a server that dies in the middle, a configuration of one's own, neighbours with like names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.panes.tmux import session_name
from tests.support.fleet import DEADLINE, FleetWorld, fleet, good_work, mending, turn, wrong_work
from tests.support.waiting import wait_until

USER_CONFIG = """\
set -g base-index 1
set -g pane-base-index 1
set -g renumber-windows on
set -g remain-on-exit on
set -g mouse on
set -g default-shell /bin/sh
set -g prefix C-a
set -g status-position top
set -g pane-border-status top
set -g automatic-rename on
set-hook -g after-new-window 'set-option -g @windows made'
set-hook -g after-split-window 'set-option -g @splits made'
"""


def until_killed(world: FleetWorld) -> None:
    """A run up to the middle: a fix task is delivered, and the agent is at work on it."""
    slow = mending(2)
    slow["steps"].insert(0, {"wait": 600})
    world.begin(turn(1, "first", {"say": "Thinking"}, {"wait": 600}), wrong_work(2), slow, issues=2)
    world.wait_status(2, "review_pending", cycle=1)
    world.wait_event("task_delivered", 3)


def forget_turns(world: FleetWorld) -> None:
    """The work that tmux took down with it is done by the next agents without waiting."""
    world.turns[:] = [good_work(1), wrong_work(2), mending(2), mending(2)]
    world.configure()
    for path in world.memory.glob("*.json"):
        path.unlink()


def test_kill_server_in_the_middle_and_up_brings_panes_agents_and_unfinished_tasks_back(
    fleet_world: FleetWorld,
) -> None:
    until_killed(fleet_world)
    before = {index: fleet_world.pane_id(index) for index in (1, 2)}
    fleet_world.tmux("kill-server")
    forget_turns(fleet_world)
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved", cycle=0)
    fleet_world.wait_status(2, "approved", cycle=1, attention=None)
    fleet_world.wait_settled()
    for index in (1, 2):
        assert fleet_world.tmux("list-panes", "-a", "-F", "#{pane_id}").count(fleet_world.pane_id(index)) == 1
    pulls = [fleet_world.pane(index)["pr_number"] for index in (1, 2)]
    assert sorted(len(fleet_world.reviews(pull)) for pull in pulls) == [1, 2], before
    fleet_world.taskmaestro("replay")


@pytest.fixture
def odd_world(isolated: Path) -> Iterator[FleetWorld]:
    """A path with spaces, quotes and unicode, a user's tmux.conf, and another session whose name begins alike."""
    (isolated / ".tmux.conf").write_text(USER_CONFIG)
    with fleet("über the #1 «shop»; it's", strict=True) as world:
        yield world


def neighbour_names(world: FleetWorld) -> list[str]:
    """Names that begin as the session's own, and that the session's own begins with."""
    session = session_name(world.root)
    return sorted([f"{session}-2", session[:-2]])


def neighbours(world: FleetWorld) -> None:
    """A person's own sessions. The first client starts the server, with the user's configuration."""
    for name in neighbour_names(world):
        argv = ["tmux", "-S", str(world.socket), "new-session", "-d", "-s", name, "sleep 600"]
        # A server that was killed a moment ago may still refuse its next client.
        wait_until(lambda argv=argv: subprocess.run(argv, timeout=30).returncode == 0, DEADLINE, "a session")


def test_a_users_own_tmux_and_an_odd_path_make_no_difference(odd_world: FleetWorld) -> None:
    session = session_name(odd_world.root)
    neighbours(odd_world)
    assert odd_world.tmux("show-options", "-gv", "base-index").strip() == "1"
    odd_world.begin(wrong_work(1), mending(1))
    odd_world.wait_status(1, "approved", cycle=1)
    odd_world.wait_settled()
    assert odd_world.tmux("show-options", "-gv", "mouse").strip() == "on"
    assert odd_world.tmux("show-options", "-gv", "prefix").strip() == "C-a"
    assert odd_world.tmux("show-options", "-gv", "pane-border-status").strip() == "top"
    odd_world.tmux("kill-server")
    neighbours(odd_world)
    issue = odd_world.issue("More")
    odd_world.turns.append(good_work(issue))
    odd_world.configure()
    odd_world.up(issue)
    wait_until(lambda: odd_world.pane(1)["issue"] == issue, DEADLINE, "the new task")
    odd_world.wait_status(1, "approved")
    odd_world.taskmaestro("stop", "--panes")
    assert sorted(odd_world.tmux("list-sessions", "-F", "#S").split()) == neighbour_names(odd_world)
    odd_world.taskmaestro("up")
    wait_until(lambda: session in odd_world.tmux("list-sessions", "-F", "#S").split(), DEADLINE, "the session")
    odd_world.taskmaestro("cleanup", "--force")
    assert sorted(odd_world.tmux("list-sessions", "-F", "#S").split()) == neighbour_names(odd_world)
    assert not list(odd_world.layout.home.glob("wt-*"))
