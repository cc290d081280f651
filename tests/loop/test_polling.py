"""The poller before a stateful forge: events only for changes, one time-out, and no thread that wakes for nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conductor.core.state import Fleet
from conductor.core.watches import ci_watches
from conductor.loop.polling import Poller
from conductor.ports import Polled
from schemas.config import CyclePolicy
from schemas.errors import NotSo, Unavailable
from schemas.events import CiRead, Event, ForgeFailed
from schemas.forge import ApiBudget, Check, Checks, CheckState, PullRequest
from tests.core.cycle_play import BASE, PR, START, A, B, Play
from tests.support.waiting import wait_until


class ForgeDouble:
    """A forge with one pull request, whose head, state and checks are set by the test."""

    name = "double"

    def __init__(self) -> None:
        self.head = A
        self.state: Any = "open"
        self.checks_state = CheckState.NOT_YET
        self.failing: Exception | None = None
        self.hidden = False
        self.questions = 0
        self.asked_for: list[list[int]] = []
        self.checks_head: str | None = None

    def pull_requests(self, numbers: Sequence[int] | None = None) -> list[PullRequest]:
        self.questions += 1
        self.asked_for.append(list(numbers or []))
        if self.failing is not None:
            raise self.failing
        if self.hidden:
            return []
        return [
            PullRequest(
                number=number,
                title="t",
                author="w",
                state=self.state,
                head_branch="wt-1",
                head=self.head,
                base_branch="main",
                base=BASE,
                created_at=START,
                updated_at=START,
            )
            for number in numbers or []
        ]

    def poll(self, numbers: Sequence[int], checks_of: Sequence[int]) -> Polled:
        requests = {pull.number: pull for pull in self.pull_requests(numbers)}
        return Polled(requests, self.checks([number for number in checks_of if number in requests]))

    def checks(self, numbers: Sequence[int]) -> dict[int, Checks]:
        failed = (Check(name="unit", state=CheckState.FAILED),) if self.checks_state is CheckState.FAILED else ()
        one = Checks(head=self.checks_head or self.head, state=self.checks_state, checks=failed)
        return dict.fromkeys(numbers, one)


class Asking:
    """A pane played by the rules, whose gate opened just now, and a poller that feeds it."""

    def __init__(self, play: Play, **more: Any) -> None:
        self.play = play
        self.forge = ForgeDouble()
        self.events: list[Event] = []
        self.remote: str | None = None
        self.poller = Poller(
            self.forge,  # type: ignore[arg-type]
            lambda: self.play.memory.fleet,
            self.observe,
            interval=more.pop("interval", 60.0),
            remote_head=lambda _branch: self.remote,
        )

    def observe(self, event: Event) -> None:
        self.events.append(event)
        self.play.say(event)

    def ask(self) -> list[str]:
        """One round; answers the kinds of its events."""
        before = len(self.events)
        self.poller.ask()
        return [event.kind for event in self.events[before:]]


def play_now(**policy: Any) -> Play:
    """Play whose moments are those of the clock."""
    play = Play(CyclePolicy(**policy))
    play.seconds = int((datetime.now(UTC) - START).total_seconds())
    return play


@pytest.fixture
def asking() -> Asking:
    one = Asking(play_now().to_gate())
    assert one.ask() == ["forge_back"]  # whatever an earlier conductor reported is over
    return one


@pytest.fixture
def started() -> Iterator[list[Poller]]:
    pollers: list[Poller] = []
    yield pollers
    for poller in pollers:
        poller.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "forge"]


# --- only changes ---


def test_an_event_is_made_only_for_a_change(asking: Asking) -> None:
    assert asking.ask() == []
    asking.forge.checks_state = CheckState.PENDING
    assert (asking.ask(), asking.ask()) == (["ci_read"], [])
    asking.forge.checks_state = CheckState.PASSED
    assert (asking.ask(), asking.ask()) == (["ci_read"], [])
    assert asking.play.pane.review is not None


def test_a_red_check_comes_with_its_jobs_and_its_new_run_is_seen(asking: Asking) -> None:
    asking.forge.checks_state = CheckState.FAILED
    asking.ask()
    read = asking.events[-1]
    assert isinstance(read, CiRead)
    assert [check.name for check in read.checks] == ["unit"]
    assert asking.play.pane.ci_returns == 1
    asking.forge.checks_state = CheckState.PENDING
    assert asking.ask() == ["ci_read"]
    asking.forge.checks_state = CheckState.PASSED
    asking.ask()
    assert asking.play.rule == "CI turned green"


def test_all_panes_are_one_question(asking: Asking) -> None:
    asking.forge.asked_for.clear()
    asking.ask()
    assert asking.forge.asked_for == [[PR]]


@pytest.mark.parametrize(("state", "kind"), [("merged", "pr_merged"), ("closed", "pr_closed")])
def test_the_end_of_a_request_is_told_once(asking: Asking, state: str, kind: str) -> None:
    asking.forge.state = state
    assert asking.ask() == [kind]
    assert asking.ask() == []


def test_a_request_that_is_not_in_the_answer_is_not_taken_for_closed(asking: Asking) -> None:
    asking.forge.hidden = True
    assert asking.ask() == []


# --- heads ---


def test_a_moved_head_is_told_once_and_its_checks_are_those_of_the_new_gate(asking: Asking) -> None:
    asking.forge.head = B
    asking.forge.checks_state = CheckState.PASSED
    assert asking.ask()[0] == "head_moved"
    assert asking.play.pane.review is None  # what was read for the old gate starts nothing
    assert asking.ask() == ["ci_read"]
    assert asking.play.pane.review is not None
    assert asking.play.pane.review.head == B


def test_an_old_head_that_the_forge_serves_after_a_push_is_not_believed(asking: Asking) -> None:
    asking.remote = A
    asking.forge.head = B
    asking.forge.checks_state = CheckState.PASSED
    assert asking.ask() == []
    assert asking.play.pane.head == A
    asking.remote = B
    assert "head_moved" in asking.ask()


def test_the_remote_is_asked_only_where_a_head_seems_to_have_moved(asking: Asking) -> None:
    def never(_branch: str) -> str | None:
        raise AssertionError("asked")

    asking.poller._remote_head = never
    assert asking.ask() == []


def test_a_remote_that_does_not_answer_is_a_failure_like_the_forges(asking: Asking) -> None:
    def down(_branch: str) -> str | None:
        raise Unavailable("ls-remote failed")

    asking.poller._remote_head = down
    asking.forge.head = B
    assert [asking.ask() for _ in range(3)] == [[], [], ["forge_failed"]]


def test_a_push_while_changes_are_pending_is_noted_once_and_is_the_workers_to_report() -> None:
    asking = Asking(play_now().to_pending())
    asking.ask()
    asking.forge.head = B
    assert [asking.ask() for _ in range(3)] == [["head_moved"], [], []]
    assert asking.play.pane.status == "review_pending"


# --- the budget ---


@pytest.mark.parametrize("hidden", [False, True])
def test_at_the_deadline_one_refresh_and_then_the_time_out_once(hidden: bool) -> None:
    asking = Asking(Play(CyclePolicy(ci_budget=1)).to_gate())  # opened long ago
    asking.forge.hidden = hidden
    asking.forge.checks_state = CheckState.PENDING
    told = asking.ask()
    assert asking.forge.questions == 1
    assert told.count("ci_budget_spent") == 1
    assert asking.play.reason == "ci_timeout"
    assert [asking.ask() for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize("state", [CheckState.PASSED, CheckState.FAILED])
def test_a_verdict_in_the_last_refresh_counts(state: CheckState) -> None:
    asking = Asking(Play(CyclePolicy(ci_budget=1)).to_gate())
    asking.forge.checks_state = state
    assert "ci_budget_spent" not in asking.ask()
    assert asking.play.reason is None


def test_the_thread_wakes_at_the_deadline_and_not_only_at_the_interval(started: list[Poller]) -> None:
    asking = Asking(play_now(ci_budget=1.2).to_gate())
    asking.forge.checks_state = CheckState.PENDING
    started.append(asking.poller)
    asking.poller.start()
    wait_until(lambda: asking.play.reason == "ci_timeout", what="the time-out")
    assert asking.forge.questions <= 4


# --- CI after the approval ---


def test_ci_of_an_approved_head_is_followed_to_red_and_back_to_green() -> None:
    asking = Asking(play_now().to_gate())
    asking.forge.checks_state = CheckState.PASSED
    asking.ask()
    asking.play.reviewed()
    assert (asking.ask(), asking.play.pane.status) == ([], "approved")
    asking.forge.checks_state = CheckState.PENDING
    assert (asking.ask(), asking.play.pane.status) == (["ci_read"], "approved")
    asking.forge.checks_state = CheckState.FAILED
    assert (asking.ask(), asking.play.pane.status) == (["ci_read"], "reviewing")
    asking.poller.fleet_changed(asking.play.memory.fleet)
    assert asking.poller._poke.is_set()  # the gate is open again: asked about at once
    assert (asking.ask(), asking.play.pane.status) == (["ci_read"], "working")
    assert asking.ask() == []
    asking.forge.checks_state = CheckState.PASSED
    assert (asking.ask(), asking.play.pane.status) == (["ci_read"], "approved")
    assert asking.ask() == []


def test_an_approval_asks_nothing_at_once_and_never_times_out() -> None:
    asking = Asking(Play(CyclePolicy(ci_budget=1)).to_gate())  # opened long ago
    asking.forge.checks_state = CheckState.PASSED
    asking.ask()
    asking.play.reviewed()
    asking.poller.fleet_changed(asking.play.memory.fleet)
    assert not asking.poller._poke.is_set()
    asking.forge.checks_state = CheckState.PENDING
    assert [asking.ask() for _ in range(3)] == [["ci_read"], [], []]
    assert asking.poller._pause() == 60.0


def test_a_head_that_moved_as_its_checks_failed_is_told_as_moved() -> None:
    asking = Asking(play_now().to_approved())
    asking.ask()
    asking.forge.head = B
    asking.forge.checks_state = CheckState.FAILED
    assert asking.ask()[0] == "head_moved"
    assert asking.play.pane.head == B
    assert asking.play.rules[-2:] == ["head moved", "CI of another gate"]


# --- a forge that fails ---


def test_a_forge_that_fails_is_reported_at_the_third_failure_and_when_it_is_back(asking: Asking) -> None:
    asking.forge.failing = Unavailable("connection refused", "It is tried again.")
    assert [asking.ask() for _ in range(3)] == [[], [], ["forge_failed"]]
    assert asking.play.reason == "forge_unavailable"
    failed = asking.events[-1]
    assert isinstance(failed, ForgeFailed)
    assert "connection refused" in failed.reason
    before = asking.play.pane
    asking.ask()
    assert asking.play.pane is before
    asking.forge.failing = None
    assert asking.ask() == ["forge_back"]
    assert asking.play.reason is None
    assert asking.ask() == []


def test_a_short_failure_is_not_told(asking: Asking) -> None:
    asking.forge.failing = Unavailable("502")
    asking.ask()
    asking.forge.failing = None
    assert asking.ask() == []


@pytest.mark.parametrize("fault", [NotSo("bad credentials"), ValueError("unexpected answer"), KeyError("head")])
def test_what_a_retry_will_not_mend_is_told_at_once(asking: Asking, fault: Exception) -> None:
    asking.forge.failing = fault
    assert asking.ask() == ["forge_failed"]
    asking.forge.failing = None
    assert asking.ask() == ["forge_back"]


def test_what_an_earlier_conductor_reported_is_settled_by_the_first_answer() -> None:
    play = play_now().to_gate()
    play.say(ForgeFailed(pane=1, at=play.now, reason="x"))
    asking = Asking(play)
    asking.ask()
    assert play.reason is None


def test_a_failing_forge_is_asked_with_growing_pauses_whatever_the_panes_do(asking: Asking) -> None:
    asking.forge.failing = Unavailable("x")
    pauses = []
    for _ in range(8):
        asking.ask()
        pauses.append(asking.poller._pause())
    assert pauses == [1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 60.0, 60.0]
    asking.play.head_moves(B)  # a new gate
    asking.poller.fleet_changed(asking.play.memory.fleet)
    assert not asking.poller._poke.is_set()
    asking.forge.failing = None
    asking.ask()
    asking.play.head_moves(A)
    asking.poller.fleet_changed(asking.play.memory.fleet)
    assert asking.poller._poke.is_set()


# --- the thread ---


def test_the_thread_does_not_wake_while_nothing_is_watched(started: list[Poller]) -> None:
    fleets: list[int] = []

    def fleet() -> Fleet:
        fleets.append(1)
        return Fleet()

    forge = ForgeDouble()
    poller = Poller(forge, fleet, lambda _event: None, interval=0.01)  # type: ignore[arg-type]
    started.append(poller)
    poller.start()
    wait_until(lambda: len(fleets) == 2)
    time.sleep(0.15)
    assert (len(fleets), forge.questions) == (2, 0)
    poller.poke()
    wait_until(lambda: len(fleets) == 4)
    assert forge.questions == 0


def test_a_new_gate_is_asked_about_at_once_and_only_once(started: list[Poller]) -> None:
    asking = Asking(play_now())
    started.append(asking.poller)
    asking.poller.start()
    wait_until(lambda: asking.poller._pause() is None)
    asking.play.to_gate()
    asking.poller.fleet_changed(asking.play.memory.fleet)
    wait_until(lambda: asking.forge.questions == 1)
    wait_until(lambda: not asking.poller._poke.is_set())
    asking.poller.fleet_changed(asking.play.memory.fleet)
    assert not asking.poller._poke.is_set()


def test_a_forge_that_says_something_changed_is_asked(started: list[Poller]) -> None:
    asking = Asking(play_now().to_gate())
    started.append(asking.poller)
    asking.poller.start()
    wait_until(lambda: asking.forge.questions == 1)
    asking.forge.checks_state = CheckState.PASSED
    asking.poller.poke()
    wait_until(lambda: asking.play.pane.review is not None)


def test_a_stop_does_not_wait_for_the_interval() -> None:
    for _ in range(20):
        asking = Asking(play_now().to_gate())
        asking.poller.start()
        begun = time.monotonic()
        asking.poller.stop()
        assert time.monotonic() - begun < 5
        assert not asking.poller._thread.is_alive()


def test_the_deadline_is_the_gates_own(asking: Asking) -> None:
    (watch,) = ci_watches(asking.play.memory.fleet)
    assert watch.deadline is not None
    left = (watch.deadline - datetime.now(UTC)).total_seconds()
    assert timedelta(minutes=25).total_seconds() < left < timedelta(minutes=31).total_seconds()
    assert asking.poller._pause() == 60.0


# --- what is left of the forge's rate limit ---


class MeteredDouble(ForgeDouble):
    def __init__(self, left: ApiBudget) -> None:
        super().__init__()
        self.left = left

    def budget(self) -> ApiBudget:
        return self.left


def test_what_a_round_left_is_told_and_the_next_one_waits_for_it() -> None:
    asking = Asking(play_now().to_gate(), interval=1.0)
    reset = datetime.now(UTC) + timedelta(seconds=1000)
    asking.forge = MeteredDouble(ApiBudget(remaining=600, limit=5000, reset_at=reset))
    told: list[ApiBudget] = []
    poller = Poller(
        asking.forge,  # type: ignore[arg-type]
        lambda: asking.play.memory.fleet,
        asking.observe,
        interval=1.0,
        on_budget=told.append,
    )
    poller.ask()
    assert told == [asking.forge.left]
    pause = poller._pause()
    assert pause is not None
    assert 9.0 < pause <= 10.0
    asking.forge.left = ApiBudget(remaining=500, limit=5000, reset_at=reset)
    poller.ask()
    pause = poller._pause()
    assert pause is not None
    assert pause > 900.0


def test_a_forge_without_a_limit_is_asked_at_the_interval(asking: Asking) -> None:
    assert asking.poller._pause() == 60.0
