"""When each pane last wrote something, told by the control client; whoever waits for a pane's next output
waits here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Activity:
    """Times of output by pane id. Thread-safe; ``note`` is called on the control client's reader thread.

    Times are ``time.monotonic`` seconds. Output is known of only since ``connected`` was called last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._count: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._idle: dict[str, float] = {}
        self._since: float | None = None
        self.on_output: Callable[[str], None] | None = None

    def connected(self) -> None:
        """Output is told of from now on."""
        with self._lock:
            self._since = time.monotonic()

    def lost(self) -> None:
        """Output is not told of any more: nothing can be said about stillness, and waiters look for
        themselves.
        """
        with self._changed:
            self._since = None
            self._changed.notify_all()

    def note(self, pane_id: str) -> None:
        with self._changed:
            self._count[pane_id] = self._count.get(pane_id, 0) + 1
            self._last[pane_id] = time.monotonic()
            self._changed.notify_all()
        if self.on_output is not None:
            self.on_output(pane_id)

    def mark(self, pane_id: str) -> int:
        """The number of outputs so far, for ``wait``."""
        with self._lock:
            return self._count.get(pane_id, 0)

    def wait(self, pane_id: str, mark: int, timeout: float) -> bool:
        """Wait until the pane wrote something after ``mark``; False after ``timeout`` seconds without."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count.get(pane_id, 0) != mark, max(0.0, timeout))

    def last(self, pane_id: str) -> float | None:
        """When the pane wrote last, None where nothing is known."""
        with self._lock:
            return None if self._since is None else self._last.get(pane_id)

    def still_for(self, pane_id: str) -> float:
        """For how many seconds nothing was written; 0 where output is not told of."""
        with self._lock:
            if self._since is None:
                return 0.0
            return time.monotonic() - max(self._since, self._last.get(pane_id, 0.0))

    def seen_idle(self, pane_id: str) -> None:
        """The pane's agent was read as idle now."""
        with self._lock:
            self._idle[pane_id] = time.monotonic()

    def idle_and_still(self, pane_id: str) -> bool:
        """The agent was read as idle, and nothing was written since."""
        with self._lock:
            idle = self._idle.get(pane_id)
            return self._since is not None and idle is not None and self._since <= idle >= self._last.get(pane_id, 0.0)
