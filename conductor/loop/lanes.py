"""Whose turn it is: effects of one pane run one after the other; a review (and a look at a claim) beside them.

A report never waits behind what cannot be done just now: what a person has to do may be the very thing that the
waiting effect needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from conductor.core.memory import Outstanding
from schemas.effects import Report, SendTask, StartAgent

_BESIDE = ("run_review", "inspect_pr")


@dataclass
class Lane:
    """Where one queue of effects stands. ``stop`` tells the running one that it is not wanted any more.

    ``waiting`` is tried again at ``due``; ``wakes``: or when the pane's agent changes, which ``woken`` remembers for
    one that was running meanwhile.
    """

    running: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    waiting: str | None = None
    due: float = 0.0
    wakes: bool = False
    woken: bool = False

    def holds(self, key: str, now: float) -> bool:
        """This effect was tried and waits for its next time."""
        return self.waiting == key and now < self.due


class Lanes:
    """All lanes, by pane and kind. Times are of the monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, bool], Lane] = {}

    def of(self, outstanding: Outstanding) -> Lane:
        effect = outstanding.effect
        return self._lanes.setdefault((effect.pane, effect.kind in _BESIDE), Lane())

    def turns(self, outstanding: Mapping[str, Outstanding], now: float) -> Iterator[tuple[Outstanding, Lane]]:
        """For each lane the effect that runs, else the one whose turn it is.

        That is the first one; where it waits for its next time, the first report that may pass it.
        """
        queues: dict[int, tuple[Lane, list[Outstanding]]] = {}
        for item in outstanding.values():
            lane = self.of(item)
            queues.setdefault(id(lane), (lane, []))[1].append(item)
        for lane, queue in queues.values():
            if lane.running is not None:
                yield next((item for item in queue if item.key == lane.running), queue[0]), lane
            elif not lane.holds(queue[0].key, now):
                yield queue[0], lane
            else:
                yield next((item for item in queue[1:] if _passes(item, queue)), queue[0]), lane

    def begin(self, lane: Lane, key: str) -> threading.Event:
        """The effect runs now; answers what tells it that it is not wanted any more."""
        lane.running, lane.stop, lane.woken = key, threading.Event(), False
        if lane.waiting == key:
            lane.waiting = None
        return lane.stop

    def end(self, key: str, retry_after: float | None, *, wakes: bool) -> None:
        """The effect ended; with ``retry_after`` it is tried again after so many seconds."""
        for lane in self._lanes.values():
            if lane.running == key:
                lane.running = None
                if retry_after is not None:
                    at_once = wakes and lane.woken
                    lane.waiting, lane.wakes = key, wakes
                    lane.due = 0.0 if at_once else time.monotonic() + retry_after

    def give_back(self, keys: frozenset[str]) -> None:
        """These did not begin after all."""
        for lane in self._lanes.values():
            if lane.running in keys:
                lane.running = None

    def wake(self, pane: int) -> None:
        """What waits for the pane's agent is tried now; what runs just now is tried once more if it has to wait."""
        for (index, _), lane in self._lanes.items():
            if index != pane:
                continue
            if lane.running is not None:
                lane.woken = True
            if lane.waiting is not None and lane.wakes:
                lane.due = 0.0

    def until_due(self, outstanding: Mapping[str, Outstanding]) -> float | None:
        """Seconds until something is to be tried again; None where nothing is."""
        dues = [lane.due for lane in self._lanes.values() if lane.running is None and lane.waiting in outstanding]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def stop_all(self) -> None:
        for lane in self._lanes.values():
            lane.stop.set()


def _passes(item: Outstanding, queue: list[Outstanding]) -> bool:
    """Whether this effect may go before the first of its lane, which waits.

    A report that wants a person always may. One that only informs may pass a task on its way to the agent, since
    nothing that it tells of hangs on that; it never passes what it tells of, as an approval that is not posted yet.
    """
    if not isinstance(item.effect, Report):
        return False
    if item.effect.level == "attention":
        return True
    before = queue[: queue.index(item)]
    return all(isinstance(other.effect, SendTask | StartAgent | Report) for other in before)
