"""Gets a task to its agent: TASK.md first, then one short line; after a crash, looks before it types."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import worker.tools
from conductor.core.messages import POINTER
from conductor.layout import Layout
from conductor.loop.limits import Limits
from conductor.loop.outcome import Done, Failed, Outcome, Retry
from conductor.panes.agents.after_limit import AfterLimit
from conductor.panes.programs import find_program
from conductor.ports import AgentKind, AgentState, Delivery, Launch, Panes, PaneSpec, Prompt
from schemas.effects import SendTask, StartAgent, TakeBackTask
from schemas.errors import Fault
from schemas.events import TaskDelivered, TaskQueued, TaskStranded
from schemas.forge import TOKEN_VARIABLES
from schemas.pane import Role
from schemas.text import clean
from worker.tools.files import replace_file

TASK = "TASK.md"
START_WAIT = 30.0
_LOOK = 0.02
_HOLD_UP = ("permission", "trust", "limit", "error")


@dataclass(frozen=True)
class Place:
    """Where a pane's agent lives."""

    index: int
    role: Role
    pane_id: str
    agent: str


class Deliverer:
    """Starts agents and delivers tasks. ``place_of`` answers where a pane lives now, None where it does not."""

    def __init__(
        self,
        layout: Layout,
        panes: Panes,
        kinds: Mapping[str, AgentKind],
        *,
        received: Callable[[int, str], bool],
        place_of: Callable[[int], Place | None],
        known_idle: Callable[[str], bool] = lambda _pane_id: False,
    ) -> None:
        self.layout = layout
        self.panes = panes
        self.kinds = kinds
        self.received = received
        self.limits = Limits()
        self._starting: set[int] = set()
        self.place_of = place_of
        self.known_idle = known_idle

    def send(self, effect: SendTask, *, again: bool) -> Outcome:
        """Write TASK.md and have the agent read it. Delivered, queued (tried again) or stranded (a person is told)."""
        place = self.place_of(effect.pane)
        if place is None:
            return Retry(5.0, "the pane has no terminal", _queued(effect, "the pane has no terminal yet"), wake=True)
        kind = self._kind(place.agent)
        folder = self.layout.worktree(effect.pane)
        if not folder.is_dir():
            return Failed(f"{folder} is gone", _stranded(effect, f"{folder} is gone", ()))
        replace_file(folder / TASK, effect.text)
        prompt = Prompt(effect.task_id, POINTER)
        if effect.start:
            return self._start_with(effect, place, kind, prompt)
        if self.limits.over(place.index):
            kind = AfterLimit(kind)
        found = self.panes.find_delivery(place.pane_id, prompt, kind) if again else None
        delivery = found or self.panes.deliver(place.pane_id, prompt, kind, known_idle=self.known_idle(place.pane_id))
        return self._outcome(effect, delivery)

    def _outcome(self, effect: SendTask, delivery: Delivery) -> Outcome:
        if delivery.outcome == "delivered":
            event = TaskDelivered(pane=effect.pane, at=_now(), task_id=effect.task_id, evidence=delivery.evidence)
            return Done(event, delivery.evidence)
        if delivery.outcome == "queued":
            return Retry(10.0, delivery.evidence, _queued(effect, delivery.evidence), wake=True)
        return Failed(delivery.evidence, _stranded(effect, delivery.evidence, delivery.screen))

    def _start_with(self, effect: SendTask, place: Place, kind: AgentKind, prompt: Prompt) -> Outcome:
        """The first prompt on the agent's command line, or typed where the agent takes none there. A program that was
        started is no receipt: its hook is, or that it is seen at work; one that never goes to work is stranded.
        """
        carried = prompt.line in kind.argv(self._launch(place, prompt))
        found = self.panes.find_delivery(place.pane_id, prompt, kind)
        if found is not None and not carried:
            return self._outcome(effect, found)
        if found is None:
            self._start(place, kind, prompt)
        deadline = time.monotonic() + START_WAIT
        while True:
            taken = self._taken(effect, place, kind) if carried else self._typed(effect, place, kind, prompt)
            if taken is not None:
                return taken
            if time.monotonic() > deadline:
                why = f"the agent was started with the task, but did not begin it within {START_WAIT:.0f} s"
                return Failed(why, _stranded(effect, why, self.panes.screen(place.pane_id).tail()))
            time.sleep(_LOOK)

    def _taken(self, effect: SendTask, place: Place, kind: AgentKind) -> Outcome | None:
        """Whether the started agent has its task; None while that cannot be said."""
        if self.received(place.index, effect.task_id):
            return self._outcome(effect, Delivery("delivered", "on the command line; its hook recorded it"))
        info = self.panes.info(place.pane_id)
        if info is None:
            return Failed("the pane is gone", _stranded(effect, "the pane is gone", ()))
        if info.dead:
            ended = f"the agent ended at once (status {info.exit_status})"
            return Failed(ended, _stranded(effect, ended, self.panes.screen(place.pane_id).tail()))
        state = self.panes.state_of(place.pane_id, kind)
        if state.name in _HOLD_UP:
            return self._outcome(effect, Delivery("queued", f"the agent asks first ({state.name}): {state.detail}"))
        if not kind.has_receipts and state.name in ("busy", "idle"):
            return self._outcome(effect, Delivery("delivered", f"on the command line; the agent is {state.name}"))
        return None

    def _typed(self, effect: SendTask, place: Place, kind: AgentKind, prompt: Prompt) -> Outcome | None:
        """The task typed into a program that takes none on its command line; None while that is not idle."""
        info = self.panes.info(place.pane_id)
        if info is None or info.dead:
            why = "the agent ended at once"
            return Failed(why, _stranded(effect, why, ()))
        state = self.panes.state_of(place.pane_id, kind)
        if state.name in _HOLD_UP:
            return self._outcome(effect, Delivery("queued", f"the agent asks first ({state.name}): {state.detail}"))
        if state.name != "idle":
            return None
        done = self.panes.deliver(place.pane_id, prompt, kind, known_idle=False)
        return None if done.outcome == "queued" else self._outcome(effect, done)

    def start_idle(self, effect: StartAgent) -> Outcome:
        """Start the agent without a task."""
        place = self.place_of(effect.pane)
        if place is None:
            return Failed("the pane has no terminal")
        self._start(place, self._kind(place.agent), None)
        return Done(detail=f"{place.agent} started in {place.pane_id}")

    def take_back(self, effect: TakeBackTask) -> Outcome:
        """Say in TASK.md that nothing is to be done any more."""
        folder = self.layout.worktree(effect.pane)
        if folder.is_dir():
            replace_file(folder / TASK, effect.text)
        return Done(detail=f"task {effect.task_id} taken back")

    def is_starting(self, index: int) -> bool:
        """The pane's program is being replaced just now."""
        return index in self._starting

    def takes_input(self, place: Place) -> bool:
        """An input line shows."""
        return self._kind(place.agent).composer(self.panes.screen(place.pane_id)) is not None

    def state_of(self, place: Place) -> AgentState:
        return self.panes.state_of(place.pane_id, self._kind(place.agent))

    def _kind(self, name: str) -> AgentKind:
        kind = self.kinds.get(name)
        if kind is None:
            known = ", ".join(sorted(self.kinds))
            raise Fault(f"agent kind {clean(name)!r} is not known", f"Known: {known}. See [agents] in config.toml.")
        return kind

    def _launch(self, place: Place, prompt: Prompt | None) -> Launch:
        return Launch(
            index=place.index,
            worktree=self.layout.worktree(place.index),
            private=self.layout.agents / str(place.index),
            hook_argv=hook_argv(),
            first_prompt=prompt.line if prompt is not None else None,
        )

    def _start(self, place: Place, kind: AgentKind, prompt: Prompt | None) -> None:
        launch = self._launch(place, prompt)
        launch.private.mkdir(parents=True, exist_ok=True)
        self.layout.receipts.mkdir(parents=True, exist_ok=True)
        kind.prepare(launch)
        spec = PaneSpec(
            index=place.index,
            role="reviewer" if place.role is Role.REVIEWER else "worker",
            title=f"{place.index} {kind.name}",
            cwd=launch.worktree,
            argv=tuple(kind.argv(launch)),
            env={**kind.env(launch), **worker_environment(self.layout, place.index)},
        )
        find_program(spec.argv, {**os.environ, **spec.env}, cwd=spec.cwd, install_hint=kind.install_hint)
        self._starting.add(place.index)
        try:
            self.panes.start(place.pane_id, spec)
        finally:
            self._starting.discard(place.index)


