"""How far a review has come: facts that the reviewer loop tells, and that decide nothing in the review cycle.

The pass of a pane is named by its review. What is heard of another one, which was dropped, is kept in the journal only.
"""

from __future__ import annotations

from datetime import datetime

from conductor.core.cycle.row import EVERY, Outcome, Row
from conductor.core.state import Pane, ReviewPass
from schemas.config import CyclePolicy
from schemas.events import ReviewStage
from schemas.loops.local_state import CONDUCTOR, LocalState
from schemas.review import Review, Verdict

_ORDER = ("requested", "planning", "running", "merging", "ready", "staged", "submitted")
_VERDICTS = {Verdict.APPROVE: "APPROVE", Verdict.CHANGES: "REQUEST_CHANGES"}


def ready(pane: Pane, review: Review) -> Pane:
    """The pane whose review is made and waits to be posted: the one that ran, or one that a person decided."""
    assert pane.pr_number is not None
    known = pane.review_pass if _named(pane, review.review_id) else None
    made = known or ReviewPass(review_id=review.review_id, pr_number=pane.pr_number, head=review.head)
    update = {
        "stage": "ready",
        "head": review.head,
        "verdict": review.verdict,
        "angles": review.angles,
        "limitations": review.limitations,
    }
    return pane.model_copy(update={"review_pass": made.model_copy(update=update)})


def submitted(pane: Pane, review_id: str) -> Pane:
    """The pane whose review stands on the pull request."""
    return _at(pane, "submitted") if _named(pane, review_id) else pane


def failed(pane: Pane, review_id: str) -> Pane:
    """The pane whose review could not be made, and where that was."""
    found = pane.review_pass
    if found is None or found.review_id != review_id:
        return pane
    where = found.stage if found.stage in ("running", "merging") else "planning"
    return pane.model_copy(update={"review_pass": found.model_copy(update={"stage": "failed", "failed_in": where})})


def _named(pane: Pane, review_id: str) -> bool:
    return pane.review_pass is not None and pane.review_pass.review_id == review_id


def _at(pane: Pane, stage: str) -> Pane:
    found = pane.review_pass
    if found is None or found.stage == stage:
        return pane
    return pane.model_copy(update={"review_pass": found.model_copy(update={"stage": stage})})


def _heard(pane: Pane, event: ReviewStage, _policy: CyclePolicy) -> bool:
    found = pane.review_pass
    if found is None or found.review_id != event.review_id:
        return False
    if event.stage == "staged":
        return found.stage in ("ready", "staged")
    return pane.review is not None and pane.review.review_id == event.review_id


def _hear(pane: Pane, event: ReviewStage, _policy: CyclePolicy) -> Outcome:
    found = pane.review_pass
    assert found is not None
    update: dict[str, object] = {"stage": event.stage}
    update |= {"since": found.since or event.at, "login": event.login or found.login}
    if event.stage == "staged":
        update |= {"draft_id": event.draft_id, "draft_url": event.draft_url}
    after = found.model_copy(update=update)
    return (pane, []) if after == found else (pane.model_copy(update={"review_pass": after}), [])


def local_state(pane: Pane) -> LocalState | None:
    """What ``state/reviews/pr-N.json`` says; None where no review runs and none was finished."""
    found = pane.review_pass
    if found is None or not _stands(pane, found):
        return None
    reached = _ORDER.index(found.failed_in or "planning") if found.stage == "failed" else _ORDER.index(found.stage)
    planning, runs, merging = _statuses(found, reached)
    posted = found.stage == "staged"
    return LocalState(
        pr_number=found.pr_number,
        head_sha=found.head,
        reviewer_login=found.login,
        pass_started_at=_iso(found.since),
        review_id=found.review_id,
        verdict=_VERDICTS[found.verdict] if found.verdict else None,
        angles=list(found.angles),
        limitations=list(found.limitations),
        written_by=CONDUCTOR,
        local_planning_status=planning,
        local_review_runs_status=runs,
        local_merge_status=merging,
        draft_review_prepared=reached >= _ORDER.index("ready"),
        draft_review_posted=posted,
        draft_review_id=_number(found.draft_id) if posted else None,
        draft_review_url=found.draft_url or None if posted else None,
        draft_review_commit_sha=found.head if posted else None,
        review_submission_status="submitted" if found.stage == "submitted" else "none",
    )


def _stands(pane: Pane, found: ReviewPass) -> bool:
    """A pass that ended in a review or in a failure stands; one that was dropped on its way does not."""
    runs = pane.review is not None and pane.review.review_id == found.review_id
    return runs or found.stage in ("ready", "staged", "submitted", "failed")


def _statuses(found: ReviewPass, reached: int) -> tuple[str, str, str]:
    """(planning, runs, merging) in the snapshot's words."""
    words = (
        ("planning", "determining", "complete"),
        ("running", "running", "completed"),
        ("merging", "none", "ready"),
    )
    statuses = []
    for stage, during, after in words:
        at = _ORDER.index(stage)
        if found.stage == "failed" and reached == at:
            statuses.append("failed")
        else:
            statuses.append(after if reached > at else during if reached == at else "none")
    return statuses[0], statuses[1], statuses[2]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


ROWS: tuple[Row, ...] = (
    Row(
        "review stage",
        EVERY,
        "review_stage",
        None,
        "how far the review has come: told, and decides nothing",
        _hear,
        _heard,
    ),
)
