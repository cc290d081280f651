"""Routing for every pair of states and every owner, held against the protocol's list written down once more."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from conductor.core.loops import routing
from conductor.core.loops.follow_up_loop import FollowUpState
from conductor.core.loops.reviewer_loop import ReviewerState

COPILOT, REVIEWER, WAIT, HUMAN, RECONCILE = (
    "handoff_to_copilot_loop",
    "handoff_to_reviewer_loop",
    "continue_current_wait",
    "stop_needs_human",
    "needs_reconcile",
)
FIRST: dict[str | None, tuple[str, str | None]] = {
    "done": ("done_terminal", None),
    "no_pr": (HUMAN, "pr_not_ready"),
    "review_request_unavailable": (HUMAN, "review_unavailable"),
    "blocked_needs_user_decision": (HUMAN, "copilot_blocked"),
}
BUSY = (
    "review_requested",
    "determine_review_plan",
    "reviews_running",
    "merge_results",
    "draft_review_ready",
    "draft_review_posted",
    "waiting_for_user_submit",
    "review_invalidated",
)
LATER: list[tuple[set[str], tuple[str, str | None]]] = [
    ({"unresolved_feedback_present", "already_fixed_needs_reply_resolve"}, (COPILOT, None)),
    ({"waiting_for_ci"}, (WAIT, None)),
    ({"pr_ready_no_feedback", "ready_to_rerequest_review"}, (COPILOT, None)),
]


def expected(copilot: str, reviewer: str) -> tuple[str, str | None]:
    """What the protocol says for a complete target that nobody holds."""
    if not copilot or not reviewer:
        return RECONCILE, "unknown_state"
    if copilot in FIRST:
        return FIRST[copilot]
    if reviewer == "blocked_needs_user_decision":
        return HUMAN, "reviewer_blocked"
    if copilot == "pr_draft":
        return COPILOT, None
    if copilot == "waiting_for_copilot_review":
        return WAIT, None
    if reviewer in BUSY:
        return REVIEWER, None
    if copilot in LATER[0][0]:
        return LATER[0][1]
    if reviewer in ("submitted_review", "waiting_for_author_followup", "waiting_for_re_request"):
        return WAIT, None
    return next((answer for states, answer in LATER if copilot in states), (RECONCILE, "unknown_state"))


def routed(copilot: object, reviewer: object, **more: Any) -> tuple[str, str | None]:
    answer = routing.detect(
        {"target": {"repo": "o/n", "pr": 1}, "copilotState": copilot, "reviewerState": reviewer, **more}
    )
    return answer["routingOutcome"], answer["stopReason"]


PAIRS = list(product((*FollowUpState, "", "weird"), (*ReviewerState, "", "weird")))


def test_every_pair_of_states() -> None:
    assert {pair: routed(*pair) for pair in PAIRS} == {pair: expected(*pair) for pair in PAIRS}


def test_a_live_owner_keeps_what_would_be_handed_over() -> None:
    for pair in PAIRS:
        outcome, reason = expected(*pair)
        stays = outcome in (COPILOT, REVIEWER)
        wanted = ("stay_with_current_live_owner", None) if stays else (outcome, reason)
        assert routed(*pair, ownershipState="live_owner") == wanted, pair


def test_two_owners_are_reconciled_first_wherever_both_states_are_known() -> None:
    for copilot, reviewer in PAIRS:
        wanted = (RECONCILE, "ownership_conflict" if copilot and reviewer else "unknown_state")
        assert routed(copilot, reviewer, ownershipState="duplicate_local_owners") == wanted


@pytest.mark.parametrize(
    ("target", "identity"),
    [
        (None, None),
        ("o/n#1", None),
        ([], None),
        ({}, {"repo": None, "pr": None}),
        ({"repo": " O/N ", "pr": 0}, {"repo": "o/n", "pr": None}),
        ({"repo": "o/n", "pr": 7.9}, {"repo": "o/n", "pr": None}),
        ({"repo": "o/n", "pr": "7"}, {"repo": "o/n", "pr": None}),
        ({"repo": "o/n", "pr": True}, {"repo": "o/n", "pr": None}),
        ({"repo": 5, "pr": 7}, {"repo": None, "pr": 7}),
    ],
)
def test_a_target_that_is_not_complete_is_never_routed(target: object, identity: object) -> None:
    answer = routing.detect({"target": target, "copilotState": "pr_draft", "reviewerState": "merge_results"})
    assert answer["routingOutcome"] == RECONCILE
    assert answer["handoffEnvelope"]["targetIdentity"] == identity
    assert answer["handoffEnvelope"]["requiredArgs"] == {}


def test_the_envelope_says_all_that_the_next_loop_needs() -> None:
    answer = routing.detect(
        {
            "target": {"repo": "Owner/Name", "pr": 3},
            "copilotState": "waiting_for_ci",
            "reviewerState": "merge_results",
            "sourceMode": "authoritative",
            "requiresLocalIsolation": True,
        }
    )
    envelope = answer["handoffEnvelope"]
    reason = envelope.pop("reason")
    assert "merge_results" in reason
    assert envelope == {
        "targetIdentity": {"repo": "owner/name", "pr": 3},
        "loopFamily": "reviewer_loop",
        "entrypoint": "loop reviewer",
        "requiredArgs": {"repo": "owner/name", "pr": 3},
        "requiresLocalIsolation": True,
        "confidence": "authoritative",
    }


@pytest.mark.parametrize(
    "repo",
    ["noslash", "/", "o/", "/n", "../..", "o/..", "./n", "a/b/c", "", " ", "o/n\x00", "o\n/n", "o/n o", "ö/n"],
)
def test_a_repository_that_no_forge_has_is_never_routed(repo: object) -> None:
    answer = routing.detect(
        {"target": {"repo": repo, "pr": 1}, "copilotState": "pr_draft", "reviewerState": "submitted_review"}
    )
    assert answer["routingOutcome"] == RECONCILE
    assert answer["handoffEnvelope"]["targetIdentity"] == {"repo": None, "pr": 1}


@pytest.mark.parametrize("number", [0, -1, -0.5])
def test_a_number_below_one_is_never_routed(number: object) -> None:
    target = {"repo": "o/n", "pr": number}
    answer = routing.detect({"target": target, "copilotState": "pr_draft", "reviewerState": "submitted_review"})
    assert answer["routingOutcome"] == RECONCILE


@pytest.mark.parametrize("repo", ["o/n", " Owner/Name ", "a-b/c_d.e", "o/.github"])
def test_a_repository_that_a_forge_may_have_is_routed(repo: str) -> None:
    target = {"repo": repo, "pr": 1}
    answer = routing.detect({"target": target, "copilotState": "pr_draft", "reviewerState": "submitted_review"})
    assert answer["handoffEnvelope"]["targetIdentity"] == {"repo": repo.strip().lower(), "pr": 1}
