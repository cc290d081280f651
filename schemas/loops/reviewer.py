"""The reviewer loop's snapshot: what is seen of a pull request, and what a local review pass recorded of itself.

Review protocol, reviewer loop: "Snapshot Contract".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from schemas.loops.fields import Field, as_object, flag, one_of, positive, read_all, text, text_or_none, to_object

SUBMITTED_STATES = ("APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED")


class ReviewerSnapshot(NamedTuple):
    """In normal form; made by ``read_reviewer``. ``reviewer_scope`` follows from ``reviewer_login``, always."""

    pr_exists: bool
    pr_number: int | None
    pr_draft: bool
    pr_merged: bool
    pr_closed: bool
    pr_head_sha: str | None
    reviewer_scope: str
    reviewer_login: str | None
    review_requested: bool
    local_planning_status: str
    local_review_runs_status: str
    local_merge_status: str
    draft_review_prepared: bool
    draft_review_posted: bool
    draft_review_id: int | None
    draft_review_url: str | None
    draft_review_commit_sha: str | None
    draft_review_notification_status: str
    submitted_review_present: bool
    submitted_review_commit_sha: str | None
    submitted_review_state: str | None
    review_submission_status: str


def _login(value: Any) -> str | None:
    login = text_or_none(value)
    return login.lower() if login else None


def _submitted_state(value: Any) -> str | None:
    word = (text_or_none(value) or "").upper()
    return word if word in SUBMITTED_STATES else None


_SCOPE = {
    "enum": ["single_reviewer", "all_reviewers"],
    "description": "whether one reviewer's reviews count or everybody's; follows from reviewerLogin, never read",
}
_LOGIN = {"type": ["string", "null"], "default": None, "description": "the one reviewer, in lower case"}
_STATE = {
    "enum": [*SUBMITTED_STATES, None],
    "default": None,
    "description": "what the submitted review said, in upper case",
}

FIELDS: tuple[Field, ...] = (
    flag("prExists", "there is a pull request"),
    positive("prNumber", "its number; null without a pull request"),
    flag("prDraft", "it is a draft"),
    flag("prMerged", "it is merged"),
    flag("prClosed", "it is closed, unmerged"),
    text("prHeadSha", "the commit at its head; null without a pull request"),
    Field("reviewerScope", lambda _value: "all_reviewers", _SCOPE),
    Field("reviewerLogin", _login, _LOGIN),
    flag("reviewRequested", "a review is asked for"),
    one_of("localPlanningStatus", "the choice of the angles", ("none", "determining", "complete", "failed"), "none"),
    one_of("localReviewRunsStatus", "the review runs", ("none", "running", "completed", "failed"), "none"),
    one_of("localMergeStatus", "the merging of their results", ("none", "ready", "failed"), "none"),
    flag("draftReviewPrepared", "the merged review can be staged"),
    flag("draftReviewPosted", "a pending review stands on the forge"),
    positive("draftReviewId", "its number"),
    text("draftReviewUrl", "where it is"),
    text("draftReviewCommitSha", "the commit that it is for"),
    one_of("draftReviewNotificationStatus", "whether its link was passed on", ("none", "notified"), "none"),
    flag("submittedReviewPresent", "a submitted review stands on the forge"),
    text("submittedReviewCommitSha", "the commit that it is for"),
    Field("submittedReviewState", _submitted_state, _STATE),
    one_of("reviewSubmissionStatus", "how the last try to submit ended", ("none", "submitted", "failed"), "none"),
)

LOCAL_FIELDS = (
    "localPlanningStatus",
    "localReviewRunsStatus",
    "localMergeStatus",
    "draftReviewPrepared",
    "draftReviewPosted",
    "draftReviewId",
    "draftReviewUrl",
    "draftReviewCommitSha",
    "draftReviewNotificationStatus",
    "reviewSubmissionStatus",
)
"""What a local review pass knows of itself and may put into a snapshot (``--local-state``)."""


def read_reviewer(raw: object) -> ReviewerSnapshot:
    """The snapshot in normal form. Raises ``BadInput`` only where ``raw`` is not an object."""
    snapshot = ReviewerSnapshot._make(read_all(FIELDS, as_object(raw, "snapshot")))
    scope = "single_reviewer" if snapshot.reviewer_login else "all_reviewers"
    if snapshot.pr_exists:
        return snapshot._replace(reviewer_scope=scope)
    return snapshot._replace(reviewer_scope=scope, pr_number=None, pr_head_sha=None)


def write_reviewer(snapshot: ReviewerSnapshot) -> dict[str, Any]:
    """The snapshot as a JSON object."""
    return to_object(FIELDS, snapshot)
