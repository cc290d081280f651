"""Routing: from the states of both loops to the one that acts next, with everything that it must be told.

Review protocol, routing. What is missing, contradictory or unknown is reconciled first and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from conductor.core.loops.follow_up_loop import FollowUpState
from conductor.core.loops.reviewer_loop import ACTIVE, LEGACY, ReviewerState
from schemas.loops.routing import HandoffEnvelope, Routing, RoutingInput, read_routing, write_routing


class Outcome(StrEnum):
    """What is decided; also the states of the outer loop."""

    CONTINUE_CURRENT_WAIT = "continue_current_wait"
    HANDOFF_TO_COPILOT_LOOP = "handoff_to_copilot_loop"
    HANDOFF_TO_REVIEWER_LOOP = "handoff_to_reviewer_loop"
    STAY_WITH_CURRENT_LIVE_OWNER = "stay_with_current_live_owner"
    STOP_NEEDS_HUMAN = "stop_needs_human"
    DONE_TERMINAL = "done_terminal"
    NEEDS_RECONCILE = "needs_reconcile"


class Consequence(NamedTuple):
    """What an outcome means for the outer loop; ``entrypoint`` is the verb below ``taskmaestro``."""

    outer_action: str
    loop_family: str | None
    entrypoint: str | None


class RouteRule(NamedTuple):
    """One row: where ``holds``, the outcome is this one; ``stop_reason`` where that stops."""

    name: str
    holds: Callable[[RoutingInput], bool]
    outcome: Outcome
    stop_reason: str | None = None


F, R = FollowUpState, ReviewerState

CONSEQUENCES: dict[Outcome, Consequence] = {
    Outcome.CONTINUE_CURRENT_WAIT: Consequence("continue_wait", "outer_loop", "loop watch"),
    Outcome.HANDOFF_TO_COPILOT_LOOP: Consequence("reenter_copilot_loop", "copilot_loop", "loop follow-up"),
    Outcome.HANDOFF_TO_REVIEWER_LOOP: Consequence("reenter_reviewer_loop", "reviewer_loop", "loop reviewer"),
    Outcome.STAY_WITH_CURRENT_LIVE_OWNER: Consequence("continue_wait", "outer_loop", "loop watch"),
    Outcome.STOP_NEEDS_HUMAN: Consequence("stop", None, None),
    Outcome.DONE_TERMINAL: Consequence("done", None, None),
    Outcome.NEEDS_RECONCILE: Consequence("stop", None, None),
}
HANDOFFS = (Outcome.HANDOFF_TO_COPILOT_LOOP, Outcome.HANDOFF_TO_REVIEWER_LOOP)


def _no_target(value: RoutingInput) -> bool:
    return value.target is None or not value.target.complete


def _follow_up_in(*states: FollowUpState) -> Callable[[RoutingInput], bool]:
    return lambda value: value.copilot_state in states


def _reviewer_in(states: frozenset[ReviewerState]) -> Callable[[RoutingInput], bool]:
    return lambda value: value.reviewer_state in states


def _waits(value: RoutingInput) -> bool:
    reviewer_over = value.reviewer_state == R.SUBMITTED_REVIEW or value.reviewer_state in LEGACY
    return value.copilot_state == F.WAITING_FOR_CI or reviewer_over


RULES: tuple[RouteRule, ...] = (
    RouteRule("the target is missing or malformed", _no_target, Outcome.NEEDS_RECONCILE, "unknown_state"),
    RouteRule(
        "the follow-up state is missing", lambda v: v.copilot_state is None, Outcome.NEEDS_RECONCILE, "unknown_state"
    ),
    RouteRule(
        "the reviewer state is missing", lambda v: v.reviewer_state is None, Outcome.NEEDS_RECONCILE, "unknown_state"
    ),
    RouteRule(
        "two processes on this machine hold it",
        lambda v: v.ownership_state == "duplicate_local_owners",
        Outcome.NEEDS_RECONCILE,
        "ownership_conflict",
    ),
    RouteRule("the follow-up is done", _follow_up_in(F.DONE), Outcome.DONE_TERMINAL),
    RouteRule("there is no pull request", _follow_up_in(F.NO_PR), Outcome.STOP_NEEDS_HUMAN, "pr_not_ready"),
    RouteRule(
        "no review can be requested",
        _follow_up_in(F.REVIEW_REQUEST_UNAVAILABLE),
        Outcome.STOP_NEEDS_HUMAN,
        "review_unavailable",
    ),
    RouteRule(
        "the follow-up is blocked",
        _follow_up_in(F.BLOCKED_NEEDS_USER_DECISION),
        Outcome.STOP_NEEDS_HUMAN,
        "copilot_blocked",
    ),
    RouteRule(
        "the reviewer's side is blocked",
        _reviewer_in(frozenset({R.BLOCKED_NEEDS_USER_DECISION})),
        Outcome.STOP_NEEDS_HUMAN,
        "reviewer_blocked",
    ),
    RouteRule("it is a draft", _follow_up_in(F.PR_DRAFT), Outcome.HANDOFF_TO_COPILOT_LOOP),
    RouteRule(
        "an external review is awaited", _follow_up_in(F.WAITING_FOR_COPILOT_REVIEW), Outcome.CONTINUE_CURRENT_WAIT
    ),
    RouteRule("the reviewer's side has something to do", _reviewer_in(ACTIVE), Outcome.HANDOFF_TO_REVIEWER_LOOP),
    RouteRule(
        "threads are open",
        _follow_up_in(F.UNRESOLVED_FEEDBACK_PRESENT, F.ALREADY_FIXED_NEEDS_REPLY_RESOLVE),
        Outcome.HANDOFF_TO_COPILOT_LOOP,
    ),
    RouteRule("CI is awaited, or the reviewer's pass is over", _waits, Outcome.CONTINUE_CURRENT_WAIT),
    RouteRule(
        "a review can be requested",
        _follow_up_in(F.PR_READY_NO_FEEDBACK, F.READY_TO_REREQUEST_REVIEW),
        Outcome.HANDOFF_TO_COPILOT_LOOP,
    ),
    RouteRule("otherwise", lambda _v: True, Outcome.NEEDS_RECONCILE, "unknown_state"),
)

NEXT_ACTIONS: dict[Outcome, str] = {
    Outcome.CONTINUE_CURRENT_WAIT: "Wait, bounded, and look again.",
    Outcome.HANDOFF_TO_COPILOT_LOOP: "Let the follow-up loop act.",
    Outcome.HANDOFF_TO_REVIEWER_LOOP: "Let the reviewer loop act.",
    Outcome.STAY_WITH_CURRENT_LIVE_OWNER: "Leave it to the process that holds it, and look again.",
    Outcome.STOP_NEEDS_HUMAN: "Stop: a person must decide.",
    Outcome.DONE_TERMINAL: "Nothing is left to do.",
    Outcome.NEEDS_RECONCILE: "Stop: find out what is so, then route again.",
}


def route(value: RoutingInput) -> Routing:
    """The decision for an input in normal form. Pure and total."""
    rule = next(rule for rule in RULES if rule.holds(value))
    outcome, why = rule.outcome, rule.name
    if outcome in HANDOFFS and value.ownership_state == "live_owner":
        outcome, why = Outcome.STAY_WITH_CURRENT_LIVE_OWNER, f"{rule.name}, and a live process holds it"
    consequence = CONSEQUENCES[outcome]
    target = value.target
    args: dict[str, Any] = target._asdict() if consequence.entrypoint and target is not None else {}
    envelope = HandoffEnvelope(
        target=target,
        loop_family=consequence.loop_family,
        entrypoint=consequence.entrypoint,
        reason=f"{why} (follow-up: {value.copilot_state or '-'}, reviewer: {value.reviewer_state or '-'})",
        required_args=args,
        requires_local_isolation=value.requires_local_isolation,
        confidence=value.source_mode,
    )
    return Routing(outcome, consequence.outer_action, rule.stop_reason, envelope)


def detect(raw: object) -> dict[str, Any]:
    """The answer for an input of any shape. Raises ``BadInput`` where it is not an object."""
    return {"ok": True, **write_routing(route(read_routing(raw)))}
