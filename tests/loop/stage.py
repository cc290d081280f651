"""An engine with the outside played in memory: what was asked of it, in which order, and what it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conductor.core.state import Pane
from conductor.journal import Journal
from conductor.loop.engine import Engine
from conductor.loop.outcome import Done, Outcome
from schemas.effects import Effect, InspectPr, PostReview, RunReview, SendTask
from schemas.events import (
    CiRead,
    PaneAdded,
    PrInspected,
    ResultSeen,
    ReviewFinished,
    ReviewPosted,
    TaskDelivered,
    TaskGiven,
)
from schemas.forge import CheckState
from schemas.pane import Role
from schemas.review import Review, Verdict
from tests.core.cycle_play import BASE, HEADS, PR, facts, finding, history, result
from tests.support.waiting import wait_until


def now() -> datetime:
    return datetime.now(UTC)


def added(index: int) -> PaneAdded:
    return PaneAdded(
        pane=index,
        at=now(),
        role=Role.WORKER,
        agent="scripted",
        run="beef01",
        worktree=f"wt-{index}",
        branch=f"wt-{index}",
        pane_id=f"%{index}",
    )


def given(index: int, title: str = "Do it", request: str | None = None) -> TaskGiven:
    return TaskGiven(pane=index, at=now(), title=title, request=request)


def claims(index: int, stamp: str = "s1", status: str = "success", **fields: Any) -> ResultSeen:
    said = result(status, **({"pr_number": PR} | fields if status == "success" else fields))
    return ResultSeen(pane=index, at=now(), result=said, digest=stamp, stamp=stamp)


def ci(pane: Pane, state: CheckState = CheckState.PASSED) -> CiRead:
    assert pane.gate is not None
    return CiRead(pane=pane.index, at=now(), gate_id=pane.gate.gate_id, head=pane.gate.head, state=state)


def answer(effect: Effect) -> Outcome:
    """What a world says in which everything works and each review asks for changes."""
    if isinstance(effect, InspectPr):
        old = effect.old_head
        new = HEADS[(HEADS.index(old) + 1) % len(HEADS)] if old else HEADS[0]
        made = facts(new, history=history(old, new)) if old else facts(new)
        return Done(PrInspected(pane=effect.pane, at=now(), claim_id=effect.claim_id, facts=made))
    if isinstance(effect, RunReview):
        review = Review(
            review_id=effect.review_id,
            cycle=effect.cycle,
            head=effect.head,
            base=BASE,
            verdict=Verdict.CHANGES,
            findings=(finding(),),
        )
        return Done(ReviewFinished(pane=effect.pane, at=now(), review=review, head_now=effect.head))
    if isinstance(effect, PostReview):
        return Done(ReviewPosted(pane=effect.pane, at=now(), review_id=effect.review_id))
    if isinstance(effect, SendTask):
        return Done(TaskDelivered(pane=effect.pane, at=now(), task_id=effect.task_id, evidence="played"))
    return Done()


@dataclass(frozen=True)
class Call:
    """One attempt at an effect."""

    effect: Effect
    again: bool

    @property
    def kind(self) -> str:
        return self.effect.kind


class Stage:
    """Performs in memory. ``plan[kind]`` are answers for the next attempts, then ``answer``'s."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.ended: list[Effect] = []
        self.plan: dict[str, list[Callable[[Effect, Callable[[], bool]], Outcome]]] = {}
        self.doors: dict[str, threading.Event] = {}

    def hold(self, kind: str) -> threading.Event:
        """Attempts at this kind wait until the answer is set."""
        return self.doors.setdefault(kind, threading.Event())

    def perform(self, effect: Effect, *, again: bool, cancelled: Callable[[], bool]) -> Outcome:
        self.calls.append(Call(effect, again))
        try:
            if effect.kind in self.doors:
                assert self.doors[effect.kind].wait(20)
            planned = self.plan.get(effect.kind)
            return planned.pop(0)(effect, cancelled) if planned else answer(effect)
        finally:
            self.ended.append(effect)

    def kinds(self, pane: int | None = None) -> list[str]:
        return [call.kind for call in self.calls if pane in (None, call.effect.pane)]

    def wait_for(self, *kinds: str, pane: int | None = None) -> None:
        """Until these kinds, and no other ones, were asked for in this order."""
        wait_until(lambda: self.kinds(pane) == list(kinds), what=f"{kinds}, was {self.kinds(pane)}")


class Running:
    """An engine that runs in a thread of its own."""

    def __init__(self, path: Path, stage: Stage, **more: Any) -> None:
        self.stage = stage
        self.trouble: list[str] = []
        self.engine = Engine(Journal(path), stage, on_trouble=self.trouble.append, **more)
        self.engine.start()
        self.thread = threading.Thread(target=self.engine.run, name="engine")

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        for door in self.stage.doors.values():
            door.set()
        self.engine.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.engine.journal.close()

    def pane(self, index: int = 1) -> Pane:
        return wait_until(lambda: self.engine.fleet.panes.get(index), what=f"pane {index}")

    def taken(self) -> None:
        """Until what was observed so far is in the journal and in the memory."""
        on_disk = threading.Event()
        self.engine.observe(taken=on_disk.set)
        assert on_disk.wait(20)

    def idle(self) -> None:
        """Until nothing is owed any more."""
        self.taken()
        wait_until(lambda: not self.engine.memory.outstanding, what="nothing owed")
        self.taken()

    def to_review(self, index: int = 1) -> None:
        """A pane whose review is asked for."""
        self.engine.observe(added(index), given(index))
        wait_until(lambda: index in self.engine.fleet.panes and self.pane(index).task)
        self.engine.observe(claims(index))
        wait_until(lambda: self.pane(index).gate)
        self.engine.observe(ci(self.pane(index)))
        wait_until(lambda: "run_review" in self.stage.kinds(index))
