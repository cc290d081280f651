"""The loop: observe, journal, decide, intend, perform, record.

One thread owns the memory and the journal. Observers and performers run in other threads and only put things on its
queue. Whatever the queue holds is taken together: events are folded, the effects whose turn it is get their intent,
all of it goes to the journal in one write, and only then is anything carried out.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from conductor.core.cycle import apply, wanted
from conductor.core.memory import Memory, Outstanding, remember
from conductor.core.state import Fleet
from conductor.journal import Journal, JournalFullError, read, writable
from conductor.loop.lanes import Lane, Lanes
from conductor.loop.outcome import Done, Failed, Outcome, Retry
from schemas.effects import Effect
from schemas.errors import Fault
from schemas.events import EffectFailed, Event
from schemas.journal import EventLine, IntentLine, JournalLine, NoteLine, ResultLine
from schemas.text import one_line

FULL_DISK_PAUSE = 2.0
DEFECT_PAUSE = 60.0
"""Seconds before an effect is tried again whose performer raised what nobody expected."""
_REPEATED = (
    "agent unchanged",
    "result seen before",
    "invalid result seen before",
    "request taken already",
    "merge known",
    "CI of the approved head",
    "forge unreachable",
    "forge back",
    "effect failed",
    "task queued",
    "review stage",
)
"""Rules whose events say nothing where they change nothing."""


class Performs(Protocol):
    """Whatever carries effects out. ``again``: it may have been begun before, so look at the world first."""

    def perform(self, effect: Effect, *, again: bool, cancelled: Callable[[], bool]) -> Outcome: ...


class Watcher(Protocol):
    """Whoever wants to know what was journalled, by which rule, and what the fleet looks like now."""

    def __call__(self, lines: Sequence[tuple[JournalLine, str]], before: Fleet, after: Fleet) -> None: ...


STOP_GRACE = 8.0
"""Seconds that ``stop`` leaves to effects that run. What has not ended by then is looked at by the next start."""

Probe = Callable[[str, str], None]
"""Called at each boundary of an effect with (boundary, effect kind); tests end the process there. The boundaries:
``intended`` or (when it may have been begun before) ``again``, ``performed`` or ``postponed``, ``recorded``."""


@dataclass(frozen=True)
class _Observed:
    events: tuple[Event, ...]
    taken: Callable[[], None] | None = None


@dataclass(frozen=True)
class _Finished:
    key: str
    outcome: Outcome


@dataclass(frozen=True)
class _Note:
    text: str
    pane: int | None = None


@dataclass(frozen=True)
class _Wake:
    pane: int


_Item = _Observed | _Finished | _Note | _Wake
_Told = list[tuple[JournalLine, str]]
_Begun = list[tuple[Outstanding, Lane, bool]]


class Engine:
    """Takes events and performs effects until it is told to stop."""

    def __init__(
        self,
        journal: Journal,
        performer: Performs,
        *,
        workers: int = 24,
        probe: Probe | None = None,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self.journal = journal
        self.performer = performer
        self.memory = Memory()
        self.watchers: list[Watcher] = []
        self._probe = probe or (lambda _boundary, _kind: None)
        self._on_trouble = on_trouble or (lambda _text: None)
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="effect")
        self._running: set[Future[None]] = set()
        self.left_running = False
        """An effect had not ended when the engine stopped waiting for it; its thread goes on."""
        self._lanes = Lanes()
        self._full = False
        self._stopping = threading.Event()

    def observe(self, *events: Event, taken: Callable[[], None] | None = None) -> None:
        """Events from outside, journalled together; ``taken`` is called once they are on the disk."""
        self._queue.put(_Observed(events, taken))

    def note(self, text: str, pane: int | None = None) -> None:
        """Something for people, kept in the journal."""
        self._queue.put(_Note(text, pane))

    def wake(self, pane: int) -> None:
        """The pane's agent changed: what waits for that is tried now."""
        self._queue.put(_Wake(pane))

    def stop(self) -> None:
        """End the loop after what is being taken now."""
        self._stopping.set()
        self._queue.put(None)

    @property
    def fleet(self) -> Fleet:
        """The states as of now (immutable)."""
        return self.memory.fleet

    def start(self) -> str | None:
        """Read the journal and rebuild the memory. Answers what a person should know (a torn line)."""
        lines, torn = self.journal.open()
        self.memory = remember(lines)
        if torn:
            self.note(torn)
        return torn

    def take_waiting(self) -> None:
        """Take what was observed so far, before anything is performed: ``fleet`` knows of it then."""
        waiting = self._drain()
        if not self._take(waiting, schedule=False):
            for item in waiting:
                self._queue.put(item)

    def run(self) -> None:
        """Take and perform until ``stop``. A full disk pauses it; nothing is lost and nothing is done meanwhile."""
        batch: list[_Item] = []
        while not self._stopping.is_set():
            if self._take(batch):
                batch = self._collect()
            else:
                self._stopping.wait(FULL_DISK_PAUSE)
        if self._take(batch, schedule=False):
            batch = []
        self._lanes.stop_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # One that had not begun is cancelled by now, which `wait` would not take for an end.
        self.left_running = bool(wait([one for one in self._running if not one.done()], STOP_GRACE).not_done)
        self._take([*batch, *self._drain()], schedule=False)

    def _collect(self) -> list[_Item]:
        try:
            first = self._queue.get(timeout=self._lanes.until_due(self.memory.outstanding))
        except queue.Empty:
            return []
        return ([first] if first is not None else []) + self._drain()

    def _drain(self) -> list[_Item]:
        items: list[_Item] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return items
            if item is not None:
                items.append(item)

    def _take(self, batch: Sequence[_Item], *, schedule: bool = True) -> bool:
        """Fold the batch, write it, act on it. False where the journal could not be written: take it again later."""
        before, seq = self.memory.fleet, self.memory.last_seq
        told: _Told = []
        for item in batch:
            for line in self._lines_of(item):
                told.append((line, self.memory.take(line).rule))
        for item in batch:
            self._free_lane(item)
        begun = list(self._turns(told)) if schedule else []
        if told:
            try:
                self.journal.append([line for line, _ in told])
            except JournalFullError as fault:
                self._take_nothing_back(seq, begun, fault)
                return False
        self._full = False
        for line, _ in told:
            if isinstance(line, ResultLine):
                self._probe("recorded", line.effect)
        self._tell(batch, told, before)
        for outstanding, lane, again in begun:
            self._begin(outstanding, lane, again=again)
        return True

    def _take_nothing_back(self, seq: int, begun: _Begun, fault: JournalFullError) -> None:
        """The batch is not in the journal: the memory is what the journal says, and nothing begins."""
        self.journal.rewind(seq)
        self.memory = remember(read(self.journal.path))
        self._lanes.give_back(frozenset(outstanding.key for outstanding, _, _ in begun))
        if not self._full:
            self._full = True
            self._on_trouble(str(fault))

    def _tell(self, batch: Sequence[_Item], told: _Told, before: Fleet) -> None:
        """Whoever listens hears of what is on the disk now. What they cannot do ends nothing here."""
        calls = [item.taken for item in batch if isinstance(item, _Observed) and item.taken is not None]
        if told:
            calls += [partial(watcher, told, before, self.memory.fleet) for watcher in self.watchers]
        for call in calls:
            try:
                call()
            except (OSError, Fault) as fault:
                self._on_trouble(str(fault))

    def _lines_of(self, item: _Item) -> Iterator[JournalLine]:
        now = datetime.now(UTC)
        if isinstance(item, _Observed):
            for event in map(writable, item.events):
                if self._says_something(event):
                    yield EventLine(**self.journal.stamp(now), event=event)
        elif isinstance(item, _Note):
            yield NoteLine(**self.journal.stamp(now), text=one_line(item.text, 2000), pane=item.pane)
        elif isinstance(item, _Finished):
            yield from self._result_of(item, now)

    def _says_something(self, event: Event) -> bool:
        """A repetition of what is known is not journalled; everything else is, also what no row takes."""
        fleet, effects, rule = apply(self.memory.fleet, event)
        return bool(effects) or fleet is not self.memory.fleet or rule not in _REPEATED

    def _result_of(self, item: _Finished, now: datetime) -> Iterator[JournalLine]:
        outstanding = self.memory.outstanding.get(item.key)
        if outstanding is None:
            return
        effect, outcome = outstanding.effect, item.outcome
        event = writable(outcome.event) if outcome.event is not None else None
        if isinstance(outcome, Retry):
            if event is not None and apply(self.memory.fleet, event)[0] is not self.memory.fleet:
                yield EventLine(**self.journal.stamp(now), event=event)
            return
        yield ResultLine(
            **self.journal.stamp(now),
            key=item.key,
            effect=effect.kind,
            pane=effect.pane,
            outcome="done" if isinstance(outcome, Done) else "failed",
            detail=one_line(outcome.detail if isinstance(outcome, Done) else outcome.reason, 2000),
            event=event,
        )

    def _free_lane(self, item: _Item) -> None:
        if isinstance(item, _Wake):
            self._lanes.wake(item.pane)
        elif isinstance(item, _Finished):
            outcome = item.outcome
            if isinstance(outcome, Retry):
                self._lanes.end(item.key, outcome.after, wakes=outcome.wake)
            else:
                self._lanes.end(item.key, None, wakes=False)

    def _turns(self, told: _Told) -> Iterator[tuple[Outstanding, Lane, bool]]:
        """The effects whose turn it is, with their intents told; what is not wanted any more is dropped on the way."""
        now, moment = time.monotonic(), datetime.now(UTC)
        dropped = True
        while dropped:
            dropped = False
            for outstanding, lane in self._lanes.turns(self.memory.outstanding, now):
                effect = outstanding.effect
                unwanted = not wanted(self.memory.fleet, effect)
                if lane.running is not None:
                    if unwanted and lane.running == outstanding.key:
                        lane.stop.set()
                elif unwanted:
                    line = ResultLine(
                        **self.journal.stamp(moment),
                        key=outstanding.key,
                        effect=effect.kind,
                        pane=effect.pane,
                        outcome="dropped",
                        detail="not wanted any more",
                    )
                    told.append((line, self.memory.take(line).rule))
                    dropped = True
                elif not lane.holds(outstanding.key, now):
                    again = outstanding.intended
                    if not again:
                        intent = IntentLine(
                            **self.journal.stamp(moment),
                            key=outstanding.key,
                            effect=effect.kind,
                            pane=effect.pane,
                        )
                        told.append((intent, self.memory.take(intent).rule))
                    lane.running = outstanding.key
                    yield outstanding, lane, again

    def _begin(self, outstanding: Outstanding, lane: Lane, *, again: bool) -> None:
        stop = self._lanes.begin(lane, outstanding.key)
        self._probe("again" if again else "intended", outstanding.effect.kind)
        self._running = {one for one in self._running if not one.done()}
        self._running.add(self._pool.submit(self._perform, outstanding, stop, again))

    def _perform(self, outstanding: Outstanding, stop: threading.Event, again: bool) -> None:
        effect = outstanding.effect
        try:
            outcome: Outcome = self.performer.perform(effect, again=again, cancelled=stop.is_set)
        except Exception as fault:  # an effect must never end the loop: whatever it was, a person is told
            reason = f"{type(fault).__name__}: {one_line(str(fault), 500)}"
            told = EffectFailed(pane=effect.pane, at=datetime.now(UTC), effect=effect.kind, reason=reason)
            outcome = Retry(DEFECT_PAUSE, reason, told)
        self._probe("postponed" if isinstance(outcome, Retry) else "performed", effect.kind)
        self._queue.put(_Finished(outstanding.key, outcome))


__all__ = ["Engine", "Failed", "Performs", "Probe", "Watcher"]
