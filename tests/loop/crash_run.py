"""A full run of three cycles in a process of its own, killed at one boundary and started again.

Called with a folder and a number of workers. The process imports everything once and forks for each run, so that
each run begins with a single thread. It prints one JSON line for each boundary: what the world saw.

The world is a file that is only ever appended to: what was typed, posted, written, and reviewed survives the kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conductor.core.state import Fleet
from conductor.core.watches import ci_watches
from conductor.journal import Journal, read
from conductor.loop.engine import Engine
from conductor.loop.outcome import Outcome
from schemas.effects import Effect, PostReview, SendTask
from schemas.forge import CheckState
from schemas.journal import IntentLine, JournalLine, ResultLine
from schemas.pane import Status
from tests.loop.stage import added, answer, ci, claims, given


def half_done(lines: list[JournalLine]) -> set[str]:
    """Keys of effects that have an intent and no result."""
    begun = {line.key for line in lines if isinstance(line, IntentLine)}
    return begun - {line.key for line in lines if isinstance(line, ResultLine)}


class World:
    """What is outside, and outlives the process."""

    def __init__(self, folder: Path, kill_at: int | None) -> None:
        self.path = folder / "world.jsonl"
        self.boundary = 0
        self.kill_at = kill_at

    def probe(self, _boundary: str, _kind: str) -> None:
        """Die here if this is the boundary."""
        if self.boundary == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.boundary += 1

    def saw(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def happens(self, what: str, name: str, again: bool) -> None:
        self.probe("before", what)
        line = json.dumps({"what": what, "name": name, "again": again}) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)
        self.probe("after", what)

    def perform(self, effect: Effect, *, again: bool, cancelled: Callable[[], bool]) -> Outcome:
        """Typing is looked up only where it may have been begun; posting has its marker."""
        name = effect.task_id if isinstance(effect, SendTask) else ""
        name = effect.marker if isinstance(effect, PostReview) else name
        known = any(seen["what"] == effect.kind and seen["name"] == name for seen in self.saw())
        looked_up = isinstance(effect, PostReview) or (isinstance(effect, SendTask) and again)
        if not (looked_up and known):
            self.happens(effect.kind, name, again)
        return answer(effect)


class Run:
    """Plays forge and worker: both are read off the state and the world, as they would be after a crash."""

    def __init__(self, folder: Path, world: World) -> None:
        self.world = world
        self.engine = Engine(Journal(folder / "journal.jsonl"), world, workers=4, probe=world.probe)
        self.engine.watchers.append(lambda _lines, _before, after: self.drive(after))
        self.said: set[str] = set()

    def drive(self, fleet: Fleet) -> None:
        pane = fleet.panes.get(1)
        if pane is None:
            self.once("begin", lambda: self.engine.observe(added(1), given(1, request="r1")))
            return
        for watch in ci_watches(fleet):
            self.once(watch.gate_id, lambda: self.engine.observe(ci(pane, CheckState.PASSED)))
        task = pane.task
        if task is not None and task.delivery == "delivered" and pane.status in (Status.WORKING, Status.REVIEW_PENDING):
            stamp = f"answer to {task.task_id}"
            status = "success" if task.kind == "first" else "review_addressed"
            fields: dict[str, Any] = {} if task.kind == "first" else {"review_cycle": pane.review_cycle}
            self.once(stamp, lambda: self.engine.observe(claims(1, stamp, status, **fields)))
        if pane.attention is not None and not self.engine.memory.outstanding:
            self.engine.stop()

    def once(self, what: str, say: Callable[[], None]) -> None:
        if what not in self.said:
            self.said.add(what)
            say()

    def run(self) -> None:
        self.engine.start()
        self.drive(self.engine.fleet)
        self.engine.run()
        self.engine.journal.close()


def forked(folder: Path, kill_at: int | None) -> int:
    """Run in a child; answers how it ended as ``os.waitstatus_to_exitcode`` does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            world = World(folder, kill_at)
            Run(folder, world).run()
            (folder / "boundaries").write_text(str(world.boundary))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(folder: Path, kill_at: int | None) -> dict[str, Any]:
    """Kill at this boundary, look, start again, and say what the world saw."""
    first = forked(folder, kill_at)
    owed: dict[str, str] = {}
    if first != 0:
        lines = list(read(folder / "journal.jsonl"))
        kinds = {line.key: line.effect for line in lines if isinstance(line, IntentLine)}
        owed = {key: kinds[key] for key in half_done(lines)}
    before = len(World(folder, None).saw())
    second = forked(folder, None) if first != 0 else 0
    engine = Engine(Journal(folder / "journal.jsonl"), World(folder, None))
    engine.start()
    pane = engine.fleet.panes[1]
    return {
        "kill_at": kill_at,
        "ended": [first, second],
        "world": World(folder, None).saw(),
        "seen_before": before,
        "owed": owed,
        "status": pane.status,
        "cycle": pane.review_cycle,
        "attention": pane.attention.reason if pane.attention else None,
        "outstanding": sorted(engine.memory.outstanding),
        "boundaries": int((folder / "boundaries").read_text()),
    }


def main(root: Path) -> None:
    whole = outcome(Path(tempfile.mkdtemp(dir=root)), None)
    print(json.dumps(whole), flush=True)
    for boundary in range(whole["boundaries"]):
        print(json.dumps(outcome(Path(tempfile.mkdtemp(dir=root)), boundary)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
