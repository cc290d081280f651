"""The conductor as a whole: lock, journal, loop, and everything that feeds it, started and stopped in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from conductor import inbox
from conductor.core.cycle.agents import KEEP_WORKTREE
from conductor.core.hygiene import what_is_missing
from conductor.core.state import Fleet
from conductor.core.watches import ci_watches
from conductor.journal import ConductorLock, Journal
from conductor.layout import Layout
from conductor.loop.delivery import Deliverer
from conductor.loop.engine import Engine, Probe
from conductor.loop.performer import Inspect, Performer
from conductor.loop.polling import Poller
from conductor.loop.review_pane import PaneReviewer
from conductor.loop.snapshots import concerns, write_all, write_budget, write_changed
from conductor.loop.supervise import Supervisor, place_in
from conductor.loop.watch_results import ResultWatch
from conductor.ports import AgentKind, Forge, Notifier, Panes, Reviewer, Worktrees
from schemas.config import Config
from schemas.effects import InspectPr
from schemas.errors import BadInput, Fault
from schemas.events import (
    EffectFailed,
    History,
    PaneBound,
    PaneRemoved,
    PolicySet,
    PrFacts,
    ResultInvalid,
    ResultSeen,
    ReviewFinished,
)
from schemas.forge import ApiBudget
from schemas.journal import JournalLine
from schemas.pane import Role, Status


@dataclass(frozen=True)
class Outside:
    """The adapters that a conductor works with."""

    forge: Forge
    worktrees: Worktrees
    panes: Panes
    kinds: Mapping[str, AgentKind]
    reviewer: Reviewer
    inspect: Inspect
    history: Callable[[int, str, str, str], History]
    """How a pane's branch moved: (pane, old head, new head, base)."""
    received: Callable[[int, str], bool]
    """Whether the pane with this index recorded a receipt for this message."""
    notifiers: Sequence[Notifier] = ()


@dataclass
class Listeners:
    """Who is told what happens: a live table, or plain lines."""

    started: Callable[[Fleet], None] = lambda _fleet: None
    said: Callable[[str], None] = lambda _text: None
    changed: Callable[[Sequence[tuple[JournalLine, str]], Fleet], None] = field(
        default_factory=lambda: lambda _lines, _fleet: None
    )


