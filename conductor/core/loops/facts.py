"""From what a forge tells to the snapshots of both loops. Pure: whoever reads the forge hands the facts in.

Review protocol, snapshot and detector contracts. What was not read never comes here: a reader that fails raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from conductor.core.loops.ci import Credit, Outcome, Signal, ci_status
from schemas.forge import Checks, CheckState, PendingReview, PullRequest, SubmittedReview, Thread
from schemas.loops.follow_up import FollowUpSnapshot, read_follow_up
from schemas.loops.local_state import LocalState
from schemas.loops.reviewer import ReviewerSnapshot, read_reviewer

MARK = "<!-- taskmaestro: "
"""How the hidden markers begin that reviews of ours carry."""
_OUTCOMES = {
    CheckState.PASSED: Outcome.SUCCESS,
    CheckState.FAILED: Outcome.FAILURE,
    CheckState.PENDING: Outcome.UNFINISHED,
}
_LABEL = re.compile(r"^\W{0,6}(critical|high|medium|low|note|nit)\b", re.IGNORECASE)
_SIGNALS = {"critical": "high", "high": "high", "medium": "mid", "low": "low", "note": "low", "nit": "low"}
_WEIGHT = {"low": 0, "mid": 1, "high": 2}


class ReviewerFacts(NamedTuple):
    """What the reviewer loop's snapshot is made of. ``pending`` is the acting login's; logins in any case.

    ``login``: the reviewer whose loop is asked about; ``review_requested``: where somebody knows that better.
    """

    pull: PullRequest | None
    acting: str
    requested: Sequence[str] = ()
    submitted: Sequence[SubmittedReview] = ()
    pending: PendingReview | None = None
    local: LocalState | None = None
    login: str | None = None
    review_requested: bool | None = None


class FollowUpFacts(NamedTuple):
    """What the follow-up loop's snapshot is made of. ``external``: the logins whose reviews count as external."""

    pull: PullRequest | None
    external: Sequence[str] = ()
    requested: Sequence[str] = ()
    submitted: Sequence[SubmittedReview] = ()
    threads: Sequence[Thread] = ()
    checks: Checks | None = None
    previous_green: bool = False
    validated_head: str | None = None
    request_status: str | None = None


def scope_of(requested: Sequence[str], login: str | None) -> str | None:
    """The one reviewer: the one asked about, else the only one requested, else None for all of them."""
    if login:
        return login.lower()
    logins = {one.lower() for one in requested}
    return next(iter(logins)) if len(logins) == 1 else None


def reviewer_snapshot(facts: ReviewerFacts) -> ReviewerSnapshot:
    """The reviewer loop's snapshot. Pure and total."""
    pull, login = facts.pull, scope_of(facts.requested, facts.login)
    if pull is None:
        return read_reviewer({"reviewerLogin": login})
    local = _of_this_head(facts.local, pull.head)
    draft = _draft(facts, login)
    review = _latest(facts, pull, login, local)
    requested = login in {one.lower() for one in facts.requested} if login else bool(facts.requested)
    return read_reviewer(
        {
            "prExists": True,
            "prNumber": pull.number,
            "prDraft": pull.draft,
            "prMerged": pull.state == "merged",
            "prClosed": pull.state == "closed",
            "prHeadSha": pull.head,
            "reviewerLogin": login,
            "reviewRequested": requested if facts.review_requested is None else facts.review_requested,
            "localPlanningStatus": local.local_planning_status,
            "localReviewRunsStatus": local.local_review_runs_status,
            "localMergeStatus": local.local_merge_status,
            "draftReviewPrepared": local.draft_review_prepared,
            "draftReviewPosted": draft.draft_review_posted,
            "draftReviewId": draft.draft_review_id,
            "draftReviewUrl": draft.draft_review_url,
            "draftReviewCommitSha": draft.draft_review_commit_sha,
            "draftReviewNotificationStatus": draft.draft_review_notification_status,
            "submittedReviewPresent": review is not None,
            "submittedReviewCommitSha": None if review is None else review.commit,
            "submittedReviewState": None if review is None else review.state,
            "reviewSubmissionStatus": local.review_submission_status,
        }
    )


def _of_this_head(local: LocalState | None, head: str) -> LocalState:
    """The pass of this head; one of another head is over, whatever it had come to."""
    return local if local is not None and local.head_sha in (None, head) else LocalState()


