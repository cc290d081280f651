"""CI of a head, the checkpoint, and what a fresh start makes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.loops.ci import Credit, Outcome, Signal, ci_status, outcome_of
from conductor.core.loops.outer import RESUME_ACTIONS, Resume, next_checkpoint, resume
from conductor.core.loops.routing import route
from schemas.errors import BadInput
from schemas.loops.checkpoint import NAMES, Checkpoint, read_checkpoint, write_checkpoint
from schemas.loops.reviewer import read_reviewer
from schemas.loops.routing import OUTER_ACTIONS, read_routing

HEAD, OTHER = "a" * 40, "b" * 40
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GREEN, RED, OPEN = Signal(HEAD, Outcome.SUCCESS), Signal(HEAD, Outcome.FAILURE), Signal(HEAD, Outcome.UNFINISHED)
CREDIT = Credit(suites=0, previous_green=True, validated_head=HEAD)


@pytest.mark.parametrize(
    ("signals", "status"),
    [
        ([], "none"),
        ([GREEN], "success"),
        ([GREEN, OPEN], "pending"),
        ([GREEN, OPEN, RED], "failure"),
        ([Signal(OTHER, Outcome.SUCCESS)], "none"),
        ([Signal(OTHER, Outcome.FAILURE), GREEN], "success"),
    ],
)
def test_ci_of_a_head_counts_its_own_signals_only(signals: list[Signal], status: str) -> None:
    assert ci_status(HEAD, signals) == status
    assert ci_status(HEAD, signals[::-1]) == status


@pytest.mark.parametrize(
    ("credit", "status"),
    [
        (CREDIT, "crediblyGreen"),
        (CREDIT._replace(suites=1), "none"),
        (CREDIT._replace(previous_green=False), "none"),
        (CREDIT._replace(validated_head=OTHER), "none"),
        (CREDIT._replace(validated_head=None), "none"),
        (None, "none"),
    ],
)
def test_credit_needs_no_suite_a_green_head_before_and_this_very_head_validated(
    credit: Credit | None, status: str
) -> None:
    assert ci_status(HEAD, [], credit) == status


def test_credit_never_outweighs_a_signal() -> None:
    assert ci_status(HEAD, [RED], CREDIT) == "failure"
    assert ci_status(HEAD, [OPEN], CREDIT) == "pending"
    assert ci_status(None, [], CREDIT._replace(validated_head=None)) == "none"


@given(word=st.one_of(st.none(), st.text()))
def test_a_word_that_is_not_known_is_never_green(word: str | None) -> None:
    known = ("success", "neutral", "skipped", "passed")
    assert (outcome_of(word) is Outcome.SUCCESS) == ((word or "").strip().lower() in known)


def checkpoint(**changed: Any) -> dict[str, Any]:
    facts = read_routing(
        {"target": {"repo": "O/n", "pr": 3}, "copilotState": "waiting_for_ci", "reviewerState": "submitted_review"}
    )
    made = next_checkpoint(None, facts, route(facts), read_reviewer({"prExists": True, "prHeadSha": HEAD}), AT)
    return {**write_checkpoint(made), **changed}


def test_a_checkpoint_has_the_eleven_fields_and_comes_back_as_it_was() -> None:
    value = checkpoint()
    assert value == {
        "pr": 3,
        "repo": "o/n",
        "outerAction": "continue_wait",
        "copilotState": "waiting_for_ci",
        "reviewerState": "submitted_review",
        "reviewerScope": "all_reviewers",
        "reviewerLogin": None,
        "reason": None,
        "timestamp": "2026-01-02T03:04:05+00:00",
        "waitCycles": 1,
        "headSha": HEAD,
    }
    assert write_checkpoint(read_checkpoint(value)) == value


def test_wait_cycles_add_up_for_one_head_and_start_anew_with_anything_else() -> None:
    def cycle(previous: Checkpoint | None, state: str, head: str) -> Checkpoint:
        facts = read_routing(
            {"target": {"repo": "o/n", "pr": 3}, "copilotState": state, "reviewerState": "submitted_review"}
        )
        return next_checkpoint(previous, facts, route(facts), read_reviewer({"prExists": True, "prHeadSha": head}), AT)

    one = cycle(None, "waiting_for_ci", HEAD)
    two = cycle(one, "waiting_for_ci", HEAD)
    moved = cycle(two, "waiting_for_ci", OTHER)
    acted = cycle(two, "unresolved_feedback_present", HEAD)
    assert [made.wait_cycles for made in (one, two, moved, acted)] == [1, 2, 1, 0]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_without_a_field_is_an_error_that_names_it(name: str) -> None:
    value = checkpoint()
    del value[name]
    with pytest.raises(BadInput, match=name):
        read_checkpoint(value)


@pytest.mark.parametrize(
    "changed",
    [
        {"pr": 0},
        {"repo": " "},
        {"outerAction": "go"},
        {"outerAction": ["done"]},
        {"reviewerScope": None},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-01-02T03:04:05"},
        {"waitCycles": -1},
    ],
)
def test_a_checkpoint_with_a_wrong_value_is_an_error_that_names_it(changed: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(changed))):
        read_checkpoint(checkpoint(**changed))


def test_re_attachment_follows_the_checkpoint() -> None:
    assert resume(None) is Resume.FRESH
    found = [resume(read_checkpoint(checkpoint(outerAction=action))) for action in OUTER_ACTIONS]
    assert found == [Resume.FOLLOW_UP, Resume.FOLLOW_UP, Resume.REVIEWER, Resume.ASK, Resume.FRESH]
    assert set(RESUME_ACTIONS) == set(Resume)
