"""A process that has the whole conductor loaded and forks it: conductors that end themselves at a chosen boundary.

``python -m tests.support.crash_runner`` reads one JSON request a line on stdin and answers with the pid of the child
that serves it; ``wait`` asks for the exit code of one. Requests: ``up`` (forge, issue, worktree, pane), ``conduct``,
``cli`` (any verb).

Each boundary that a conductor passes is a line ``<kind> <ordinal>: <boundary>`` in the world's ``boundaries`` file. One
that is listed in ``at``, and that no earlier conductor of this world was ended at, ends the process by SIGKILL. The
ordinal counts what of that kind is in the journal, so that a boundary keeps its name over restarts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from conductor.cli.main import main as run_verb
from conductor.forge import open_forge
from conductor.git.worktrees import GitWorktrees
from conductor.journal import Journal, read
from conductor.layout import Layout
from conductor.loop import delivery
from conductor.loop.adapters import panes_of
from conductor.loop.assemble import outside_of
from conductor.loop.bring_up import bring_up, make_plan
from conductor.loop.conductor import Conductor
from conductor.panes.delivery import _Attempt
from conductor.panes.tmux import TmuxPanes
from schemas.events import CiRead, ResultSeen, TaskGiven
from schemas.forge import CheckState
from schemas.journal import EventLine, JournalLine, ResultLine
from worker.tools.config import load_config

STEADY = frozenset(
    {"intended", "performed", "recorded", "text written", "started", "pasted", "entered", "unwritten", "written"}
)
"""Boundaries that every run passes equally often. The others (``again``, ``postponed``) depend on who is quicker."""


class Boundaries:
    """Names the boundaries as they are passed, and ends the process at the chosen one."""

    def __init__(self, folder: Path, at: Sequence[str]) -> None:
        self._passed = os.open(folder / "boundaries", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._ends = folder / "ends"
        used = self._ends.read_text().splitlines() if self._ends.exists() else ()
        self._at = set(at) - set(used)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def recall(self, lines: Sequence[JournalLine]) -> None:
        """Count what the journal has already."""
        for line in lines:
            self._counts.update(_kinds(line))

    def __call__(self, boundary: str, *kinds: str) -> None:
        """Pass this boundary of one effect, or of all that one write of the journal holds."""
        with self._lock:
            ahead = boundary not in ("recorded", "written")
            names = [f"{kind} {self._counts[kind] + ahead}: {boundary}" for kind in dict.fromkeys(kinds)]
            os.write(self._passed, "".join(f"{name}\n" for name in names).encode())
            if chosen := [name for name in names if name in self._at]:
                with self._ends.open("a") as file:
                    file.write("".join(f"{name}\n" for name in chosen))
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, journal: Journal) -> None:
        """Pass a boundary before and after events that matter are written; count what was."""
        append = journal.append

        def watched(lines: Sequence[JournalLine]) -> None:
            events = [kind for line in lines if isinstance(line, EventLine) for kind in _kinds(line)]
            self("unwritten", *events)
            append(lines)
            for line in lines:
                self._counts.update(_kinds(line))
            self("written", *events)

        journal.append = watched  # type: ignore[method-assign]


def _kinds(line: JournalLine) -> list[str]:
    """What the line counts for."""
    if isinstance(line, ResultLine):
        return [line.effect]
    if isinstance(line, EventLine):
        event = line.event
        decided = isinstance(event, CiRead) and event.state in (CheckState.PASSED, CheckState.FAILED)
        if decided or isinstance(event, ResultSeen | TaskGiven):
            return [event.kind]
    return []


def _after(owner: Any, name: str, told: Callable[..., object]) -> None:
    """Have ``told`` called with the arguments after each call of this function or method."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **more: Any) -> Any:
        answer = original(*args, **more)
        told(*args, **more)
        return answer

    setattr(owner, name, wrapped)


def _be_patient(panes: TmuxPanes) -> None:
    panes._courier.timings = replace(panes._courier.timings, confirm=30.0)


def _conduct(folder: Path, root: Path, request: dict[str, Any]) -> int:
    layout = Layout(root)
    config = load_config(root)
    boundaries = Boundaries(folder, request["at"])
    boundaries.recall(list(read(layout.journal)))
    written = lambda path, *_: boundaries("text written", "send_task") if path.name == "TASK.md" else None  # noqa: E731
    _after(delivery, "replace_file", written)
    # A machine that stands still for seconds must not strand a task here: that would be another run.
    _after(TmuxPanes, "__init__", lambda panes, *_, **__: _be_patient(panes))
    _after(TmuxPanes, "start", lambda *_: boundaries("started", "send_task"))
    _after(_Attempt, "_paste", lambda *_, **__: boundaries("pasted", "send_task"))
    _after(_Attempt, "_keys", lambda _, *names: boundaries("entered", "send_task") if "Enter" in names else None)
    made = Conductor(layout, config, outside_of(layout, config), probe=boundaries)
    boundaries.watch(made.engine.journal)

    def end(_number: int, _frame: FrameType | None) -> None:
        made.stop()

    signal.signal(signal.SIGTERM, end)
    made.run()
    return 0


def _up(_folder: Path, root: Path, request: dict[str, Any]) -> int:
    """What ``taskmaestro up`` does, without a pane for the conductor: one that holds the lock is there already."""
    layout = Layout(root)
    config = load_config(root)
    forge = open_forge(config, root)
    issues = [forge.create_issue(title=title, body="As titled.") for title in request["titles"]]
    panes = panes_of(layout, config)
    plan = make_plan(layout, config, count=len(issues), issues=issues, agent=None, review_pane=False)
    bring_up(layout, plan, panes=panes, worktrees=GitWorktrees(root, config))
    panes.close()
    return 0


def _cli(_folder: Path, _root: Path, request: dict[str, Any]) -> int:
    return run_verb(request["argv"])


_SERVES: dict[str, Callable[[Path, Path, dict[str, Any]], int]] = {"conduct": _conduct, "up": _up, "cli": _cli}


def _serve(request: dict[str, Any]) -> int:
    """In the child: a session of its own, its output in a file."""
    os.setsid()
    folder, root = Path(request["folder"]), Path(request["root"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    out = os.open(folder / f"{request['do']}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(root)
    os.environ.clear()
    os.environ.update(request["environment"])
    return _SERVES[request["do"]](folder, root, request)


def main() -> None:
    children: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "wait":
            done, status = os.waitpid(request["pid"], os.WNOHANG)
            children.discard(done)
            print(json.dumps({"status": os.waitstatus_to_exitcode(status) if done else None}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = _serve(request)
                sys.stdout.flush()
            except BaseException:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        children.add(pid)
        print(json.dumps({"pid": pid}), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
