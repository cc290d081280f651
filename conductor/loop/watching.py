"""Bounded waiting for something on the forge: looks at once when the forge's folders change, else every now and then.

One watcher for each pull request: a lock that names its owner's pid and host. The kernel lets go of it when the owner
dies, so a dead owner's lock is taken over by whoever comes next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from watchdog.events import FileSystemEvent, FileSystemEventHandler

from conductor.folders import observer
from conductor.lock import OneOwner

A = TypeVar("A")


class WatchLock(OneOwner):
    """``state/watches/<owner>/<repository>/pr-N.lock``: held by the one process that watches this pull request."""

    refusal = "this pull request is watched already"
    hint = "Leave it to that process, or end it first."


@contextmanager
def only_watcher(path: Path) -> Iterator[None]:
    """Holds the lock. Raises ``Unavailable`` that names the owner where a live one has it."""
    lock = WatchLock(path)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


class _Wakes(FileSystemEventHandler):
    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in ("created", "moved", "modified", "deleted"):
            self._event.set()


@contextmanager
def _woken(paths: Sequence[Path]) -> Iterator[threading.Event]:
    """An event that is set when something in these folders changes; without any it never is."""
    event = threading.Event()
    watching = observer()
    # A system that has no watches left: then the interval alone wakes.
    with suppress(OSError):
        for path in paths:
            watching.schedule(_Wakes(event), str(path))
        watching.start()
    try:
        yield event
    finally:
        if watching.is_alive():
            watching.stop()
            watching.join()


def wait_for(
    look: Callable[[], A],
    over: Callable[[A], bool],
    *,
    wake_paths: Sequence[Path],
    interval: float,
    budget: float,
) -> A:
    """Look until it is over or ``budget`` seconds are gone, then once more; answers what was seen last.

    Between two looks ``interval`` seconds pass, less where a folder of ``wake_paths`` changes.
    """
    deadline = time.monotonic() + budget
    with _woken(wake_paths) as woken:
        while True:
            woken.clear()
            found = look()
            left = deadline - time.monotonic()
            if over(found):
                return found
            if left <= 0:
                return look()  # the one refresh after the budget
            woken.wait(min(interval, left))
