"""Usage limits: until when an agent is held up, as its own words say it ("resets 5:06pm (UTC)").

The words stay on the screen after the reset, so it is the clock that says when a limit is over. A limit that is met
again at once was read wrongly, and counts as lasting longer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UNKNOWN = timedelta(minutes=15)
"""How long a limit is taken to last whose end is not said, or was said wrongly."""
SLACK = timedelta(seconds=20)
TYPING, SHOWN = timedelta(seconds=30), timedelta(seconds=3)
_PAST = timedelta(hours=4)
"""A time without a date lies at most so long ago; else it is the one to come."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RESET = re.compile(
    r"resets\s+(?:at\s+)?(?:(?P<month>[A-Za-z]{3})[a-z]*\s+(?P<day>\d{1,2})(?:,|\s+at)?\s+)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)?(?:\s*\((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)


def reset_time(words: str, now: datetime) -> datetime | None:
    """The moment of the reset that these words name, None where they name none. ``now`` knows its zone."""
    found = _RESET.search(words)
    if found is None:
        return None
    try:
        zone: tzinfo | None = ZoneInfo(found["zone"]) if found["zone"] else None
        local = now.astimezone(zone)
        hour = int(found["hour"])
        if found["half"]:
            hour = hour % 12 + (12 if found["half"].lower() == "pm" else 0)
        named = local.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            month = _MONTHS.index(found["month"].lower()) + 1
            named = named.replace(month=month, day=int(found["day"]))
            return named.replace(year=named.year + 1) if named < local - timedelta(days=180) else named
    except (ValueError, ZoneInfoNotFoundError):
        return None
    return named + timedelta(days=1) if named < local - _PAST else named


@dataclass
class _Held:
    words: str
    until: datetime
    typing_until: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        return self.until <= now or (self.typing_until is not None and now < self.typing_until)


class Limits:
    """The limits that panes stand under. Thread-safe; ``clock`` answers with a zone."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}

    def over(self, pane_id: str, words: str) -> bool:
        """The pane shows a limit in these words: whether it has passed."""
        now = self._clock()
        with self._lock:
            held = self._held.get(pane_id)
            if held is None or held.words != words:
                until = reset_time(words, now)
                held = self._held[pane_id] = _Held(words, now + UNKNOWN if until is None else until + SLACK)
            return held.is_over(now)

    def typing(self, pane_id: str) -> None:
        """Something is about to be typed: until it shows, the old words mean nothing."""
        with self._lock:
            if pane_id in self._held:
                self._held[pane_id].typing_until = self._clock() + TYPING

    def typed(self, pane_id: str, *, anything: bool) -> None:
        """It was; if the same words stand there once it has shown, the limit lasts longer than they say."""
        now = self._clock()
        with self._lock:
            held = self._held.get(pane_id)
            if held is not None:
                held.typing_until = now + SHOWN if anything else None
                held.until = now + UNKNOWN if anything else held.until

    def lifted(self, pane_id: str) -> None:
        """The pane shows none any more."""
        with self._lock:
            self._held.pop(pane_id, None)

    def seconds_left(self, pane_id: str) -> float:
        """Until the limit is over; 0 where none is known."""
        with self._lock:
            held = self._held.get(pane_id)
            return 0.0 if held is None else max(0.0, (held.until - self._clock()).total_seconds())

    def panes(self) -> list[str]:
        """The panes that stand under one, also under one that has passed."""
        with self._lock:
            return list(self._held)

    def next_due(self) -> float | None:
        """Seconds until a pane is to be looked at again; None while nothing passes."""
        now = self._clock()
        with self._lock:
            moments = [held.until for held in self._held.values()]
            moments += [held.typing_until for held in self._held.values() if held.typing_until is not None]
        return min(((moment - now).total_seconds() for moment in moments if moment > now), default=None)
