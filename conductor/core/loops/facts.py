"""What a forge must answer for both detectors, and the snapshots that come of it. Pure: the port is LoopFacts.

Whoever fills this in reads everything, all pages, or raises ``Unavailable``: a list that is short because something
could not be read would pass as "nothing open" (review protocol: fail closed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from conductor.core.loops.ci import Credit, Signal, ci_status
from schemas.loops.follow_up import FollowUpSnapshot, read_follow_up
from schemas.loops.reviewer import LOCAL_FIELDS, ReviewerSnapshot, read_reviewer

_WEIGHTS = ("low", "mid", "high")


class ReviewFact(NamedTuple):
    """One review. ``state``: PENDING, or what a submitted one said; ``commit``: what it is for."""

    id: int
    author: str
    state: str
    commit: str | None
    url: str = ""

    @property
    def pending(self) -> bool:
        return self.state.upper() == "PENDING"


class ThreadFact(NamedTuple):
    """One review thread. ``review``: the review that opened it; ``weight``: low, mid or high where that is known."""

    resolved: bool
    actionable: bool
    review: int | None = None
    weight: str | None = None


class PullFacts(NamedTuple):
    """One pull request at one moment. ``requested``: logins whose review is asked for; reviews are oldest first.

    ``mine`` is the acting login: nobody sees the pending reviews of somebody else.
    """

    number: int
    head: str
    draft: bool
    merged: bool
    closed: bool
    mine: str
    requested: tuple[str, ...] = ()
    reviews: tuple[ReviewFact, ...] = ()
    threads: tuple[ThreadFact, ...] = ()
    signals: tuple[Signal, ...] = ()


def _pull(facts: PullFacts) -> dict[str, Any]:
    return {
        "prExists": True,
        "prNumber": facts.number,
        "prDraft": facts.draft,
        "prMerged": facts.merged,
        "prClosed": facts.closed,
    }


def reviewer_snapshot(
    facts: PullFacts | None,
    *,
    local: Mapping[str, Any] | None = None,
    login: str | None = None,
    requested: bool | None = None,
) -> ReviewerSnapshot:
    """The reviewer loop's snapshot. ``local``: what a review pass recorded; ``login`` and ``requested`` override.

    Without a login the one requested reviewer is meant; where there are more or none, everybody's reviews count.
    A pending review that stands on the forge outweighs what is recorded of one.
    """
    if facts is None:
        return read_reviewer({})
    only = login or (facts.requested[0] if len(facts.requested) == 1 else None)
    raw = {name: (local or {}).get(name) for name in LOCAL_FIELDS}
    raw |= {**_pull(facts), "prHeadSha": facts.head, "reviewerLogin": only}
    asked = any(_same(one, only) for one in facts.requested) if only else bool(facts.requested)
    raw["reviewRequested"] = asked if requested is None else requested
    draft = _last(review for review in facts.reviews if review.pending and _same(review.author, facts.mine))
    raw["draftReviewPosted"] = draft is not None
    if draft is not None:
        if raw["draftReviewId"] != draft.id:
            raw["draftReviewNotificationStatus"] = "none"
        raw |= {"draftReviewId": draft.id, "draftReviewUrl": draft.url, "draftReviewCommitSha": draft.commit}
    done = _last(
        review for review in facts.reviews if not review.pending and (only is None or _same(review.author, only))
    )
    if done is not None:
        raw |= {
            "submittedReviewPresent": True,
            "submittedReviewCommitSha": done.commit,
            "submittedReviewState": done.state,
        }
    return read_reviewer(raw)


def follow_up_snapshot(
    facts: PullFacts | None,
    *,
    bot: str,
    request_status: str | None = None,
    fix_applied: bool = False,
    credit: Credit | None = None,
) -> FollowUpSnapshot:
    """The follow-up loop's snapshot. ``bot``: the external reviewer's login; ``request_status`` overrides."""
    if facts is None:
        return read_follow_up({})
    rounds = [review for review in facts.reviews if not review.pending and _same(review.author, bot)]
    last = rounds[-1].id if rounds else None
    unresolved = [thread for thread in facts.threads if not thread.resolved]
    weights = [thread.weight for thread in facts.threads if last is not None and thread.review == last]
    in_flight = any(_same(one, bot) for one in facts.requested)
    return read_follow_up(
        {
            **_pull(facts),
            "copilotReviewRequestStatus": request_status or ("requested" if in_flight else "none"),
            "copilotReviewPresent": bool(rounds),
            "copilotReviewOnCurrentHead": any(review.commit == facts.head for review in rounds),
            "unresolvedThreadCount": len(unresolved),
            "actionableThreadCount": sum(thread.actionable for thread in unresolved),
            "copilotReviewRoundCount": len(rounds),
            "ciStatus": ci_status(facts.head, facts.signals, credit),
            "lastCopilotRoundMaxSignal": next((one for one in _WEIGHTS[::-1] if one in weights), None),
            "agentFixStatus": "applied" if fix_applied else None,
        }
    )


def _same(one: str, other: str | None) -> bool:
    return other is not None and one.strip().lower() == other.strip().lower()


def _last(reviews: Iterable[ReviewFact]) -> ReviewFact | None:
    found: ReviewFact | None = None
    for review in reviews:
        found = review
    return found