def _draft(facts: ReviewerFacts, login: str | None) -> LocalState:
    """The pending review: the forge's word where the forge shows it to us, else what the pass wrote down."""
    local = facts.local or LocalState()
    if login not in (None, facts.acting.lower()):
        return local if local.draft_review_posted else LocalState()
    if facts.pending is None:
        return LocalState()
    number = review_number(facts.pending)
    same = local.draft_review_id == number and number is not None
    return LocalState(
        draft_review_posted=True,
        draft_review_id=number,
        draft_review_url=facts.pending.url or (local.draft_review_url if same else None),
        draft_review_commit_sha=facts.pending.commit,
        draft_review_notification_status=local.draft_review_notification_status if same else "none",
    )


def review_number(pending: PendingReview) -> int | None:
    """Its id as snapshots, local states and answers tell it: a number; None where the forge's are none."""
    return int(pending.id) if pending.id.isascii() and pending.id.isdigit() else None


def _latest(facts: ReviewerFacts, pull: PullRequest, login: str | None, local: LocalState) -> SubmittedReview | None:
    """The newest review in scope. Where a pass of this head is known, reviews of earlier passes do not count."""
    started = local.started
    found = None
    for review in facts.submitted:
        author = review.author.lower()
        if login is not None and author != login:
            continue
        if login is None and author == pull.author.lower() and MARK not in review.body:
            continue  # the author's own words are no review of it
        before = review.commit != pull.head or (started is not None and review.at < started)
        if not (local.active and before):
            found = review
    return found


def follow_up_snapshot(facts: FollowUpFacts) -> FollowUpSnapshot:
    """The follow-up loop's snapshot. Pure and total."""
    pull = facts.pull
    if pull is None:
        return read_follow_up({})
    external = {one.lower() for one in facts.external}
    rounds = [review for review in facts.submitted if review.author.lower() in external]
    unresolved = [thread for thread in facts.threads if not thread.resolved]
    requested = any(one.lower() in external for one in facts.requested)
    return read_follow_up(
        {
            "prExists": True,
            "prNumber": pull.number,
            "prDraft": pull.draft,
            "prMerged": pull.state == "merged",
            "prClosed": pull.state == "closed",
            "copilotReviewRequestStatus": facts.request_status or ("requested" if requested else "none"),
            "copilotReviewPresent": bool(rounds),
            "copilotReviewOnCurrentHead": any(review.commit == pull.head for review in rounds),
            "unresolvedThreadCount": len(unresolved),
            "actionableThreadCount": sum(1 for thread in unresolved if _waits_for_author(thread, pull)),
            "copilotReviewRoundCount": len(rounds),
            "ciStatus": _ci(facts, pull.head),
            "lastCopilotRoundMaxSignal": _signal(rounds[-1], facts.threads) if rounds else None,
        }
    )


def _waits_for_author(thread: Thread, pull: PullRequest) -> bool:
    """Somebody else had the last word in it."""
    return not thread.comments or thread.comments[-1].author.lower() != pull.author.lower()


def _ci(facts: FollowUpFacts, head: str) -> str:
    checks = facts.checks
    if checks is None or checks.head != head:
        return "none"
    credit = Credit(len(checks.checks), facts.previous_green, facts.validated_head)
    return ci_status(head, signals_of(checks), credit)


def signals_of(checks: Checks) -> list[Signal]:
    """Each check as a signal of its head; the state of all where the forge tells no single one."""
    signals = [Signal(checks.head, _OUTCOMES[check.state]) for check in checks.checks]
    if not signals and checks.state in _OUTCOMES:
        signals = [Signal(checks.head, _OUTCOMES[checks.state])]
    return signals


def _signal(review: SubmittedReview, threads: Iterable[Thread]) -> str:
    """The weightiest remark of a review, by the severity that each begins with; one without counts as mid."""
    remarks = [thread.comments[0].body for thread in threads if thread.review == review.id and thread.comments]
    found = (_LABEL.match(text) for text in remarks)
    signals = [_SIGNALS[label[1].lower()] if label else "mid" for label in found]
    if review.state == "changes_requested":
        signals.append("high")
    return max(signals, key=_WEIGHT.__getitem__, default="low")
