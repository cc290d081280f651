"""For an input of any JSON shape: one state or one clear error, the same however it is written down."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.loops import draft, follow_up_loop, graphs, merge, plan, reviewer_loop, routing
from schemas.errors import BadInput
from schemas.loops import follow_up, reviewer
from schemas.loops import routing as words
from schemas.loops.fields import Field

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.integers(),
    st.floats(),
    st.sampled_from(("true", "12", " ", " aaa ", "aaa", "bbb")),
    st.text(max_size=8),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)


def objects_of(fields: Iterable[Field]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, right and wrong values of each, and some that are not known."""
    values = {}
    for field in fields:
        words = [word for word in field.schema.get("enum", ()) if word is not None]
        likely = st.sampled_from(words) if words else st.sampled_from((True, True, 1, 3, "aaa"))
        values[field.name] = st.one_of(likely, likely, ANYTHING)
    known = st.fixed_dictionaries({}, optional=values)
    return st.builds(lambda one, other: {**other, **one}, known, st.dictionaries(st.just("unknown"), ANYTHING))


SNAPSHOTS = objects_of(reviewer.FIELDS)
FOLLOW_UPS = objects_of(follow_up.FIELDS)
LIMITS = st.one_of(st.none(), objects_of(follow_up.LIMIT_FIELDS))
STATES = st.sampled_from((*reviewer_loop.ReviewerState, *follow_up_loop.FollowUpState, "", "weird"))
TARGETS = st.one_of(ANYTHING, st.builds(lambda repo, pr: {"repo": repo, "pr": pr}, ANYTHING, ANYTHING))
ROUTINGS = st.builds(
    lambda other, target, one, two: {**other, "target": target, "copilotState": one, "reviewerState": two},
    objects_of(words.FIELDS[3:]),
    st.one_of(st.just({"repo": "Owner/Name", "pr": 3}), TARGETS),
    STATES,
    STATES,
)
DETECTORS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "reviewer": reviewer_loop.detect,
    "follow-up": follow_up_loop.detect,
    "route": routing.detect,
    "plan": plan.detect,
    "merge": merge.detect,
    "draft": draft.detect,
}


@pytest.mark.parametrize("name", DETECTORS)
@given(raw=ANYTHING)
def test_any_shape_gives_an_answer_or_a_clear_error(name: str, raw: Any) -> None:
    answer, fault = None, None
    try:
        answer = DETECTORS[name](raw)
    except BadInput as raised:
        fault = raised
    if fault is None:
        assert isinstance(raw, dict)
        assert answer is not None
        assert answer["ok"] is True
    else:
        assert fault.what
        assert fault.hint
        assert not isinstance(raw, dict) or name in ("plan", "merge", "draft")


@given(raw=SNAPSHOTS)
def test_a_reviewer_snapshot_has_one_state_whose_transitions_are_in_the_graph(raw: dict[str, Any]) -> None:
    answer = reviewer_loop.detect(raw)
    drawn = {(edge.source, edge.target) for edge in graphs.reviewer().edges}
    assert answer["state"] in set(reviewer_loop.ReviewerState) - reviewer_loop.LEGACY
    assert {(answer["state"], other) for other in answer["allowedTransitions"]} <= drawn


@given(raw=FOLLOW_UPS, limits=LIMITS)
def test_a_follow_up_snapshot_has_one_state_whose_transitions_are_in_the_graph(
    raw: dict[str, Any], limits: dict[str, Any] | None
) -> None:
    answer = follow_up_loop.detect(raw, limits)
    drawn = {(edge.source, edge.target) for edge in graphs.follow_up().edges}
    assert answer["state"] in set(follow_up_loop.FollowUpState)
    assert {(answer["state"], other) for other in answer["allowedTransitions"]} <= drawn
    assert answer["terminal"] == (answer["disposition"] in ("clean_converged", "blocked", "done"))


@given(raw=ROUTINGS)
def test_routing_gives_one_outcome_with_its_consequences(raw: dict[str, Any]) -> None:
    answer = routing.detect(raw)
    outcome = routing.Outcome(answer["routingOutcome"])
    assert answer["outerAction"] == routing.CONSEQUENCES[outcome].outer_action
    assert (answer["stopReason"] is not None) == (answer["outerAction"] == "stop")
    if answer["outerAction"] in ("continue_wait", "reenter_copilot_loop", "reenter_reviewer_loop"):
        target = answer["handoffEnvelope"]["targetIdentity"]
        assert answer["handoffEnvelope"]["requiredArgs"] == target
        assert None not in target.values()


@given(raw=SNAPSHOTS, seed=st.randoms(use_true_random=False))
def test_order_and_unknown_keys_change_nothing_for_the_reviewer(raw: dict[str, Any], seed: random.Random) -> None:
    items = list(raw.items())
    seed.shuffle(items)
    assert reviewer_loop.detect({"zz": [1], **dict(items)}) == reviewer_loop.detect(raw)


@given(raw=FOLLOW_UPS, limits=LIMITS, seed=st.randoms(use_true_random=False))
def test_order_and_unknown_keys_change_nothing_for_the_follow_up(
    raw: dict[str, Any], limits: dict[str, Any] | None, seed: random.Random
) -> None:
    items = list(raw.items())
    seed.shuffle(items)
    assert follow_up_loop.detect({"zz": [1], **dict(items)}, limits) == follow_up_loop.detect(raw, limits)


