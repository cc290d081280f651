"""Usage limits that agents show: when each one is over by its own words, and that it was taken for over."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from conductor.core.limits import resets_at

MARGIN = timedelta(seconds=30)
"""Vendors' clocks differ: a prompt a little too early would only meet the limit again."""


@dataclass
class _Limit:
    words: str
    until: datetime | None
    over: bool = False


class Limits:
    """By pane index. Thread-safe."""

    def __init__(self) -> None:
        self._limits: dict[int, _Limit] = {}
        self._lock = threading.Lock()

    def seen(self, index: int, words: str, now: datetime) -> bool:
        """A limit stands on the screen. Answers whether it still holds: the same words after their time do not."""
        with self._lock:
            known = self._limits.get(index)
            if known is None or known.words != words:
                local = datetime.now().astimezone().tzinfo or UTC
                until = resets_at(words, now, local)
                known = self._limits[index] = _Limit(words, until + MARGIN if until is not None else None)
            return not known.over

    def gone(self, index: int) -> None:
        """No limit is shown any more."""
        with self._lock:
            self._limits.pop(index, None)

    def over(self, index: int) -> bool:
        """The limit that is shown is past its time: the agent may be typed to."""
        with self._lock:
            known = self._limits.get(index)
            return known is not None and known.over

    def ended(self, now: datetime) -> list[int]:
        """The panes whose limit ended since it was asked last."""
        with self._lock:
            found = [
                index
                for index, limit in self._limits.items()
                if not limit.over and limit.until is not None and limit.until <= now
            ]
            for index in found:
                self._limits[index].over = True
            return found

    def until_next(self, now: datetime) -> float | None:
        """Seconds until the next limit ends; None where none is known to."""
        with self._lock:
            dues = [limit.until for limit in self._limits.values() if not limit.over and limit.until is not None]
        return max(0.05, (min(dues) - now).total_seconds()) if dues else None
