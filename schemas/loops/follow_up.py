"""The follow-up loop's snapshot and limits: the author's side of a review by somebody outside.

Review protocol, follow-up loop. ``copilot`` in the names is the protocol's word for the external reviewer, whoever
it is here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from schemas.loops.fields import (
    Field,
    as_object,
    count,
    flag,
    known_flag,
    one_of,
    positive,
    read_all,
    to_object,
)


class FollowUpSnapshot(NamedTuple):
    """In normal form; made by ``read_follow_up``.

    ``copilot_review_on_current_head`` is None where nobody said: a limit that is reached treats that differently.
    """

    pr_exists: bool
    pr_number: int | None
    pr_draft: bool
    pr_merged: bool
    pr_closed: bool
    copilot_review_request_status: str
    copilot_review_present: bool
    copilot_review_on_current_head: bool | None
    unresolved_thread_count: int
    actionable_thread_count: int
    copilot_review_round_count: int
    ci_status: str
    last_copilot_round_max_signal: str | None
    agent_fix_status: str | None


class FollowUpLimits(NamedTuple):
    """When the loop stops by itself. ``max_copilot_rounds`` None: never for the number of rounds."""

    max_copilot_rounds: int | None = None
    stop_on_low_signal: bool = False
    low_signal_round_threshold: int = 3
    low_signal_max_comments: int = 2


REQUEST_STATUSES = ("none", "requested", "already-requested", "unavailable", "failed")
CI_STATUSES = ("none", "pending", "success", "failure", "crediblyGreen")

FIELDS: tuple[Field, ...] = (
    flag("prExists", "there is a pull request"),
    positive("prNumber", "its number; null without a pull request"),
    flag("prDraft", "it is a draft"),
    flag("prMerged", "it is merged"),
    flag("prClosed", "it is closed, unmerged"),
    one_of("copilotReviewRequestStatus", "how asking for an external review went", REQUEST_STATUSES, "none"),
    flag("copilotReviewPresent", "an external review was submitted, for whichever head"),
    known_flag("copilotReviewOnCurrentHead", "one was submitted for this head; null where that is not known"),
    count("unresolvedThreadCount", "review threads that are not resolved"),
    count("actionableThreadCount", "those of them that ask for something"),
    count("copilotReviewRoundCount", "external reviews that are done"),
    one_of("ciStatus", "CI of this head", CI_STATUSES, "none"),
    one_of("lastCopilotRoundMaxSignal", "the weightiest remark of the last one", ("high", "mid", "low"), None),
    one_of("agentFixStatus", "applied: the fix is made, the threads are still open", ("applied",), None),
)

LIMIT_FIELDS: tuple[Field, ...] = (
    positive("maxCopilotRounds", "external reviews after which no more is asked for; null: no limit"),
    flag("stopOnLowSignal", "stop asking once the remarks are few and light"),
    count("lowSignalRoundThreshold", "only after more reviews than this", 3),
    count("lowSignalMaxComments", "only with at most this many threads that ask for something", 2),
)


def read_follow_up(raw: object) -> FollowUpSnapshot:
    """The snapshot in normal form. Raises ``BadInput`` only where ``raw`` is not an object."""
    snapshot = FollowUpSnapshot._make(read_all(FIELDS, as_object(raw, "snapshot")))
    if not snapshot.pr_exists:
        snapshot = snapshot._replace(pr_number=None)
    if snapshot.copilot_review_on_current_head:
        snapshot = snapshot._replace(copilot_review_present=True)
    return snapshot


def write_follow_up(snapshot: FollowUpSnapshot) -> dict[str, Any]:
    """The snapshot as a JSON object."""
    return to_object(FIELDS, snapshot)


def read_limits(raw: object) -> FollowUpLimits:
    """The limits in normal form; null gives the defaults. Raises ``BadInput`` where it is something else."""
    if raw is None:
        return FollowUpLimits()
    return FollowUpLimits._make(read_all(LIMIT_FIELDS, as_object(raw, "config")))
