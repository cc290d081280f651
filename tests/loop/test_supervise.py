"""The supervisor before panes that are set by the test: events for what agents do, and no look at quiet panes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.loop.delivery import Place
from conductor.loop.limits import Limits
from conductor.loop.supervise import Supervisor, place_in
from conductor.ports import AgentState, PaneInfo
from schemas.errors import Unavailable
from schemas.events import AgentSeen, Event, PaneAdded, PaneDied, TaskDelivered
from schemas.pane import Role
from tests.core.cycle_play import Play
from tests.support.waiting import wait_until


class PanesDouble:
    """Terminals of which only what the supervisor asks is there."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.gone: set[str] = set()
        self.on_change: Callable[[str, str], None] = lambda _pane, _what: None

    def watch(self, on_change: Callable[[str, str], None]) -> None:
        self.on_change = on_change

    def info(self, pane_id: str) -> PaneInfo | None:
        if pane_id in self.gone:
            return None
        dead = pane_id in self.dead
        return PaneInfo(pane_id, "s", "@1", dead, 3 if dead else None, 1, "x", "t", False, 80, 24)


class AgentsDouble:
    """The deliverer's part: what state an agent is in."""

    def __init__(self) -> None:
        self.state: AgentState | Exception = AgentState("busy")
        self.looks = 0
        self.starting = False
        self.limits = Limits()
        self.input = True

    def takes_input(self, _place: Place) -> bool:
        return self.input

    def is_starting(self, _index: int) -> bool:
        return self.starting

    def state_of(self, _place: Place) -> AgentState:
        self.looks += 1
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


class Watching:
    """A supervisor over one pane that is played by the rules."""

    def __init__(self, play: Play, silent_after: float = 900.0) -> None:
        self.play = play
        self.panes = PanesDouble()
        self.agents = AgentsDouble()
        self.events: list[Event] = []
        self.woken: list[int] = []
        self.trouble: list[str] = []
        self.supervisor = Supervisor(
            self.panes,  # type: ignore[arg-type]
            self.agents,  # type: ignore[arg-type]
            lambda: play.memory.fleet,
            self.observe,
            self.woken.append,
            silent_after=silent_after,
            on_trouble=self.trouble.append,
        )

    def observe(self, event: Event) -> None:
        self.play.say(event)
        self.events.append(event)

    def says(self, what: str) -> None:
        self.panes.on_change("%1", what)

    def states(self) -> list[str]:
        return [event.state if isinstance(event, AgentSeen) else event.kind for event in self.events]

    def looked(self, count: int) -> None:
        wait_until(lambda: self.agents.looks >= count, what=f"{count} looks")


def with_task() -> Play:
    play = Play()
    play.task()
    assert play.pane.task is not None
    play.say(TaskDelivered(pane=1, at=play.now, task_id=play.pane.task.task_id, evidence="x"))
    return play


@pytest.fixture
def watching() -> Iterator[Watching]:
    one = Watching(with_task())
    one.supervisor.start()
    one.looked(1)
    yield one
    one.supervisor.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "supervise"]


def test_each_pane_is_looked_at_once_at_the_start(watching: Watching) -> None:
    wait_until(lambda: watching.states() == ["busy"])


def test_an_agent_that_fell_quiet_is_looked_at_and_what_waits_for_it_is_woken(watching: Watching) -> None:
    watching.agents.state = AgentState("idle")
    watching.says("quiet")
    wait_until(lambda: watching.states() == ["busy", "idle"])
    wait_until(lambda: watching.woken == [1])
    assert watching.supervisor.known_idle("%1")


def test_output_alone_is_not_looked_at_but_ends_what_is_known(watching: Watching) -> None:
    watching.agents.state = AgentState("idle")
    watching.says("quiet")
    wait_until(lambda: watching.supervisor.known_idle("%1"))
    looks = watching.agents.looks
    for _ in range(50):
        watching.says("output")
    assert not watching.supervisor.known_idle("%1")
    assert watching.agents.looks == looks


def test_a_dialog_is_told_with_its_words_and_without_control_characters(watching: Watching) -> None:
    watching.agents.state = AgentState("permission", "rm -r \x1b[31mall?")
    watching.says("quiet")
    wait_until(lambda: watching.play.reason == "unresponsive")
    assert "rm -r [31mall?" in watching.play.pane.attention.message  # type: ignore[union-attr]
    assert watching.woken == []


def test_a_state_that_cannot_be_told_says_nothing(watching: Watching) -> None:
    watching.agents.state = AgentState("unknown")
    watching.says("quiet")
    watching.looked(2)
    assert watching.states() == ["busy"]


@pytest.mark.parametrize(("how", "detail"), [("dead", "status 3"), ("gone", "its pane is gone")])
def test_a_pane_that_ended_is_told_once(watching: Watching, how: str, detail: str) -> None:
    getattr(watching.panes, how).add("%1")
    for _ in range(3):
        watching.says(how)
    wait_until(lambda: watching.play.reason == "pane_dead")
    watching.supervisor._queue.put("%1")
    wait_until(watching.supervisor._queue.empty)
    died = [event for event in watching.events if isinstance(event, PaneDied)]
    assert [event.detail for event in died] == [detail]


