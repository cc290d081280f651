"""What a review says that it covered: only what ran, a lens only by who judges, and every limitation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from conductor.review.coverage import coverage
from schemas.review import ReviewPacket, StepReport

LENSES = {"dry": "maintainability", "kiss": "maintainability", "yagni": "scope"}


@dataclass
class Step:
    name: str

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        raise AssertionError("not run here")


class Judge(Step):
    judges: ClassVar[bool] = True


def report(step: Step, outcome: Literal["ran", "could_not_run"] = "ran") -> StepReport:
    return StepReport(step=step.name, outcome=outcome)


def test_steps_cover_their_angles_and_no_lens() -> None:
    steps = [Step("spec"), Step("verification")]
    found = coverage(steps, [report(step) for step in steps], LENSES, 3)
    assert found.angles == ("correctness", "tests", "scope")
    assert found.lenses == ()
    assert found.limitations == tuple(f"no run covered the lens {lens}" for lens in LENSES)


def test_a_step_that_did_not_run_covers_nothing() -> None:
    judge = Judge("claude")
    found = coverage([judge], [report(judge, "could_not_run")], LENSES, 3)
    assert (found.angles, found.lenses) == ((), ())
    assert len(found.limitations) == 3


def test_one_judge_covers_all_lenses_and_owns_up_to_one_run() -> None:
    judge = Judge("claude")
    found = coverage([judge], [report(judge)], LENSES, 3)
    assert len(found.angles) == 5
    assert found.lenses == ("dry", "kiss", "yagni")
    assert found.limitations == ("the lenses dry, kiss, yagni were covered in 1 run(s), not each in its own",)


def test_runs_that_did_not_fit_side_by_side_are_told() -> None:
    judges = [Judge(name) for name in ("a", "b", "c")]
    reports = [report(judge) for judge in judges]
    assert coverage(judges, reports, LENSES, 3).limitations == ()
    (only,) = coverage(judges, reports, LENSES, 2).limitations
    assert "at most 2 at a time" in only


def test_without_lenses_nothing_is_missed() -> None:
    judge = Judge("a")
    assert coverage([judge], [report(judge)], {}, 1).limitations == ()
