"""A whole fleet for end-to-end tests: a small real repository, scripted agents, the embedded forge, real tmux.

``FleetWorld`` is what a user has in front of them: a folder, the command ``taskmaestro``, and panes to look at.
Everything it starts is reaped by ``fleet``; what outlives it fails the test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from conductor.core.memory import Memory, remember
from conductor.journal import read
from conductor.layout import Layout
from conductor.lock import holder
from tests.support import warm
from tests.support.repos import git, make_repository
from tests.support.tmux_server import is_alive, reap, short_folder, tmux, wait_for_end
from tests.support.waiting import wait_until

DEADLINE = 60.0
COMMAND = Path(sys.executable).with_name("taskmaestro")
RED, WRONG = "broken.txt", "wrong.txt"
"""Files that make the world's only check fail, and the world's only verification."""
Step = dict[str, Any]
Turn = dict[str, Any]


def turn(issue: int, task: str, *steps: Step, **more: Any) -> Turn:
    """One turn of the script: what the agent of this issue does for this kind of task."""
    return {"issue": issue, "task": task, "steps": list(steps), **more}


def write(path: str, text: str) -> Step:
    return {"write": {"path": path, "text": text}}


def add(*paths: str) -> Step:
    return {"git": ["add", "-A", "--", *paths]}


def ship(title: str = "Change", body: str = "", **more: Any) -> Step:
    return {"ship": {"title": title, "body": body or "What was asked for.\n", **more}}


AMEND: Step = {"ship": {"amend": True}}


def good_work(issue: int) -> Turn:
    """A first turn that is approved at its first review."""
    return turn(issue, "first", write(f"good-{issue}.txt", "good\n"), add(f"good-{issue}.txt"), ship(f"Good {issue}"))


def wrong_work(issue: int) -> Turn:
    """A first turn whose review asks for changes."""
    return turn(issue, "first", write(WRONG, f"wrong {issue}\n"), add(WRONG), ship(f"Wrong {issue}"))


def mending(issue: int, **more: Any) -> Turn:
    """The fix for ``wrong_work``."""
    steps = ({"delete": WRONG}, write(f"right-{issue}.txt", "right\n"), add(WRONG, f"right-{issue}.txt"), AMEND)
    return turn(issue, "fix", *steps, **more)


def table(name: str, values: Mapping[str, object]) -> str:
    """A TOML table; strings, numbers, booleans and lists of strings are the same in TOML and JSON."""
    rows = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in values.items())
    return f"\n[{name}]\n{rows}"


@dataclass
class FleetWorld:
    """One managed repository with its private tmux server. ``folder`` holds everything."""

    folder: Path
    socket: Path
    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    options: dict[str, object] = field(default_factory=dict)
    tables: dict[str, dict[str, object]] = field(default_factory=dict)
    _remembered: tuple[int, Memory] | None = None

    @property
    def layout(self) -> Layout:
        return Layout(self.root)

    @property
    def script(self) -> Path:
        return self.folder / "script.json"

    @property
    def memory(self) -> Path:
        """Where scripted agents remember the turns that they have done."""
        return self.folder / "memory"

    def worktree(self, index: int) -> Path:
        return self.layout.worktree(index)

    # --- setting up

    def configure(self, **tables: Mapping[str, object]) -> None:
        """Write config.toml and the agents' script. ``tables``: what differs, dots in names written as ``__``."""
        for name, values in tables.items():
            self.tables.setdefault(name.replace("__", "."), {}).update(values)
        options = {"memory": str(self.memory), **self.options}
        self.script.write_text(json.dumps({"options": options, "turns": self.turns}), encoding="utf-8")
        named: dict[str, dict[str, object]] = {
            "tmux": {"socket": str(self.socket)},
            "ci": {"poll": 1.0},
            "agents.scripted": {"args": ["--script", str(self.script)]},
            "forge.local.checks": {"quick": ["test", "!", "-e", RED]},
            "battery": {"test": ["true"]},
            "review.verification": {"quick": ["test", "!", "-e", WRONG]},
        }
        top = {"agent": "scripted", "default_branch": "main", **self.tables.get("", {})}
        for name, values in self.tables.items():
            named[name] = {**named.get(name, {}), **values}
        named.pop("", None)
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in top.items())
        self.layout.home.mkdir(exist_ok=True)
        self.layout.config.write_text(
            text + "".join(table(name, values) for name, values in sorted(named.items())), encoding="utf-8"
        )

    def issue(self, title: str = "Do it", body: str = "") -> int:
        answer = json.loads(
            self.taskmaestro("issue", "create", "--title", title, "--body", body or "As titled.", "--json").stdout
        )
        return int(answer["number"])

    def up(self, *issues: int, count: int | None = None, more: Sequence[str] = ()) -> None:
        """``taskmaestro up`` for these issues, one pane each."""
        named = ["--issues", ",".join(map(str, issues))] if issues else []
        self.taskmaestro("up", *([str(count or len(issues))] if count or issues else []), *named, *more)

    def begin(self, *turns: Turn, issues: int = 1, **tables: Mapping[str, object]) -> None:
        """The usual start: the script, the configuration, so many issues, a pane for each."""
        self.turns.extend(turns)
        self.configure(**tables)
        self.up(*[self.issue(f"Issue {number}") for number in range(1, issues + 1)])

    # --- acting

    def taskmaestro(
        self,
        *argv: str,
        code: int | None = 0,
        cwd: Path | None = None,
        timeout: float = 2 * DEADLINE,
        cold: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """The command in the repository; fails unless it exits with ``code`` (None: any).

        ``cold``: the installed command itself, with all the time that it takes to start.
        """
        where, environment = cwd or self.root, {**os.environ, **self.environment}
        if cold:
            done = subprocess.run(
                [str(COMMAND), *argv],
                cwd=where,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        else:
            done = warm.run(argv, cwd=where, env=environment, timeout=timeout)
        if code is not None and done.returncode != code:
            raise AssertionError(
                f"taskmaestro {' '.join(argv)} exited {done.returncode}, not {code}:\n{done.stdout}{done.stderr}"
            )
        return done

    def decide(self, index: int, verb: str) -> None:
        self.taskmaestro("decide", str(index), verb, "--why", "a test says so")

    def tmux(self, *argv: str) -> str:
        return tmux(self.socket, *argv).stdout

    def keys(self, index: int, *names: str) -> None:
        """Press keys in a pane, as a person would."""
        self.tmux("send-keys", "-t", self.pane_id(index), *names)

    def kill_conductor(self) -> int:
        """kill -9 of the live conductor; answers its pid after it is gone."""
        pid = self.conductor()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: holder(self.layout.lock) is None, DEADLINE, "the conductor's end")
        return pid

    def conductor(self) -> int:
        """The pid of the live conductor."""
        held = wait_until(lambda: holder(self.layout.lock), DEADLINE, "a live conductor")
        assert held is not None
        return int(held["pid"])

    # --- looking

    def status(self) -> dict[int, dict[str, Any]]:
        """``taskmaestro status --json``, by pane."""
        answer = json.loads(self.taskmaestro("status", "--json").stdout)
        return {pane["index"]: pane for pane in answer["panes"]}

    def pane(self, index: int) -> dict[str, Any]:
        """The pane's state file; empty where there is none."""
        try:
            state: dict[str, Any] = json.loads(self.layout.pane_file(index).read_bytes())
        except FileNotFoundError:
            return {}
        return state

    def pane_id(self, index: int) -> str:
        return str(self.pane(index)["pane_id"])

    def attention(self, index: int) -> str | None:
        held = self.pane(index).get("attention")
        return held["reason"] if held else None

    def wait_status(
        self,
        index: int,
        status: str | None = None,
        *,
        attention: str | bool | None = False,
        cycle: int | None = None,
        timeout: float = DEADLINE,
    ) -> dict[str, Any]:
        """Wait until the pane is so. ``attention``: a reason, None for none, False for whatever it is."""

        def fits() -> dict[str, Any] | None:
            state = self.pane(index)
            held = (state.get("attention") or {}).get("reason")
            matches = (
                bool(state)
                and status in (None, state["status"])
                and attention in (False, held)
                and cycle in (None, state["review_cycle"])
            )
            return state if matches else None

        try:
            return wait_until(fits, timeout) or {}
        except AssertionError:
            raise AssertionError(
                f"pane {index} is not {status or ''} attention={attention} cycle={cycle} after {timeout:g} s:\n"
                f"{json.dumps(self.pane(index), indent=1)}\n{self.capture(index)}\n{self.told()}"
            ) from None

    def journal(self) -> list[dict[str, Any]]:
        """The complete journal lines."""
        try:
            raw = self.layout.journal.read_bytes()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]

    def memory_of_journal(self) -> Memory:
        """What the journal makes of everything. Waiting asks often: what did not grow is not read again."""
        size = self.layout.journal.stat().st_size if self.layout.journal.exists() else 0
        if self._remembered is None or self._remembered[0] != size:
            self._remembered = (size, remember(read(self.layout.journal)))
        return self._remembered[1]

    def wait_settled(self, timeout: float = DEADLINE) -> Memory:
        """Wait until every effect that was decided has its result."""

        def settled() -> Memory | None:
            memory = self.memory_of_journal()
            return None if memory.outstanding else memory

        try:
            found = wait_until(settled, timeout)
        except AssertionError:
            raise AssertionError(f"effects are still outstanding after {timeout:g} s:\n{self.told()}") from None
        assert found is not None
        return found

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The journalled events of this kind, also those that came of effects."""
        found = [line["event"] for line in self.journal() if line.get("event")]
        return [event for event in found if kind in (None, event["kind"])]

    def wait_event(self, kind: str, count: int = 1, timeout: float = DEADLINE) -> dict[str, Any]:
        """Wait for the ``count``-th event of this kind."""
        try:
            return wait_until(lambda: self.events(kind)[count - 1 :], timeout)[0]
        except AssertionError:
            raise AssertionError(f"no {kind} number {count} after {timeout:g} s:\n{self.told()}") from None

    def notes(self) -> list[str]:
        return [line["text"] for line in self.journal() if line["line"] == "note"]

    def told(self) -> str:
        """The journal's last lines, short, for messages of failed tests."""
        rows = []
        for line in self.journal()[-25:]:
            what = line.get("text") or f"{line.get('key', '')} {line.get('effect', '')} {line.get('outcome', '')}"
            event = line.get("event") or {}
            rows.append(f"{line['seq']:4} {line['line']:6} {what.strip()} {json.dumps(event)[:300] if event else ''}")
        return "\n".join(rows)

    def capture(self, index: int) -> str:
        """What the pane shows, with its history; lines joined where the terminal wrapped them."""
        pane_id = self.pane(index).get("pane_id")
        return self.tmux("capture-pane", "-p", "-J", "-S", "-300", "-t", pane_id).strip() if pane_id else ""

    def receipts(self, index: int) -> list[str]:
        """The message ids that the pane's agent took, in order."""
        path = self.layout.receipts_of(index)
        lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
        return [line["msg"] for line in lines if line["event"] == "prompt"]

    def turns_done(self, index: int) -> int:
        """How many turns the pane's agent began."""
        path = self.memory / f"wt-{index}.json"
        return int(json.loads(path.read_text())["turn"]) if path.exists() else 0

    def posts(self, pull: int) -> list[dict[str, Any]]:
        """The rows of the forge's database: everything that was posted on this pull request."""
        with sqlite3.connect(self.layout.home / "forge" / "forge.sqlite3", timeout=30) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute("SELECT * FROM posts WHERE pull = ? ORDER BY id", (pull,)).fetchall()
        return [dict(row) for row in rows]

    def reviews(self, pull: int) -> list[dict[str, Any]]:
        """The conductor's own posts: those with its marker."""
        return [row for row in self.posts(pull) if row["marker"].startswith("<!-- taskmaestro: review=")]

    def git(self, *argv: str, folder: Path | None = None) -> str:
        return git(folder or self.root, *argv)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Processes that work in the folder or name it on their command line (pytest's own are left out)."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            words = [process.cwd(), *process.cmdline()]
        except psutil.Error:  # ended, or another user's
            continue
        if process.pid not in own and any(str(folder) in word for word in words):
            found.append(process)
    return found


def end_all(folder: Path) -> list[str]:
    """End what still runs in the folder; answers a line on each that did not end by itself."""
    wait_for_end(processes_in(folder))
    left = []
    for process in processes_in(folder):
        try:
            left.append(f"{process.pid}: {' '.join(process.cmdline())}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return left


@contextmanager
def fleet(name: str = "shop", *, strict: bool = True, commits: int = 1) -> Iterator[FleetWorld]:
    """A fresh world, its configuration written; gone afterwards. ``strict``: what outlives it is a failure."""
    folder = short_folder()
    world = FleetWorld(folder, folder / "s", folder / name)
    try:
        make_repository(world.root, commits)
        world.configure()
        yield world
    finally:
        held = holder(world.layout.lock) if world.layout.lock.exists() else None
        if held and isinstance(held.get("pid"), int):
            conductor = [psutil.Process(held["pid"])] if psutil.pid_exists(held["pid"]) else []
            for process in conductor:
                process.terminate()
            wait_for_end(conductor)
        reap(world.socket)
        left = end_all(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if left and strict:
            raise AssertionError("processes outlived their world:\n" + "\n".join(left))


@pytest.fixture
def fleet_world() -> Iterator[FleetWorld]:
    """A world of its own for one test."""
    with fleet() as world:
        yield world


__all__ = ["Callable", "FleetWorld", "fleet", "fleet_world", "is_alive"]
