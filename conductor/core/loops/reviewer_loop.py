"""The reviewer loop: from one snapshot of a pull request to exactly one state of the review that is made of it.

Review protocol, reviewer loop. The first rule that holds decides; the last one always does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from conductor.core.loops.rules import Move, Rule, always, expand, first, followers
from schemas.loops.reviewer import ReviewerSnapshot, read_reviewer, write_reviewer


class ReviewerState(StrEnum):
    """The states; the two legacy waits are never produced here, only understood by routing."""

    WAITING_FOR_REVIEW_REQUEST = "waiting_for_review_request"
    REVIEW_REQUESTED = "review_requested"
    DETERMINE_REVIEW_PLAN = "determine_review_plan"
    REVIEWS_RUNNING = "reviews_running"
    MERGE_RESULTS = "merge_results"
    DRAFT_REVIEW_READY = "draft_review_ready"
    DRAFT_REVIEW_POSTED = "draft_review_posted"
    WAITING_FOR_USER_SUBMIT = "waiting_for_user_submit"
    SUBMITTED_REVIEW = "submitted_review"
    WAITING_FOR_AUTHOR_FOLLOWUP = "waiting_for_author_followup"
    WAITING_FOR_RE_REQUEST = "waiting_for_re_request"
    REVIEW_INVALIDATED = "review_invalidated"
    BLOCKED_NEEDS_USER_DECISION = "blocked_needs_user_decision"


S = ReviewerState
LEGACY = frozenset({S.WAITING_FOR_AUTHOR_FOLLOWUP, S.WAITING_FOR_RE_REQUEST})
IN_PASS = (
    S.REVIEW_REQUESTED,
    S.DETERMINE_REVIEW_PLAN,
    S.REVIEWS_RUNNING,
    S.MERGE_RESULTS,
    S.DRAFT_REVIEW_READY,
)
"""The active reviewer-pass states."""
ACTIVE = frozenset({*IN_PASS, S.DRAFT_REVIEW_POSTED, S.WAITING_FOR_USER_SUBMIT, S.REVIEW_INVALIDATED})
"""The states in which the reviewer's side has something to do."""


def _not_reviewable(s: ReviewerSnapshot) -> bool:
    return not s.pr_exists or s.pr_merged or s.pr_closed or s.pr_draft


def _failed(s: ReviewerSnapshot) -> bool:
    return "failed" in (
        s.review_submission_status,
        s.local_planning_status,
        s.local_review_runs_status,
        s.local_merge_status,
    )


def _moved_since(head: str | None, commit: str | None) -> bool:
    """Whether both commits are known and differ: an unknown one proves nothing."""
    return head is not None and commit is not None and head != commit


def _draft_stale(s: ReviewerSnapshot) -> bool:
    return s.draft_review_posted and _moved_since(s.pr_head_sha, s.draft_review_commit_sha)


def _asked_again(s: ReviewerSnapshot) -> bool:
    moved = _moved_since(s.pr_head_sha, s.submitted_review_commit_sha)
    return s.submitted_review_present and moved and s.review_requested


RULES: tuple[Rule[ReviewerSnapshot, ReviewerState], ...] = (
    Rule("no pull request, or it is merged, closed or a draft", _not_reviewable, S.WAITING_FOR_REVIEW_REQUEST),
    Rule("submission, planning, runs or merging failed", _failed, S.BLOCKED_NEEDS_USER_DECISION),
    Rule("the draft review is for another commit than the head", _draft_stale, S.REVIEW_INVALIDATED),
    Rule(
        "a draft review is posted and its link passed on",
        lambda s: s.draft_review_posted and s.draft_review_notification_status == "notified",
        S.WAITING_FOR_USER_SUBMIT,
    ),
    Rule("a draft review is posted", lambda s: s.draft_review_posted, S.DRAFT_REVIEW_POSTED),
    Rule("the head moved since the submitted review, and one is asked for", _asked_again, S.REVIEW_REQUESTED),
    Rule("a submitted review is there", lambda s: s.submitted_review_present, S.SUBMITTED_REVIEW),
    Rule("the submission is recorded", lambda s: s.review_submission_status == "submitted", S.SUBMITTED_REVIEW),
    Rule(
        "a draft is prepared, or the results are merged",
        lambda s: s.draft_review_prepared or s.local_merge_status == "ready",
        S.DRAFT_REVIEW_READY,
    ),
    Rule("the runs are completed", lambda s: s.local_review_runs_status == "completed", S.MERGE_RESULTS),
    Rule("the runs are running", lambda s: s.local_review_runs_status == "running", S.REVIEWS_RUNNING),
    Rule("the angles are being chosen", lambda s: s.local_planning_status == "determining", S.DETERMINE_REVIEW_PLAN),
    Rule("a review is asked for", lambda s: s.review_requested, S.REVIEW_REQUESTED),
    Rule("otherwise", always, S.WAITING_FOR_REVIEW_REQUEST),
)

