"""What a fault of the forge does to a review that is being made, and an approval whose CI failed as it was posted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from conductor.layout import Layout
from conductor.loop.engine import Done, Retry
from conductor.loop.performer import Performer
from conductor.ports import Cancelled, ReviewRequest
from schemas.effects import PostReview, RunReview
from schemas.errors import Fault, NeedsPerson, NoLeave, Unavailable
from schemas.events import CiLost, ForgeFailed, ReviewFailed, ReviewFinished, ReviewPosted
from schemas.forge import Checks, CheckState, Comment
from schemas.review import Review, Verdict
from tests.core.cycle_play import BASE, PR, START, A

EFFECT = RunReview(pane=1, review_id="r-1", cycle=1, pr_number=PR, head=A, base=BASE, issue=None, earlier=())


class Reviewer:
    """Raises this fault so many times, then approves."""

    def __init__(self, fault: Exception, times: int) -> None:
        self.fault, self.left = fault, times

    def review(self, request: ReviewRequest, _cancelled: Callable[[], bool]) -> Review:
        if self.left:
            self.left -= 1
            raise self.fault
        return Review(review_id=request.review_id, cycle=1, head=A, base=BASE, verdict=Verdict.APPROVE)


class Forge:
    def __init__(self) -> None:
        self.said: list[Comment] = []

    def login(self) -> str:
        return "Conductor"

    def checks(self, numbers: list[int]) -> dict[int, Checks]:
        return dict.fromkeys(numbers, Checks(head=A, state=CheckState.FAILED))

    def comments(self, _number: int) -> list[Comment]:
        return self.said

    def pull_requests(self, _numbers: list[int]) -> list[Any]:
        return [type("Pull", (), {"head": A, "head_branch": "wt-1"})()]


class Worktrees:
    def remote_head(self, _branch: str) -> str:
        return A


def performer(reviewer: Reviewer, tmp_path: Any, forge: Forge | None = None) -> Performer:
    return Performer(
        Layout(tmp_path),
        forge=cast(Any, forge or Forge()),
        worktrees=cast(Any, Worktrees()),
        deliverer=cast(Any, None),
        reviewer=reviewer,
        inspect=cast(Any, None),
        history=cast(Any, None),
        lagging=cast(Any, None),
    )


@pytest.mark.parametrize("fault", [Unavailable("nothing is asked before 19:45"), NoLeave("gh is not logged in")])
def test_a_review_waits_for_the_forge_for_as_long_as_it_takes(tmp_path: Any, fault: Fault) -> None:
    made = performer(Reviewer(fault, 20), tmp_path)
    tried = [made.perform(EFFECT, again=False, cancelled=lambda: False) for _ in range(20)]
    assert all(isinstance(one, Retry) for one in tried)
    waits = [cast(Retry, one) for one in tried]
    assert [one.event is not None for one in waits] == [False, False] + [True] * 18
    assert isinstance(waits[-1].event, ForgeFailed)
    assert waits[-1].after == 60.0
    done = made.perform(EFFECT, again=False, cancelled=lambda: False)
    assert isinstance(done, Done)
    assert isinstance(done.event, ReviewFinished)


def test_a_review_whose_steps_could_not_run_is_a_persons_at_once(tmp_path: Any) -> None:
    made = performer(Reviewer(NeedsPerson("ruff is missing"), 1), tmp_path)
    done = made.perform(EFFECT, again=False, cancelled=lambda: False)
    assert isinstance(done, Done)
    assert isinstance(done.event, ReviewFailed)


def test_a_review_that_was_cancelled_is_left_to_be_made_by_the_next_conductor(tmp_path: Any) -> None:
    made = performer(Reviewer(Cancelled(), 1), tmp_path)
    assert isinstance(made.perform(EFFECT, again=False, cancelled=lambda: True), Retry)
    done = made.perform(EFFECT, again=True, cancelled=lambda: False)
    assert isinstance(done, Done)
    assert isinstance(done.event, ReviewFinished)


# --- an approval whose CI failed meanwhile ---

MARKER = "<!-- taskmaestro: review=r-1 head=a cycle=1 -->"
APPROVAL = PostReview(
    pane=1,
    review_id="r-1",
    cycle=1,
    pr_number=PR,
    head=A,
    verdict=Verdict.APPROVE,
    body=f"Good.\n{MARKER}",
    marker=MARKER,
)


def said(author: str = "conductor", body: str = APPROVAL.body, **more: Any) -> Comment:
    return Comment(**{"id": "1", "author": author, "body": body, "at": START, "kind": "review", **more})


def test_an_approval_that_an_earlier_attempt_posted_is_not_told_as_withheld(tmp_path: Any) -> None:
    """The conductor was killed before it heard that the approval stands, and CI failed meanwhile."""
    forge = Forge()
    forge.said = [said()]
    made = performer(Reviewer(Unavailable(""), 0), tmp_path, forge)
    done = made.perform(APPROVAL, again=True, cancelled=lambda: False)
    assert isinstance(done, Done)
    assert isinstance(done.event, ReviewPosted)
    assert (done.event.review_id, done.event.already) == ("r-1", True)


@pytest.mark.parametrize(
    ("there", "again"),
    [
        ([], True),
        ([said(author="worker")], True),
        ([said(kind="comment")], True),
        ([said(body=f"You wrote `{MARKER}`")], True),
        ([said()], False),
    ],
    ids=["nothing", "somebody else's", "a comment", "quoted", "the first attempt"],
)
def test_an_approval_that_does_not_stand_is_withheld_where_ci_failed(
    tmp_path: Any, there: list[Comment], again: bool
) -> None:
    forge = Forge()
    forge.said = there
    made = performer(Reviewer(Unavailable(""), 0), tmp_path, forge)
    done = made.perform(APPROVAL, again=again, cancelled=lambda: False)
    assert isinstance(done, Done)
    assert isinstance(done.event, CiLost)
