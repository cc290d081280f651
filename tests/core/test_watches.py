"""What is awaited is read off the state alone, so that a crash loses no watch."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conductor.core.watches import awaited, ci_watches, pr_watches
from schemas.config import CyclePolicy
from schemas.events import PrClosed, PrMerged, TaskDelivered, TaskQueued, TaskStranded
from schemas.forge import CheckState
from schemas.pane import Role
from tests.core.cycle_play import PR, A, B, Play


def _ci(play: Play) -> list[str]:
    return [watch.head for watch in ci_watches(play.memory.fleet)]


def _prs(play: Play) -> list[tuple[int, tuple[str, ...]]]:
    return [(watch.pr_number, watch.seen) for watch in pr_watches(play.memory.fleet)]


def test_an_open_gate_is_watched_until_its_budget_ends() -> None:
    play = Play(CyclePolicy(ci_budget=60)).to_gate()
    (watch,) = ci_watches(play.memory.fleet)
    assert play.pane.gate is not None
    assert watch.deadline == play.pane.gate.opened_at + timedelta(seconds=60)
    assert (watch.pr_number, watch.head, watch.known) == (PR, A, CheckState.NOT_YET)


def test_ci_is_watched_while_a_review_runs() -> None:
    play = Play().to_gate()
    play.ci("passed")
    assert _ci(play) == [A]


def test_ci_of_an_approved_head_is_watched_without_an_end_until_the_request_ends() -> None:
    play = Play(CyclePolicy(ci_budget=1)).to_review()
    (before,) = ci_watches(play.memory.fleet)
    play.reviewed()
    (watch,) = ci_watches(play.memory.fleet)
    assert (watch.head, watch.deadline, watch.known) == (A, None, CheckState.PASSED)
    assert watch.gate_id == before.gate_id  # so nothing is asked for at once
    play.say(PrMerged(pane=1, at=play.now))
    assert _ci(play) == []


def test_ci_of_a_head_that_a_person_approved_is_watched() -> None:
    play = Play().to_cap()
    assert _ci(play) == []
    play.decides("approve", follow_up=9)
    (watch,) = ci_watches(play.memory.fleet)
    assert (watch.head, watch.deadline) == (play.pane.head, None)


def test_a_budget_that_was_spent_during_the_review_does_not_end_the_watch_of_the_approved_head() -> None:
    play = Play(CyclePolicy(allow_no_checks=True)).to_gate()
    play.ci("none")
    play.ci_budget_spent("none")
    play.reviewed()
    assert _ci(play) == [A]


def test_a_gate_that_opens_again_for_the_same_head_is_watched() -> None:
    play = Play().to_pending()
    play.writes("review_addressed", review_cycle=1)
    play.inspected(A, replies=1)
    assert _ci(play) == [A]


def test_a_returned_gate_is_watched_without_an_end() -> None:
    play = Play().to_gate()
    play.ci("failed")
    (watch,) = ci_watches(play.memory.fleet)
    assert watch.deadline is None
    play.ci("pending", head=B)
    assert _ci(play) == []


def test_a_gate_that_timed_out_is_watched_again_after_a_retry() -> None:
    play = Play().to_gate()
    play.ci_budget_spent()
    assert _ci(play) == []
    play.decides("retry")
    assert _ci(play) == [A]


def test_a_head_that_was_seen_while_the_worker_is_at_work_is_no_news() -> None:
    play = Play()
    play.task()
    assert _prs(play) == []
    play.writes("success", pr_number=PR)
    play.inspected()
    assert _prs(play) == [(PR, ())]
    play.ci("failed")
    play.head_moves(B)
    assert _prs(play) == [(PR, (B,))]
    assert _prs(Play().to_approved()) == [(PR, ())]


@pytest.mark.parametrize("end", [PrMerged, PrClosed])
def test_a_request_that_ended_is_not_watched(end: type[PrMerged] | type[PrClosed]) -> None:
    play = Play().to_approved()
    play.say(end(pane=1, at=play.now))
    assert _prs(play) == []


def test_nothing_of_a_reviewer_is_watched() -> None:
    play = Play(role=Role.REVIEWER)
    assert (_ci(play), _prs(play)) == ([], [])


def test_what_would_move_a_pane_is_said_in_words() -> None:
    play = Play()
    said = [awaited(play.pane)]
    play.task()
    said.append(awaited(play.pane))
    task = play.pane.task
    assert task is not None
    play.say(TaskQueued(pane=1, at=play.now, task_id=task.task_id, reason="busy"))
    said.append(awaited(play.pane))
    play.say(TaskStranded(pane=1, at=play.now, task_id=task.task_id, reason="draft"))
    said.append(awaited(play.pane))
    play.say(TaskDelivered(pane=1, at=play.now, task_id=task.task_id, evidence="x"))
    said.append(awaited(play.pane))
    play.writes("success", pr_number=PR)
    said.append(awaited(play.pane))
    play.inspected()
    said.append(awaited(play.pane))
    play.ci("passed")
    said.append(awaited(play.pane))
    play.reviewed()
    said.append(awaited(play.pane))
    play.say(PrMerged(pane=1, at=play.now))
    said.append(awaited(play.pane))
    assert said == [
        "a task",
        f"delivery of task {task.task_id}",
        f"the agent to take task {task.task_id}",
        f"a person to deliver task {task.task_id}",
        "the pull request",
        f"a look at #{PR}",
        "CI",
        "the review",
        "the merge",
        "nothing",
    ]


def test_checks_that_run_again_after_the_approval_are_said() -> None:
    play = Play().to_approved()
    play.ci("pending")
    assert awaited(play.pane) == "the merge; CI runs again"
    play.ci("passed")
    assert awaited(play.pane) == "the merge"


def test_a_person_is_awaited_where_only_a_person_helps() -> None:
    assert awaited(Play().to_cap().pane) == "a person's decision"
    play = Play().to_pending()
    assert awaited(play.pane).startswith("delivery of")
    assert awaited(Play().to_done().pane) == "nothing"
