"""Waiting for a condition with a deadline: the only way in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.01


def wait_until(condition: Callable[[], T], timeout: float = 10.0, what: str = "the condition") -> T:
    """Call ``condition`` every 10 ms until it returns something true, and return that.

    ``timeout`` is in seconds; the condition is asked once more after it, so a slow machine gets its chance.
    Raises AssertionError with ``what`` was waited for and the last answer. What the condition raises is
    not caught: a condition that may fail at first says so itself by returning something false.
    """
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= deadline
        answer = condition()
        if answer:
            return answer
        if late:
            raise AssertionError(f"waited {timeout:g} s for {what}; the last answer was {answer!r}")
        time.sleep(POLL_SECONDS)
