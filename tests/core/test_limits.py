"""When a usage limit is over: read off the words of several agents."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.limits import resets_at

NOW = datetime(2026, 3, 4, 15, 30, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("You've hit your session limit · resets 5:06pm (UTC)", datetime(2026, 3, 4, 17, 6, tzinfo=UTC)),
        ("Usage limit reached, resets at 17:06", datetime(2026, 3, 4, 16, 6, tzinfo=UTC)),
        ("limit reached - resets 3am", datetime(2026, 3, 5, 2, 0, tzinfo=UTC)),
        ("resets 12am (UTC)", datetime(2026, 3, 5, 0, 0, tzinfo=UTC)),
        ("try again in 2 hours 5 minutes", NOW + timedelta(hours=2, minutes=5)),
        ("try again in 3d", NOW + timedelta(days=3)),
        ("resets 3:29pm (UTC)", datetime(2026, 3, 4, 15, 29, tzinfo=UTC)),
        ("resets 3:20pm (UTC)", datetime(2026, 3, 5, 15, 20, tzinfo=UTC)),
    ],
)
def test_the_moment_that_the_words_name(words: str, expected: datetime) -> None:
    assert resets_at(words, NOW, BERLIN) == expected


@pytest.mark.parametrize("words", ["", "limit reached", "resets at 25:00", "resets 13pm", "resets soon", "in a while"])
def test_words_that_name_no_moment(words: str) -> None:
    assert resets_at(words, NOW, BERLIN) is None


@given(st.text())
def test_any_words_are_read_without_a_fault_and_never_far_in_the_past(words: str) -> None:
    moment = resets_at(words, NOW, BERLIN)
    assert moment is None or moment >= NOW - timedelta(minutes=6)


@given(st.integers(0, 23), st.integers(0, 59))
def test_every_clock_time_is_within_a_day(hour: int, minute: int) -> None:
    moment = resets_at(f"resets at {hour}:{minute:02d}", NOW, UTC)
    assert moment is not None
    assert moment - NOW <= timedelta(days=1)
