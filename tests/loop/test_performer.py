"""What a fault of the forge does to a review that is being made: it waits, and is made when the forge is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from conductor.layout import Layout
from conductor.loop.engine import Done, Retry
from conductor.loop.performer import Performer
from conductor.ports import ReviewRequest
from schemas.effects import RunReview
from schemas.errors import Fault, NeedsPerson, NoLeave, Unavailable
from schemas.events import ForgeFailed, ReviewFailed, ReviewFinished
from schemas.review import Review, Verdict
from tests.core.cycle_play import BASE, PR, A

EFFECT = RunReview(pane=1, review_id="r-1", cycle=1, pr_number=PR, head=A, base=BASE, issue=None, earlier=())


class Reviewer:
    """Raises this fault so many times, then approves."""

    def __init__(self, fault: Fault, times: int) -> None:
        self.fault, self.left = fault, times

    def review(self, request: ReviewRequest, _cancelled: Callable[[], bool]) -> Review:
        if self.left:
            self.left -= 1
            raise self.fault
        return Review(review_id=request.review_id, cycle=1, head=A, base=BASE, verdict=Verdict.APPROVE)


class Forge:
    def login(self) -> str:
        return "conductor"

    def pull_requests(self, _numbers: list[int]) -> list[Any]:
        return [type("Pull", (), {"head": A, "head_branch": "wt-1"})()]


class Worktrees:
    def remote_head(self, _branch: str) -> str:
        return A


def performer(reviewer: Reviewer, tmp_path: Any) -> Performer:
    return Performer(
        Layout(tmp_path),
        forge=cast(Any, Forge()),
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