class Conductor:
    """One live conductor of one repository. ``run`` returns after ``stop``, or raises where it cannot start."""

    def __init__(
        self,
        layout: Layout,
        config: Config,
        outside: Outside,
        listeners: Listeners | None = None,
        *,
        probe: Probe | None = None,
        end_hard: Callable[[], None] = lambda: None,
        lock_until_exit: bool = False,
    ) -> None:
        """``end_hard`` ends the process where an effect does not end; it is called while the lock is held.

        ``lock_until_exit``: this process is the conductor, so the lock goes with it and not before: whoever sees it
        free may take its place, its pane too.
        """
        self.layout = layout
        self.config = config
        self.outside = outside
        self.listeners = listeners or Listeners()
        self._lock = ConductorLock(layout.lock)
        self._end_hard = end_hard
        self._lock_until_exit = lock_until_exit
        self._taking = threading.Lock()
        self._taken: set[str] = set()
        self._missing: set[int] = set()
        deliverer = Deliverer(
            layout,
            outside.panes,
            outside.kinds,
            received=outside.received,
            place_of=lambda index: place_in(self.engine.fleet, index),
            known_idle=lambda pane_id: self.supervisor.known_idle(pane_id),
        )
        self.reviewer = PaneReviewer(
            layout,
            outside.panes,
            outside.kinds.get,
            lambda: self.engine.fleet,
            outside.reviewer,
            budget=config.review.pane_budget,
        )
        performer = Performer(
            layout,
            forge=outside.forge,
            worktrees=outside.worktrees,
            deliverer=deliverer,
            reviewer=self.reviewer,
            inspect=outside.inspect,
            history=outside.history,
            allow_no_checks=config.ci.allow_no_checks,
            lagging=_lagging,
            notifiers=outside.notifiers,
            say=self.listeners.said,
            progress=lambda event: self.engine.observe(event),
        )
        self.engine = Engine(Journal(layout.journal), performer, probe=probe, on_trouble=self.listeners.said)
        self.supervisor = Supervisor(
            outside.panes,
            deliverer,
            lambda: self.engine.fleet,
            self.engine.observe,
            self.engine.wake,
            silent_after=config.silent_after,
            on_trouble=self.listeners.said,
        )
        self.poller = Poller(
            outside.forge,
            lambda: self.engine.fleet,
            self.engine.observe,
            interval=config.ci.poll,
            remote_head=outside.worktrees.remote_head,
            on_budget=self._publish_budget,
        )
        self.watch = ResultWatch(
            layout.home,
            self._on_result,
            self._take_inbox,
            on_worktrees=self._worktrees_changed,
            on_trouble=self.listeners.said,
            folders={
                layout.receipts: self.supervisor.receipts_changed,
                **{path: lambda _path: self.poller.poke() for path in outside.forge.wake_paths()},
            },
        )

    def run(self) -> None:
        """Conduct until ``stop``. Raises ``Unavailable`` where another one lives, ``BadInput`` for a bad journal."""
        self._lock.acquire()
        try:
            torn = self.engine.start()
            if torn:
                self.listeners.said(torn)
            self.listeners.started(self.engine.fleet)
            self.engine.watchers.append(self._journalled)
            write_all(self.layout, self.engine.fleet)
            self.engine.note(f"conductor started (pid {os.getpid()})")
            self._say_policy()
            # What people asked for meanwhile comes first: a pane that was cleaned up is not missed.
            self._take_inbox()
            self.engine.take_waiting()
            self.supervisor.start()
            self._bind_living()
            self.watch.start()
            self.poller.start()
            self._lock.tell_begun()
            try:
                self.engine.run()
            finally:
                self.watch.stop()
                self.poller.stop()
                self.supervisor.stop()
                self.outside.panes.close()
                self.engine.journal.close()
            if self.engine.left_running:
                self._end_hard()
        finally:
            if not self._lock_until_exit:
                self._lock.release()

    def stop(self) -> None:
        """End in good order: what runs is finished, or left for the next start where it takes too long."""
        self._lock.tell_ending()
        self.engine.note("conductor stopped")
        self.engine.stop()

    def _say_policy(self) -> None:
        if self.engine.fleet.policy != self.config.policy:
            self.engine.observe(PolicySet(pane=0, at=datetime.now(UTC), policy=self.config.policy))

    def _bind_living(self) -> None:
        """A pane whose terminal vanished while no conductor lived is noticed now."""
        self.supervisor.check_all()

    def _journalled(self, lines: Sequence[tuple[JournalLine, str]], before: Fleet, after: Fleet) -> None:
        if concerns(lines) and before is not after:
            try:
                write_changed(self.layout, before, after)
            except (OSError, Fault) as fault:
                self.listeners.said(f"state files could not be written (the journal has everything): {fault}")
            if ci_watches(after):
                self.poller.fleet_changed(after)
            if any(_bound(line) for line, _ in lines):
                self.supervisor.check_all()
        for line, _ in lines:
            if line.line == "result" and isinstance(line.event, ReviewFinished):
                self.reviewer.recorded(line.event.review.review_id)
        self.listeners.changed(lines, after)

    def _publish_budget(self, budget: ApiBudget) -> None:
        try:
            write_budget(self.layout, budget)
        except Fault as fault:  # only `status` misses it
            self.listeners.said(str(fault))

    def _on_result(self, found: ResultSeen | ResultInvalid) -> None:
        pane = self.engine.fleet.panes.get(found.pane)
        if pane is not None and pane.role is Role.REVIEWER and isinstance(found, ResultSeen):
            self.reviewer.incoming(found)
        self.engine.observe(found)

    def _worktrees_changed(self, there: set[int]) -> None:
        """A worktree that is gone for good is let go by ``cleanup``; one that vanished otherwise is reported once."""
        for index, pane in self.engine.fleet.panes.items():
            vanished = index not in there and not self.layout.worktree(index).is_dir()
            if pane.role is Role.WORKER and vanished and index not in self._missing:
                self._missing.add(index)
                gone = f"its worktree {self.layout.worktree(index)} is gone."
                if pane.status in (Status.DONE, Status.APPROVED):
                    self.engine.note(f"Pane {index}: {gone}", index)
                    continue
                lost = EffectFailed(pane=index, at=datetime.now(UTC), effect=KEEP_WORKTREE, reason=gone)
                self.engine.observe(lost)
        self._missing -= there

    def _take_inbox(self) -> None:
        with self._taking:
            for path in inbox.waiting(self.layout.inbox):
                if path.name in self._taken:
                    continue
                try:
                    events = inbox.events_of(path)
                except FileNotFoundError:
                    continue
                except BadInput as fault:
                    self._set_aside(path, fault)
                    continue
                self._taken.add(path.name)
                self.engine.observe(*events, taken=partial(self._remove_request, path))

    def _remove_request(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._taken.discard(path.name)

    def _set_aside(self, path: Path, fault: BadInput) -> None:
        self.layout.quarantine.mkdir(parents=True, exist_ok=True)
        path.replace(self.layout.quarantine / path.name)
        self.engine.note(str(fault))
        self.listeners.said(str(fault))


def _bound(line: JournalLine) -> bool:
    return line.line == "event" and isinstance(line.event, PaneBound | PaneRemoved)


def _lagging(effect: InspectPr, facts: PrFacts) -> bool:
    problem = what_is_missing(facts, effect.purpose)
    return problem is not None and problem.kind == "lagging"
