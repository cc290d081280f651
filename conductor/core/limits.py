"""When a usage limit ends, read off the words that an agent shows (field fault: an idle agent with a reset time).

Pure: the moment of reading and the local time zone are given.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

_CLOCK = re.compile(r"reset[s]?\s*(?:at)?\s*(\d{1,2})(?::(\d{2}))?\s*([ap]m)?\s*(?:\(([^)]*)\))?", re.IGNORECASE)
_SPAN = re.compile(
    r"\b(?:in|after)\s+(?:(\d+)\s*d(?:ays?)?)?\s*(?:(\d+)\s*h(?:(?:ou)?rs?)?)?\s*(?:(\d+)\s*m(?:in(?:ute)?s?)?)?\b",
    re.IGNORECASE,
)
_EARLIER = timedelta(minutes=5)
"""A clock time so little in the past is the one that is meant: the screen was read late."""


def resets_at(words: str, now: datetime, local: tzinfo) -> datetime | None:
    """The moment (UTC) that the words name, None where they name none.

    A time of day without a zone, or with one that is not UTC, is taken as local; one that is past means tomorrow.
    """
    clock = _CLOCK.search(words)
    if clock is not None:
        return _next(clock, now, local)
    span = _SPAN.search(words)
    if span is None or not any(span.groups()):
        return None
    days, hours, minutes = (int(part or 0) for part in span.groups())
    return now + timedelta(days=days, hours=hours, minutes=minutes)


def _next(clock: re.Match[str], now: datetime, local: tzinfo) -> datetime | None:
    hour, minute, half, zone = int(clock[1]), int(clock[2] or 0), (clock[3] or "").lower(), (clock[4] or "").strip()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59:
        return None
    there = now.astimezone(UTC if zone.upper() in ("UTC", "GMT", "Z") else local)
    moment = there.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if moment < there - _EARLIER:
        moment += timedelta(days=1)
    return moment.astimezone(UTC)
