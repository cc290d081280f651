"""Notices what agents do: hooks' receipts and the panes' output first, the screen only when something is due.

Quiet panes are not polled. One thread looks at a pane after it fell quiet or its receipts changed, and sleeps
otherwise until the next moment at which an agent that owes an answer would count as silent.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from conductor.core.cycle.moves import owes_answer
from conductor.core.state import Fleet
from conductor.loop.delivery import Deliverer, Place
from conductor.ports import AgentState, PaneInfo, Panes
from schemas.errors import Fault
from schemas.events import AgentSeen, Event, LimitOver, PaneDied
from schemas.pane import Role
from schemas.text import clean, one_line

_RECEIPTS = re.compile(r"pane-(\d+)\.jsonl")


def place_in(fleet: Fleet, index: int) -> Place | None:
    """Where the pane's agent lives; None for a pane without a terminal."""
    pane = fleet.panes.get(index)
    if pane is None or pane.pane_id is None:
        return None
    return Place(index, pane.role, pane.pane_id, pane.agent)


class Supervisor:
    """Turns what panes and receipts show into events, and wakes deliveries that wait for an idle agent."""

    def __init__(
        self,
        panes: Panes,
        deliverer: Deliverer,
        fleet: Callable[[], Fleet],
        observe: Callable[[Event], None],
        wake: Callable[[int], None],
        *,
        silent_after: float,
        on_trouble: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._panes = panes
        self._deliverer = deliverer
        self._limits = deliverer.limits
        self._fleet = fleet
        self._observe = observe
        self._wake = wake
        self._silent_after = silent_after
        self._on_trouble = on_trouble
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._idle: set[str] = set()
        self._last_output: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="supervise", daemon=True)

    def start(self) -> None:
        self._panes.watch(self._changed)
        self._thread.start()
        self.check_all()

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join(timeout=10)

    def check_all(self) -> None:
        """Look at every pane once: at the start, and when panes were bound anew."""
        for pane in self._fleet().panes.values():
            if pane.pane_id is not None and pane.role is not Role.CONDUCTOR:
                self._queue.put(pane.pane_id)

    def known_idle(self, pane_id: str) -> bool:
        """The agent was idle when last looked at, and its pane has shown nothing since."""
        return pane_id in self._idle

    def receipts_changed(self, path: Path) -> None:
        """A hook recorded something."""
        match = _RECEIPTS.fullmatch(path.name)
        place = place_in(self._fleet(), int(match.group(1))) if match else None
        if place is not None:
            self._queue.put(place.pane_id)

    def _changed(self, pane_id: str, what: str) -> None:
        if what == "output":
            self._idle.discard(pane_id)
            self._last_output[pane_id] = time.monotonic()
        else:
            self._queue.put(pane_id)

    def _run(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=self._until_due())
            except queue.Empty:
                self._report_silent()
                self._end_limits()
                continue
            if item is None:
                return
            try:
                self._handle(item)
            except Fault as fault:
                self._on_trouble(str(fault))
            except Exception as fault:  # one pane that cannot be looked at must not blind the others
                self._on_trouble(f"pane {item}: {type(fault).__name__}: {one_line(str(fault), 500)}")

    def _handle(self, pane_id: str) -> None:
        place = self._place(pane_id)
        if place is None or place.role is Role.CONDUCTOR:
            return
        if self._deliverer.is_starting(place.index):
            return  # its old program is ended on purpose; the start looks after the new one
        info = self._panes.info(pane_id)
        if info is None or info.dead:
            self._lost(place, info)
            return
        state = self._state(place)
        if state.name == "gone":
            self._lost(place, self._panes.info(pane_id))
            return
        if state.name == "idle":
            self._idle.add(pane_id)
        else:
            self._idle.discard(pane_id)
        self._last_output.setdefault(pane_id, time.monotonic())
        if state.name != "unknown":
            self._observe(
                AgentSeen(pane=place.index, at=datetime.now(UTC), state=state.name, detail=clean(state.detail))
            )
        if state.name == "idle":
            self._wake(place.index)

    def _state(self, place: Place) -> AgentState:
        """The agent's state; a limit whose time is past is none any more, although it still stands there."""
        state = self._deliverer.state_of(place)
        if state.name != "limit":
            self._limits.gone(place.index)
            return state
        holds = self._limits.seen(place.index, state.detail, datetime.now(UTC))
        # The program may ask first what to do until the reset: that is for a person.
        if holds or not self._deliverer.takes_input(place):
            return state
        pane = self._fleet().panes.get(place.index)
        if pane is not None and pane.agent_state == "limit":
            self._observe(LimitOver(pane=place.index, at=datetime.now(UTC)))
        return AgentState("idle")

    def _lost(self, place: Place, info: PaneInfo | None) -> None:
        self._idle.discard(place.pane_id)
        status = "its pane is gone"
        if info is not None:
            status = "how is not known" if info.exit_status is None else f"status {info.exit_status}"
        pane = self._fleet().panes.get(place.index)
        if pane is not None and pane.pane_id == place.pane_id and pane.agent_state != "gone":
            self._observe(PaneDied(pane=place.index, at=datetime.now(UTC), detail=status))

    def _place(self, pane_id: str) -> Place | None:
        fleet = self._fleet()
        for index, pane in fleet.panes.items():
            if pane.pane_id == pane_id:
                return place_in(fleet, index)
        return None

    def _owing(self) -> list[tuple[Place, float]]:
        """Agents at work, or idle with their task unanswered; each with the moment at which it counts as silent."""
        fleet = self._fleet()
        found = []
        for index, pane in fleet.panes.items():
            place = place_in(fleet, index)
            if place is None or pane.task is None or not pane.task.open:
                continue
            stopped = pane.agent_state == "idle" and pane.task.delivery == "delivered" and owes_answer(pane)
            if stopped or pane.agent_state in ("busy", "starting"):
                found.append((place, self._last_output.get(place.pane_id, time.monotonic()) + self._silent_after))
        return found

    def _until_due(self) -> float | None:
        dues = [due for due in (self._until_silent(), self._limits.until_next(datetime.now(UTC))) if due is not None]
        return min(dues) if dues else None

    def _end_limits(self) -> None:
        """Look at the panes whose usage limit is over by its own words: the work goes on there."""
        for index in self._limits.ended(datetime.now(UTC)):
            place = place_in(self._fleet(), index)
            if place is not None:
                self._queue.put(place.pane_id)

    def _until_silent(self) -> float | None:
        dues = [due for _, due in self._owing()]
        return max(0.05, min(dues) - time.monotonic()) if dues else None

    def _report_silent(self) -> None:
        now = time.monotonic()
        minutes = f"{self._silent_after / 60:.0f} min"
        for place, due in self._owing():
            if due <= now:
                self._last_output[place.pane_id] = now
                idle = self._fleet().panes[place.index].agent_state == "idle"
                detail = f"idle for {minutes}, and its task is unanswered" if idle else f"{minutes} without any output"
                self._observe(AgentSeen(pane=place.index, at=datetime.now(UTC), state="silent", detail=detail))
