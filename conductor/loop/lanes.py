"""Whose turn it is: effects of one pane run one after the other; a review (and a look at a claim) beside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from conductor.core.memory import Outstanding

_BESIDE = ("run_review", "inspect_pr")


@dataclass
class Lane:
    """Where one queue of effects stands. ``stop`` tells the running one that it is not wanted any more."""

    running: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    waiting: str | None = None
    due: float = 0.0
    wakes: bool = False

    def may_run(self, key: str, now: float) -> bool:
        if self.running is not None:
            return False
        return self.waiting != key or now >= self.due


class Lanes:
    """All lanes, by pane and kind. Times are of the monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, bool], Lane] = {}

    def of(self, outstanding: Outstanding) -> Lane:
        effect = outstanding.effect
        return self._lanes.setdefault((effect.pane, effect.kind in _BESIDE), Lane())

    def heads(self, outstanding: Mapping[str, Outstanding]) -> Iterator[tuple[Outstanding, Lane]]:
        """The first effect of each lane."""
        seen: set[int] = set()
        for item in list(outstanding.values()):
            lane = self.of(item)
            if id(lane) not in seen:
                seen.add(id(lane))
                yield item, lane

    def begin(self, lane: Lane, key: str) -> threading.Event:
        lane.running, lane.waiting, lane.stop = key, None, threading.Event()
        return lane.stop

    def end(self, key: str, retry_after: float | None, *, wakes: bool) -> None:
        """The effect ended; with ``retry_after`` it is tried again after so many seconds."""
        for lane in self._lanes.values():
            if lane.running == key:
                lane.running = None
                if retry_after is not None:
                    lane.waiting, lane.due, lane.wakes = key, time.monotonic() + retry_after, wakes

    def wake(self, pane: int) -> None:
        for (index, _), lane in self._lanes.items():
            if index == pane and lane.waiting is not None and lane.wakes:
                lane.due = 0.0

    def until_due(self, outstanding: Mapping[str, Outstanding]) -> float | None:
        """Seconds until something is to be tried again; None where nothing is."""
        dues = [lane.due for lane in self._lanes.values() if lane.running is None and lane.waiting in outstanding]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def stop_all(self) -> None:
        for lane in self._lanes.values():
            lane.stop.set()