def test_a_program_that_is_replaced_has_not_died(watching: Watching) -> None:
    watching.agents.starting = True
    watching.panes.dead.add("%1")
    watching.says("dead")
    wait_until(watching.supervisor._queue.empty)
    watching.agents.starting = False
    watching.panes.dead.clear()
    watching.says("quiet")
    watching.looked(2)
    assert "pane_died" not in watching.states()


def test_a_receipt_is_a_reason_to_look(watching: Watching) -> None:
    watching.supervisor.receipts_changed(Path("pane-1.jsonl"))
    watching.looked(2)
    for name in ("pane-9.jsonl", "pane-1.jsonl.tmp", "other", "pane-x.jsonl"):
        watching.supervisor.receipts_changed(Path(name))
    assert watching.supervisor._queue.empty()


def test_panes_of_others_are_nobodys_business(watching: Watching) -> None:
    watching.panes.on_change("%77", "dead")
    watching.says("quiet")
    watching.looked(2)
    assert "pane_died" not in watching.states()


@pytest.mark.parametrize("fault", [Unavailable("tmux does not answer"), ValueError("defect"), OSError("gone")])
def test_a_pane_that_cannot_be_looked_at_does_not_blind_the_others(watching: Watching, fault: Exception) -> None:
    watching.agents.state = fault
    watching.says("quiet")
    wait_until(lambda: watching.trouble)
    assert str(fault) in watching.trouble[0]
    watching.agents.state = AgentState("idle")
    watching.says("quiet")
    wait_until(lambda: watching.woken == [1])


def test_the_conductors_own_pane_is_not_looked_at() -> None:
    play = Play(role=Role.CONDUCTOR)
    one = Watching(play)
    one.supervisor.start()
    one.says("quiet")
    one.supervisor.stop()
    assert one.agents.looks == 0


def test_a_busy_agent_without_output_is_told_as_silent_once() -> None:
    one = Watching(with_task(), silent_after=0.3)
    one.supervisor.start()
    try:
        wait_until(lambda: "silent" in one.states())
        assert one.play.reason == "unresponsive"
        assert one.supervisor._until_silent() is None
        one.says("output")
        one.says("quiet")
        wait_until(lambda: one.play.reason is None)
    finally:
        one.supervisor.stop()
    assert one.states().count("silent") == 1


def test_output_puts_the_silence_off() -> None:
    one = Watching(with_task(), silent_after=1.0)
    one.supervisor.start()
    try:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            one.says("output")
            time.sleep(0.02)
        assert "silent" not in one.states()
    finally:
        one.supervisor.stop()


def test_an_idle_agent_that_never_answers_its_task_is_told() -> None:
    one = Watching(with_task(), silent_after=0.3)
    one.agents.state = AgentState("idle")
    one.supervisor.start()
    try:
        wait_until(lambda: one.play.reason == "unresponsive")
        assert one.play.pane.attention is not None
        assert "its task is unanswered" in one.play.pane.attention.message
    finally:
        one.supervisor.stop()


def test_an_idle_agent_that_has_answered_may_be_silent() -> None:
    play = with_task()
    play.writes("failure", error="no way")
    one = Watching(play, silent_after=0.01)
    play.say(AgentSeen(pane=1, at=play.now, state="idle"))
    assert one.supervisor._until_silent() is None


LIMIT = "You've hit your session limit, resets 5pm (UTC)"


def test_a_limit_that_has_passed_ends_when_the_agent_takes_input_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Watching(with_task())
    one.agents.state = AgentState("limit", LIMIT)
    one.agents.input = False
    one.supervisor.start()
    try:
        wait_until(lambda: "limit" in one.states())
        monkeypatch.setattr(one.agents.limits, "seen", lambda *_: False)
        looks = one.agents.looks
        one.says("quiet")
        wait_until(lambda: one.agents.looks > looks)
        assert one.play.reason == "unresponsive"
        one.agents.input = True
        one.says("quiet")
        wait_until(lambda: one.play.reason is None)
    finally:
        one.supervisor.stop()
    assert [event.kind for event in one.events].count("limit_over") == 1


@pytest.mark.parametrize("state", ["permission", "limit"])
def test_an_agent_that_waits_for_a_person_is_not_silent(state: Any) -> None:
    one = Watching(with_task(), silent_after=0.01)
    one.play.say(AgentSeen(pane=1, at=one.play.now, state=state))
    assert one.supervisor._until_silent() is None
    assert Watching(Play(), silent_after=0.01).supervisor._until_silent() is None


def test_where_a_pane_lives_is_read_off_the_fleet() -> None:
    play = with_task()
    assert place_in(play.memory.fleet, 1) == Place(1, Role.WORKER, "%1", "scripted")
    assert place_in(play.memory.fleet, 2) is None
    play.say(PaneAdded(pane=2, at=play.now, role=Role.WORKER, agent="x", run="beef02", worktree="wt-2"))
    assert place_in(play.memory.fleet, 2) is None
