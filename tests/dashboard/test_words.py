"""Every event, effect and rule has words; what would move a pane is what the rules do."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from conductor.core.cycle import TABLE
from conductor.core.memory import Memory
from conductor.dashboard.narrate import Narrator
from conductor.dashboard.outlook import REFUSALS, choices, moves
from conductor.dashboard.words import RULES, details, effect_words
from conductor.docs import cycle
from conductor.journal import read
from schemas.effects import Effect
from schemas.pane import Status
from tests.support.samples import EFFECTS, EVENTS
from tests.support.stories import Run, tell_it_all


def kinds(union: object) -> set[str]:
    """The ``kind`` of each member of a union of events or effects."""
    members = get_args(get_args(union)[0])
    return {member.model_fields["kind"].default for member in members}


def test_there_is_a_sample_of_every_event_and_effect() -> None:
    from schemas.events import Event

    assert {event.kind for event in EVENTS} == kinds(Event)
    assert {effect.kind for effect in EFFECTS} == kinds(Effect)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_is_told_on_one_clean_line(event: object) -> None:
    words = details(event)  # type: ignore[arg-type]
    assert "\n" not in words
    assert "\x1b" not in words
    assert len(words) <= 300


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.kind)
def test_an_effect_is_told_on_one_clean_line(effect: Effect) -> None:
    words = effect_words(effect)
    assert words
    assert "\n" not in words
    assert "\x1b" not in words


def test_every_rule_has_its_meaning_once() -> None:
    rules = [row.rule for row in TABLE]
    assert len(rules) == len(set(rules))
    assert set(rules) <= set(RULES)
    assert set(rules) >= REFUSALS


@pytest.fixture
def story(tmp_path: Path) -> Run:
    run = tell_it_all(tmp_path)
    run.close()
    return run


def test_the_narrator_ends_where_the_memory_ends(story: Run) -> None:
    narrator, memory = Narrator(), Memory()
    for line in read(story.layout.journal):
        said = narrator.tell(line)
        step = memory.take(line)
        assert said.rule == step.rule
        assert said.seq == line.seq
    assert narrator.fleet == memory.fleet


def test_what_would_move_a_pane_depends_on_where_it_is(story: Run) -> None:
    policy = story.memory.fleet.policy
    by_pane = {index: {move.when: move.status for move in moves(story.pane(index), policy)} for index in (1, 2, 3, 4)}
    assert by_pane[1]["the pull request gets another head"] == Status.REVIEWING
    assert by_pane[2]["the worker reports that it answered"] == Status.REVIEW_ADDRESSED
    assert "the worker reports that it answered" not in by_pane[3]
    assert by_pane[4]["CI passes"] == Status.REVIEWING
    assert "the review approves" not in by_pane[4]


def test_choices_are_offered_only_where_a_person_is_wanted(story: Run) -> None:
    policy = story.memory.fleet.policy
    assert choices(story.pane(1), policy) == []
    offered = {choice.verb: (choice.needs, bool(choice.why_not)) for choice in choices(story.pane(3), policy)}
    assert offered == {
        "approve": ("--follow-up ISSUE", False),
        "another-cycle": ("", False),
        "retry": ("", True),
        "abandon": ("", False),
    }


def test_every_way_that_was_found_is_one_that_its_row_allows() -> None:
    rows = {row.rule: row for row in TABLE}
    ways = cycle.arrows()
    assert ways
    for (source, target), rules in ways.items():
        for rule in rules:
            to = rows[rule].to
            assert source in rows[rule].sources
            assert to is not None
            assert target in to


def test_every_state_is_reached_and_left() -> None:
    ways = cycle.arrows()
    assert {target for _, target in ways} == set(Status)
    assert {source for source, _ in ways} == set(Status)
