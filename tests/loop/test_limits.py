"""Usage limits of agents: held until their time, then over, and a new limit is a new one."""

from datetime import UTC, datetime, timedelta

from conductor.loop.limits import MARGIN, Limits

NOW = datetime(2026, 3, 4, 15, 30, tzinfo=UTC)
WORDS = "Usage limit reached · resets 4pm (UTC)"
LATER = datetime(2026, 3, 4, 16, 0, tzinfo=UTC) + MARGIN


def test_a_limit_holds_until_its_time_and_ends_once() -> None:
    limits = Limits()
    assert limits.seen(2, WORDS, NOW)
    assert limits.until_next(NOW) == (LATER - NOW).total_seconds()
    assert limits.ended(LATER - timedelta(seconds=1)) == []
    assert not limits.over(2)
    assert limits.ended(LATER) == [2]
    assert limits.ended(LATER) == []
    assert limits.over(2)


def test_the_same_words_after_their_time_are_no_limit_any_more() -> None:
    limits = Limits()
    limits.seen(2, WORDS, NOW)
    limits.ended(LATER)
    assert not limits.seen(2, WORDS, LATER)


def test_other_words_are_a_new_limit() -> None:
    limits = Limits()
    limits.seen(2, WORDS, NOW)
    limits.ended(LATER)
    assert limits.seen(2, "Usage limit reached · resets 9pm (UTC)", LATER)
    assert not limits.over(2)


def test_a_limit_without_a_time_waits_for_a_person() -> None:
    limits = Limits()
    assert limits.seen(1, "limit reached", NOW)
    assert limits.until_next(NOW) is None
    assert limits.ended(NOW + timedelta(days=9)) == []


def test_a_limit_that_is_gone_is_forgotten() -> None:
    limits = Limits()
    limits.seen(1, WORDS, NOW)
    limits.gone(1)
    assert limits.until_next(NOW) is None
