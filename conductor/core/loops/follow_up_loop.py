"""The follow-up loop: from one snapshot to exactly one state of the author's side of an external review.

Review protocol, follow-up loop. Open threads come before every wait, and no request or wait goes past the round cap.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from conductor.core.loops.rules import Move, Rule, always, first, followers
from schemas.loops.follow_up import FollowUpLimits, FollowUpSnapshot, read_follow_up, read_limits, write_follow_up


class FollowUpState(StrEnum):
    """The states. ``internal_tooling_direct_gate`` is set by configuration, never read from a snapshot."""

    NO_PR = "no_pr"
    PR_DRAFT = "pr_draft"
    PR_READY_NO_FEEDBACK = "pr_ready_no_feedback"
    WAITING_FOR_COPILOT_REVIEW = "waiting_for_copilot_review"
    UNRESOLVED_FEEDBACK_PRESENT = "unresolved_feedback_present"
    ALREADY_FIXED_NEEDS_REPLY_RESOLVE = "already_fixed_needs_reply_resolve"
    READY_TO_REREQUEST_REVIEW = "ready_to_rerequest_review"
    LOW_SIGNAL_CONVERGED = "low_signal_converged"
    REVIEW_REQUEST_UNAVAILABLE = "review_request_unavailable"
    WAITING_FOR_CI = "waiting_for_ci"
    BLOCKED_NEEDS_USER_DECISION = "blocked_needs_user_decision"
    DONE = "done"
    ROUND_CAP_REACHED = "round_cap_reached"
    ROUND_CAP_CLEAN_FALLBACK = "round_cap_clean_fallback"
    INTERNAL_TOOLING_DIRECT_GATE = "internal_tooling_direct_gate"


class Disposition(StrEnum):
    """What a state amounts to for who only wants to know whether to go on."""

    PENDING = "pending"
    UNRESOLVED_FEEDBACK = "unresolved_feedback"
    CLEAN_CONVERGED = "clean_converged"
    BLOCKED = "blocked"
    ACTION_REQUIRED = "action_required"
    DONE = "done"


class Case(NamedTuple):
    """What the rules look at: the snapshot, and the limits that are set."""

    snapshot: FollowUpSnapshot
    limits: FollowUpLimits


S = FollowUpState
GREEN = ("success", "crediblyGreen")
IN_FLIGHT = ("requested", "already-requested")
TERMINAL = frozenset({Disposition.CLEAN_CONVERGED, Disposition.BLOCKED, Disposition.DONE})


def _requested(case: Case, *statuses: str) -> bool:
    return case.snapshot.copilot_review_request_status in statuses


def _at_cap(case: Case) -> bool:
    cap = case.limits.max_copilot_rounds
    rounds = case.snapshot.copilot_review_round_count
    return cap is not None and rounds >= cap and not _requested(case, *IN_FLIGHT)


def _clean(case: Case) -> bool:
    return case.snapshot.unresolved_thread_count == 0 and case.snapshot.ci_status in GREEN


def _head_unreviewed(case: Case) -> bool:
    """An external review is there, and it is known that none is for this head."""
    return case.snapshot.copilot_review_present and case.snapshot.copilot_review_on_current_head is False


def _ready_again(case: Case) -> bool:
    return case.snapshot.copilot_review_present


def _low_signal(case: Case) -> bool:
    snapshot, limits = case
    return (
        limits.stop_on_low_signal
        and snapshot.copilot_review_round_count > limits.low_signal_round_threshold
        and snapshot.actionable_thread_count <= limits.low_signal_max_comments
        and snapshot.last_copilot_round_max_signal != "high"
    )


def _open_threads(case: Case) -> bool:
    return case.snapshot.unresolved_thread_count > 0


RULES: tuple[Rule[Case, FollowUpState], ...] = (
    Rule("no pull request", lambda c: not c.snapshot.pr_exists, S.NO_PR),
    Rule("it is merged or closed", lambda c: c.snapshot.pr_merged or c.snapshot.pr_closed, S.DONE),
    Rule("it is a draft", lambda c: c.snapshot.pr_draft, S.PR_DRAFT),
    Rule("no review can be requested", lambda c: _requested(c, "unavailable"), S.REVIEW_REQUEST_UNAVAILABLE),
    Rule("requesting a review failed", lambda c: _requested(c, "failed"), S.BLOCKED_NEEDS_USER_DECISION),
    Rule(
        "round cap, clean, head known to be unreviewed, remarks few and light",
        lambda c: _at_cap(c) and _clean(c) and _head_unreviewed(c) and _low_signal(c),
        S.LOW_SIGNAL_CONVERGED,
    ),
    Rule(
        "round cap, clean, head known to be unreviewed",
        lambda c: _at_cap(c) and _clean(c) and _head_unreviewed(c),
        S.READY_TO_REREQUEST_REVIEW,
    ),
    Rule("round cap, clean", lambda c: _at_cap(c) and _clean(c), S.ROUND_CAP_CLEAN_FALLBACK),
    Rule("round cap", _at_cap, S.ROUND_CAP_REACHED),
    Rule(
        "open threads, fix applied",
        lambda c: _open_threads(c) and c.snapshot.agent_fix_status == "applied",
        S.ALREADY_FIXED_NEEDS_REPLY_RESOLVE,
    ),
    Rule("open threads", _open_threads, S.UNRESOLVED_FEEDBACK_PRESENT),
    Rule("a review is requested", lambda c: _requested(c, *IN_FLIGHT), S.WAITING_FOR_COPILOT_REVIEW),
    Rule("CI failed", lambda c: c.snapshot.ci_status == "failure", S.BLOCKED_NEEDS_USER_DECISION),
    Rule("CI is not decided", lambda c: c.snapshot.ci_status not in GREEN, S.WAITING_FOR_CI),
    Rule(
        "a review is there, remarks few and light",
        lambda c: _ready_again(c) and _low_signal(c),
        S.LOW_SIGNAL_CONVERGED,
    ),
    Rule("a review is there", _ready_again, S.READY_TO_REREQUEST_REVIEW),
    Rule("otherwise", always, S.PR_READY_NO_FEEDBACK),
)

MOVES: tuple[Move[FollowUpState], ...] = (
    Move(S.PR_DRAFT, S.PR_READY_NO_FEEDBACK, "made ready"),
    Move(S.PR_READY_NO_FEEDBACK, S.WAITING_FOR_COPILOT_REVIEW, "review requested"),
    Move(S.WAITING_FOR_COPILOT_REVIEW, S.UNRESOLVED_FEEDBACK_PRESENT, "review with remarks"),
    Move(S.WAITING_FOR_COPILOT_REVIEW, S.READY_TO_REREQUEST_REVIEW, "review without"),
    Move(S.WAITING_FOR_COPILOT_REVIEW, S.WAITING_FOR_CI, "CI undecided"),
    Move(S.UNRESOLVED_FEEDBACK_PRESENT, S.UNRESOLVED_FEEDBACK_PRESENT, "more remarks"),
    Move(S.UNRESOLVED_FEEDBACK_PRESENT, S.ALREADY_FIXED_NEEDS_REPLY_RESOLVE, "fix applied"),
    Move(S.ALREADY_FIXED_NEEDS_REPLY_RESOLVE, S.READY_TO_REREQUEST_REVIEW, "threads resolved"),
    Move(S.READY_TO_REREQUEST_REVIEW, S.WAITING_FOR_COPILOT_REVIEW, "requested again"),
    Move(S.READY_TO_REREQUEST_REVIEW, S.REVIEW_REQUEST_UNAVAILABLE, "request refused"),
    Move(S.READY_TO_REREQUEST_REVIEW, S.DONE, "merged or closed"),
    Move(S.WAITING_FOR_CI, S.PR_READY_NO_FEEDBACK, "CI green, no review"),
    Move(S.WAITING_FOR_CI, S.READY_TO_REREQUEST_REVIEW, "CI green"),
    Move(S.WAITING_FOR_CI, S.BLOCKED_NEEDS_USER_DECISION, "CI failed"),
    Move(S.INTERNAL_TOOLING_DIRECT_GATE, S.DONE, "merged or closed"),
)

FOLLOWERS = followers(FollowUpState, MOVES)

NEXT_ACTIONS: dict[FollowUpState, str] = {
    S.NO_PR: "Open a pull request, as a draft where drafts come first.",
    S.PR_DRAFT: "Finish the draft and mark it ready.",
    S.PR_READY_NO_FEEDBACK: "Request the external review.",
    S.WAITING_FOR_COPILOT_REVIEW: "Wait for the external review with a bounded watch.",
    S.UNRESOLVED_FEEDBACK_PRESENT: "Address the open threads; answer and resolve each of them.",
    S.ALREADY_FIXED_NEEDS_REPLY_RESOLVE: "Answer and resolve the threads that the fix settles.",
    S.READY_TO_REREQUEST_REVIEW: "Request the external review again for this head, or settle that the work is done.",
    S.LOW_SIGNAL_CONVERGED: "Request no more reviews: the last remarks were few and light. Go on to the approval gate.",
    S.REVIEW_REQUEST_UNAVAILABLE: "Stop and report that the external review cannot be requested; do not wait for one.",
    S.WAITING_FOR_CI: "Wait until CI of this head is decided, with a bounded watch.",
    S.BLOCKED_NEEDS_USER_DECISION: "Stop: a person must decide how to go on.",
    S.DONE: "Nothing is left to do.",
    S.ROUND_CAP_REACHED: "Stop: no round is left, and threads are open or CI is not green. A person decides.",
    S.ROUND_CAP_CLEAN_FALLBACK: "Request no more reviews: no round is left, all is clean. Go on to the approval gate.",
    S.INTERNAL_TOOLING_DIRECT_GATE: "Go on to the approval gate: no external review is asked for here.",
}
CONVERGED_ACTION = "This head is reviewed and clean: request nothing for it; go on to the approval gate."

_DISPOSITIONS: dict[FollowUpState, Disposition] = {
    S.WAITING_FOR_COPILOT_REVIEW: Disposition.PENDING,
    S.WAITING_FOR_CI: Disposition.PENDING,
    S.UNRESOLVED_FEEDBACK_PRESENT: Disposition.UNRESOLVED_FEEDBACK,
    S.ALREADY_FIXED_NEEDS_REPLY_RESOLVE: Disposition.UNRESOLVED_FEEDBACK,
    S.BLOCKED_NEEDS_USER_DECISION: Disposition.BLOCKED,
    S.REVIEW_REQUEST_UNAVAILABLE: Disposition.BLOCKED,
    S.ROUND_CAP_REACHED: Disposition.BLOCKED,
    S.LOW_SIGNAL_CONVERGED: Disposition.DONE,
    S.ROUND_CAP_CLEAN_FALLBACK: Disposition.DONE,
    S.DONE: Disposition.DONE,
}


class FollowUpAnswer(NamedTuple):
    """Where the loop is. ``rule`` names the row that said so."""

    snapshot: FollowUpSnapshot
    state: FollowUpState
    rule: str

    @property
    def allowed_transitions(self) -> tuple[FollowUpState, ...]:
        """The states that may follow, in alphabetical order."""
        return FOLLOWERS[self.state]

    @property
    def auto_rerequest_eligible(self) -> bool:
        """Whether a review may be requested again without asking anybody."""
        ready = self.state is S.READY_TO_REREQUEST_REVIEW
        return ready and not self.snapshot.copilot_review_on_current_head

    @property
    def same_head_clean_converged(self) -> bool:
        """Whether this very head was reviewed and nothing is open."""
        reviewed = bool(self.snapshot.copilot_review_on_current_head)
        open_threads = self.snapshot.unresolved_thread_count + self.snapshot.actionable_thread_count
        return self.state is S.READY_TO_REREQUEST_REVIEW and reviewed and open_threads == 0

    @property
    def disposition(self) -> Disposition:
        if self.same_head_clean_converged:
            return Disposition.CLEAN_CONVERGED
        return _DISPOSITIONS.get(self.state, Disposition.ACTION_REQUIRED)

    @property
    def terminal(self) -> bool:
        """Whether the loop stops here for this head."""
        return self.disposition in TERMINAL

    @property
    def next_action(self) -> str:
        return CONVERGED_ACTION if self.same_head_clean_converged else NEXT_ACTIONS[self.state]


def interpret(snapshot: FollowUpSnapshot, limits: FollowUpLimits | None = None) -> FollowUpAnswer:
    """The one state of a snapshot in normal form. Pure and total."""
    rule = first(RULES, Case(snapshot, limits or FollowUpLimits()))
    return FollowUpAnswer(snapshot, rule.state, rule.name)


def detect(raw: object, config: object = None) -> dict[str, Any]:
    """The detector's answer for a snapshot of any shape. Raises ``BadInput`` where either is not an object."""
    answer = interpret(read_follow_up(raw), read_limits(config))
    return {
        "ok": True,
        "snapshot": write_follow_up(answer.snapshot),
        "state": answer.state,
        "allowedTransitions": list(answer.allowed_transitions),
        "nextAction": answer.next_action,
        "autoRerequestEligible": answer.auto_rerequest_eligible,
        "sameHeadCleanConverged": answer.same_head_clean_converged,
        "disposition": answer.disposition,
        "terminal": answer.terminal,
    }