@given(raw=SNAPSHOTS)
def test_the_reviewers_normal_form_is_normal(raw: dict[str, Any]) -> None:
    answer = reviewer_loop.detect(raw)
    assert reviewer_loop.detect(answer["snapshot"]) == answer


@given(raw=FOLLOW_UPS, limits=LIMITS)
def test_the_follow_ups_normal_form_is_normal(raw: dict[str, Any], limits: dict[str, Any] | None) -> None:
    answer = follow_up_loop.detect(raw, limits)
    assert follow_up_loop.detect(answer["snapshot"], limits) == answer


@given(raw=ROUTINGS)
def test_the_routing_inputs_normal_form_is_normal(raw: dict[str, Any]) -> None:
    value = words.read_routing(raw)
    assert words.read_routing(words.write_routing_input(value)) == value


@pytest.mark.parametrize("value", ["true", 1, "yes", [True], {"a": 1}, None])
def test_only_true_is_true(value: Any) -> None:
    assert reviewer_loop.detect({"prExists": value})["snapshot"]["prExists"] is False


@pytest.mark.parametrize(
    ("value", "read"),
    [(7.9, 7), (1, 1), (0.5, None), (0, None), (-3, None), ("12", None), (True, None), (10**30, 10**30)],
)
def test_numbers_are_floored_and_nothing_else_is_one(value: Any, read: int | None) -> None:
    assert reviewer_loop.detect({"prExists": True, "prNumber": value})["snapshot"]["prNumber"] == read


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_is_no_number(value: float) -> None:
    assert reviewer_loop.detect({"prExists": True, "prNumber": value})["snapshot"]["prNumber"] is None
    assert follow_up_loop.detect({"unresolvedThreadCount": value})["snapshot"]["unresolvedThreadCount"] == 0


def test_the_scope_follows_from_the_login_and_is_never_read() -> None:
    snapshot = reviewer_loop.detect({"reviewerScope": "single_reviewer"})["snapshot"]
    assert snapshot["reviewerScope"] == "all_reviewers"
    snapshot = reviewer_loop.detect({"reviewerScope": "all_reviewers", "reviewerLogin": " Ann "})["snapshot"]
    assert (snapshot["reviewerScope"], snapshot["reviewerLogin"]) == ("single_reviewer", "ann")


def test_every_rule_decides_for_some_snapshot() -> None:
    """A rule that can never be the first to hold is a rule too many."""
    base = {"prExists": True}
    samples = [
        {},
        {**base, "localMergeStatus": "failed", "draftReviewPosted": True},
        {**base, "draftReviewPosted": True, "prHeadSha": "a", "draftReviewCommitSha": "b"},
        {**base, "draftReviewPosted": True, "draftReviewNotificationStatus": "notified"},
        {**base, "draftReviewPosted": True},
        {
            **base,
            "submittedReviewPresent": True,
            "prHeadSha": "a",
            "submittedReviewCommitSha": "b",
            "reviewRequested": True,
        },
        {**base, "submittedReviewPresent": True},
        {**base, "reviewSubmissionStatus": "submitted"},
        {**base, "localMergeStatus": "ready"},
        {**base, "localReviewRunsStatus": "completed"},
        {**base, "localReviewRunsStatus": "running"},
        {**base, "localPlanningStatus": "determining"},
        {**base, "reviewRequested": True},
        base,
    ]
    decided = [reviewer_loop.interpret(reviewer.read_reviewer(sample)).rule for sample in samples]
    assert decided == [rule.name for rule in reviewer_loop.RULES]


def test_every_rule_of_the_follow_up_decides_for_some_snapshot() -> None:
    green = {"prExists": True, "ciStatus": "success"}
    seen = {**green, "copilotReviewPresent": True, "copilotReviewRoundCount": 5}
    capped = {"maxCopilotRounds": 5}
    light = {"stopOnLowSignal": True}
    samples: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({**green, "prMerged": True, "prDraft": True}, {}),
        ({**green, "prDraft": True}, {}),
        ({**green, "copilotReviewRequestStatus": "unavailable"}, {}),
        ({**green, "copilotReviewRequestStatus": "failed"}, {}),
        ({**seen, "copilotReviewOnCurrentHead": False}, {**capped, **light}),
        ({**seen, "copilotReviewOnCurrentHead": False}, capped),
        (seen, capped),
        ({**seen, "unresolvedThreadCount": 1}, capped),
        ({**seen, "unresolvedThreadCount": 1, "agentFixStatus": "applied"}, {}),
        ({**seen, "unresolvedThreadCount": 1, "copilotReviewRequestStatus": "requested"}, {}),
        ({**seen, "copilotReviewRequestStatus": "requested"}, capped),
        ({**seen, "ciStatus": "failure"}, {}),
        ({**seen, "ciStatus": "none"}, {}),
        (seen, light),
        ({**seen, "lastCopilotRoundMaxSignal": "high"}, light),
        (green, {}),
    ]
    decided = [
        follow_up_loop.interpret(follow_up.read_follow_up(sample), follow_up.read_limits(limits)).rule
        for sample, limits in samples
    ]
    assert decided == [rule.name for rule in follow_up_loop.RULES]
