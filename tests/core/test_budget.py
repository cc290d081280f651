"""The pace at which a forge is asked: never past the reserve, never faster than configured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from conductor.core.budget import RESERVE, pause_for, spent
from schemas.forge import ApiBudget

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def budget(remaining: int, *, limit: int = 5000, left: float = 3600.0) -> ApiBudget:
    return ApiBudget(remaining=remaining, limit=limit, reset_at=NOW + timedelta(seconds=left))


def test_a_full_budget_leaves_the_interval_as_it_is() -> None:
    assert pause_for(budget(5000), 1, 15.0, NOW) == 15.0


def test_a_low_budget_is_spread_over_what_is_left_of_the_window() -> None:
    assert pause_for(budget(600), 1, 15.0, NOW) == 36.0


def test_dear_rounds_are_made_more_rarely() -> None:
    assert pause_for(budget(600), 4, 15.0, NOW) == 144.0


def test_at_the_reserve_nothing_is_asked_before_the_window_is_over() -> None:
    assert pause_for(budget(500), 1, 15.0, NOW) == 3601.0
    assert pause_for(budget(0), 1, 15.0, NOW) == 3601.0


def test_a_window_that_is_over_holds_nothing_back() -> None:
    assert pause_for(budget(0, left=-5), 1, 15.0, NOW) == 15.0


def test_points_are_counted_within_one_window_whoever_spent_them() -> None:
    assert spent(None, budget(4000)) == 1
    assert spent(budget(4010), budget(4000)) == 10
    assert spent(budget(10), budget(5000, left=7200.0)) == 1


@given(
    remaining=st.integers(0, 5000),
    points=st.integers(1, 50),
    interval=st.floats(1.0, 120.0),
    left=st.floats(60.0, 3600.0),
)
def test_rounds_at_this_pace_never_reach_into_the_reserve(
    remaining: int, points: int, interval: float, left: float
) -> None:
    seconds, points_left, rounds = 0.0, remaining, 0
    while rounds < 500:
        now = NOW + timedelta(seconds=seconds)
        pause = pause_for(
            ApiBudget(remaining=points_left, limit=5000, reset_at=NOW + timedelta(seconds=left)), points, interval, now
        )
        assert pause >= interval
        seconds += pause
        if seconds >= left:
            return
        points_left -= points
        rounds += 1
        assert points_left >= 5000 * RESERVE - 0.001
