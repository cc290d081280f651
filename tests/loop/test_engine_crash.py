"""kill -9 at every boundary of every effect of a three-cycle run and a new start: nothing lost, nothing done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def outcomes() -> list[dict[str, Any]]:
    """The run without a kill, then one for each boundary; in memory where it can be, the disk is not the matter."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.loop.crash_run", folder],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _names(outcome: dict[str, Any], what: str) -> list[str]:
    return [seen["name"] for seen in outcome["world"] if seen["what"] == what]


def test_the_run_without_a_kill_is_three_cycles(outcomes: list[dict[str, Any]]) -> None:
    whole = outcomes[0]
    assert whole["ended"] == [0, 0]
    kinds = [seen["what"] for seen in whole["world"]]
    cycle = ["inspect_pr", "run_review", "post_review", "write_result"]
    assert kinds == [*["send_task", *cycle] * 3, "report"]
    assert not any(seen["again"] for seen in whole["world"])
    assert len(outcomes) == 1 + whole["boundaries"]
    assert whole["boundaries"] == 5 * len(kinds)  # three of the engine, two of the world


def test_each_boundary_really_kills(outcomes: list[dict[str, Any]]) -> None:
    assert [outcome["ended"] for outcome in outcomes[1:]] == [[-9, 0]] * (len(outcomes) - 1)


def test_every_run_ends_at_the_cap_with_its_counters_intact(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        end = (outcome["status"], outcome["cycle"], outcome["attention"], outcome["outstanding"])
        assert end == ("review_pending", 3, "cycle_cap", []), outcome["kill_at"]


def test_no_review_is_lost_and_none_is_posted_twice(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert Counter(_names(outcome, "post_review")) == Counter(_names(outcomes[0], "post_review"))


def test_no_task_is_lost_and_none_is_typed_twice(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert Counter(_names(outcome, "send_task")) == Counter(_names(outcomes[0], "send_task"))


def test_what_may_be_done_twice_is_done_again_at_most_once(outcomes: list[dict[str, Any]]) -> None:
    whole = Counter(seen["what"] for seen in outcomes[0]["world"])
    for outcome in outcomes:
        found = Counter(seen["what"] for seen in outcome["world"])
        more = {kind: found[kind] - whole[kind] for kind in whole if found[kind] != whole[kind]}
        assert all(count == 1 for count in more.values()), (outcome["kill_at"], more)
        assert set(more) <= {"inspect_pr", "run_review", "write_result", "report"}


def test_again_is_said_of_exactly_those_with_an_intent_and_no_result(outcomes: list[dict[str, Any]]) -> None:
    """What the world saw after the new start with ``again`` is what the journal owed, less what was found done."""
    for outcome in outcomes:
        later = [seen["what"] for seen in outcome["world"][outcome["seen_before"] :] if seen["again"]]
        owed = list(outcome["owed"].values())
        assert Counter(later) <= Counter(owed), outcome["kill_at"]
        for kind in set(owed) - set(later):
            assert kind in ("post_review", "send_task"), (outcome["kill_at"], kind)
        earlier = outcome["world"][: outcome["seen_before"]]
        assert not any(seen["again"] for seen in earlier)


def test_every_kind_of_effect_was_half_done_once(outcomes: list[dict[str, Any]]) -> None:
    owed = {kind for outcome in outcomes for kind in outcome["owed"].values()}
    assert owed == {"send_task", "inspect_pr", "run_review", "post_review", "write_result", "report"}
