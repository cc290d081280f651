"""The loops' graphs, made from the tables that decide: nothing is drawn that is not a row."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.graph import Edge, Graph
from conductor.core.loops import follow_up_loop, reviewer_loop, routing
from conductor.core.loops.routing import CONSEQUENCES, HANDOFFS, Outcome
from conductor.core.loops.rules import Move, State

ROUTE = "route"
"""The node of the outer graph that stands for one decision."""


def _edges(moves: Sequence[Move[State]]) -> tuple[Edge, ...]:
    return tuple(Edge(move.source, move.target, move.when, move.wide) for move in moves)


def reviewer() -> Graph:
    """The reviewer loop."""
    states = reviewer_loop.ReviewerState
    ends = (states.BLOCKED_NEEDS_USER_DECISION,)
    return Graph("reviewer", tuple(states), _edges(reviewer_loop.MOVES), states.WAITING_FOR_REVIEW_REQUEST, ends)


def follow_up() -> Graph:
    """The follow-up loop."""
    states = follow_up_loop.FollowUpState
    ends = tuple(state for state in states if not follow_up_loop.FOLLOWERS[state])
    return Graph("follow-up", tuple(states), _edges(follow_up_loop.MOVES), states.PR_DRAFT, ends)


def outer() -> Graph:
    """The outer loop: each cycle decides anew, so every outcome that goes on leads back to the decision."""
    edges: list[Edge] = []
    for rule in routing.RULES:
        edges.append(Edge(ROUTE, rule.outcome, rule.name))
    edges.append(Edge(ROUTE, Outcome.STAY_WITH_CURRENT_LIVE_OWNER, "a hand-over, but a live process holds it"))
    ends = tuple(outcome for outcome in Outcome if CONSEQUENCES[outcome].entrypoint is None)
    for outcome in Outcome:
        if outcome not in ends:
            edges.append(Edge(outcome, ROUTE, "its loop has acted" if outcome in HANDOFFS else "next cycle"))
    return Graph("outer", (ROUTE, *Outcome), tuple(edges), ROUTE, ends)