def hook_argv() -> tuple[str, ...]:
    """The command that records a receipt; the event's name is appended."""
    hook = Path(worker.tools.__file__ or "").resolve().parents[1] / "hook.py"
    return (sys.executable, "-I", "-S", str(hook))


NO_TOKENS = dict.fromkeys(TOKEN_VARIABLES, "")
"""Empty is as good as unset to gh; a tmux server that was started elsewhere may know real ones."""


def worker_environment(layout: Layout, index: int) -> dict[str, str]:
    """What a worker's pane needs to know who it is. Nothing secret."""
    here = str(Path(sys.executable).parent)
    return {
        "TASKMAESTRO_ROOT": str(layout.root),
        "TASKMAESTRO_PANE": str(index),
        "TASKMAESTRO_RECEIPTS": str(layout.receipts_of(index)),
        "TASKMAESTRO_HOOK": json.dumps(list(hook_argv())),
        "TASKMAESTRO_LOGIN": f"worker-{index}",
        "PATH": here + os.pathsep + os.environ.get("PATH", os.defpath),
        **NO_TOKENS,
    }


def _queued(effect: SendTask, reason: str) -> TaskQueued:
    return TaskQueued(pane=effect.pane, at=_now(), task_id=effect.task_id, reason=reason)


def _stranded(effect: SendTask, reason: str, screen: tuple[str, ...]) -> TaskStranded:
    shown = "\n".join(clean(line) for line in screen)
    return TaskStranded(pane=effect.pane, at=_now(), task_id=effect.task_id, reason=clean(reason), screen=shown)


def _now() -> datetime:
    return datetime.now(UTC)