MOVES: tuple[Move[ReviewerState], ...] = (
    Move(S.WAITING_FOR_REVIEW_REQUEST, S.REVIEW_REQUESTED, "review requested"),
    Move(S.REVIEW_REQUESTED, S.DETERMINE_REVIEW_PLAN, "planning starts"),
    Move(S.DETERMINE_REVIEW_PLAN, S.REVIEWS_RUNNING, "runs start"),
    Move(S.REVIEWS_RUNNING, S.MERGE_RESULTS, "all runs complete"),
    Move(S.MERGE_RESULTS, S.DRAFT_REVIEW_READY, "results merged"),
    Move(S.DRAFT_REVIEW_READY, S.DRAFT_REVIEW_POSTED, "draft staged"),
    Move(S.DRAFT_REVIEW_POSTED, S.WAITING_FOR_USER_SUBMIT, "link passed on"),
    Move(S.DRAFT_REVIEW_POSTED, S.REVIEW_INVALIDATED, "head moved"),
    Move(S.DRAFT_REVIEW_POSTED, S.SUBMITTED_REVIEW, "submitted"),
    Move(S.WAITING_FOR_USER_SUBMIT, S.SUBMITTED_REVIEW, "submitted"),
    Move(S.WAITING_FOR_USER_SUBMIT, S.REVIEW_INVALIDATED, "head moved"),
    Move(S.SUBMITTED_REVIEW, S.REVIEW_REQUESTED, "new head, asked again"),
    Move(S.SUBMITTED_REVIEW, S.WAITING_FOR_REVIEW_REQUEST, "not asked again"),
    Move(S.REVIEW_INVALIDATED, S.REVIEW_REQUESTED, "stale draft discarded"),
    Move(S.WAITING_FOR_AUTHOR_FOLLOWUP, S.SUBMITTED_REVIEW, "legacy"),
    Move(S.WAITING_FOR_AUTHOR_FOLLOWUP, S.REVIEW_REQUESTED, "legacy"),
    Move(S.WAITING_FOR_AUTHOR_FOLLOWUP, S.WAITING_FOR_REVIEW_REQUEST, "legacy"),
    Move(S.WAITING_FOR_RE_REQUEST, S.REVIEW_REQUESTED, "legacy"),
    Move(S.WAITING_FOR_RE_REQUEST, S.SUBMITTED_REVIEW, "legacy"),
    *expand(IN_PASS, S.BLOCKED_NEEDS_USER_DECISION, "something failed"),
    *expand(
        (
            S.WAITING_FOR_REVIEW_REQUEST,
            S.DRAFT_REVIEW_POSTED,
            S.WAITING_FOR_USER_SUBMIT,
            S.REVIEW_INVALIDATED,
            S.SUBMITTED_REVIEW,
        ),
        S.BLOCKED_NEEDS_USER_DECISION,
        "submission failed",
    ),
    *expand((S.WAITING_FOR_REVIEW_REQUEST, *IN_PASS), S.SUBMITTED_REVIEW, "submission recorded"),
)
"""The protocol's required transitions, its "any ... state" lines expanded."""

FOLLOWERS = followers(ReviewerState, MOVES)

NEXT_ACTIONS: dict[ReviewerState, str] = {
    S.WAITING_FOR_REVIEW_REQUEST: "Nothing to review: wait until a review of this pull request is requested.",
    S.REVIEW_REQUESTED: "Read the pull request at its head and choose the angles of the review.",
    S.DETERMINE_REVIEW_PLAN: "Finish the plan, then start its runs.",
    S.REVIEWS_RUNNING: "Wait until every run has ended.",
    S.MERGE_RESULTS: "Merge the results of the runs into one review.",
    S.DRAFT_REVIEW_READY: "Stage the merged review as a pending one, pinned to the head.",
    S.DRAFT_REVIEW_POSTED: "Pass on the link of the pending review.",
    S.WAITING_FOR_USER_SUBMIT: "Wait until the pending review is submitted.",
    S.SUBMITTED_REVIEW: "The pass is over: the author acts; a new request for a new head starts the next pass.",
    S.WAITING_FOR_AUTHOR_FOLLOWUP: "Wait for the author (kept for records of earlier versions).",
    S.WAITING_FOR_RE_REQUEST: "Wait until a review is requested again (kept for records of earlier versions).",
    S.REVIEW_INVALIDATED: "Discard the pending review, which is for an older head, and start a new pass.",
    S.BLOCKED_NEEDS_USER_DECISION: "Stop: a person must decide how to go on.",
}


class ReviewerAnswer(NamedTuple):
    """Where the loop is. ``rule`` names the row that said so."""

    snapshot: ReviewerSnapshot
    state: ReviewerState
    rule: str

    @property
    def allowed_transitions(self) -> tuple[ReviewerState, ...]:
        """The states that may follow, in alphabetical order."""
        return FOLLOWERS[self.state]

    @property
    def next_action(self) -> str:
        return NEXT_ACTIONS[self.state]


def interpret(snapshot: ReviewerSnapshot) -> ReviewerAnswer:
    """The one state of a snapshot in normal form. Pure and total."""
    rule = first(RULES, snapshot)
    return ReviewerAnswer(snapshot, rule.state, rule.name)


def detect(raw: object) -> dict[str, Any]:
    """The detector's answer for a snapshot of any shape. Raises ``BadInput`` where it is not an object."""
    answer = interpret(read_reviewer(raw))
    return {
        "ok": True,
        "snapshot": write_reviewer(answer.snapshot),
        "state": answer.state,
        "allowedTransitions": list(answer.allowed_transitions),
        "nextAction": answer.next_action,
    }
