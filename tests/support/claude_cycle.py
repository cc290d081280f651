"""A managed repository whose workers are the real Claude Code, played by a scripted model on loopback.

Everything goes through the command line, as a person's would. The tmux server is one that ran before and knows
nothing of keys and base URLs, so that what an agent needs has to come from the shell in which ``up`` was called.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from conductor.ports import Screen
from tests.support.claude_world import CLAUDE, DUMMY_KEY, environment, seed
from tests.support.model_server import Exchange, ModelServer
from tests.support.repos import git
from tests.support.tmux_server import tmux
from tests.support.waiting import wait_until

BIN = Path(sys.executable).parent
SHOP = {
    "shop.py": '"""Prices of a small shop."""\n\n\ndef total(prices):\n    return sum(prices)\n',
    "test_shop.py": "import unittest\n\nimport shop\n\n\nclass ShopTest(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n",
}
UNITTEST = [sys.executable, "-m", "unittest", "-q"]
PERMISSIONS = ("--permission-mode", "acceptEdits", "--allowedTools=Bash(git add:*),Bash(taskmaestro:*)")
"""What docs/agents/claude.md recommends: edits, `git add` and `taskmaestro` run, everything else asks."""
STEP_COUNT = 9
PATIENCE = 90.0
"""Seconds; a cycle takes some 25 on a machine that has nothing else to do."""
Step = Mapping[str, Any]
Plan = Mapping[str, Sequence[Step]]


def by_task(plans: Plan) -> dict[str, Any]:
    """A turn of the model that reads TASK.md and then goes on as the plan for that kind of task says.

    Keys are a task's kind (``first``, ``fix``, ``ci``); every prompt is the same line, so only TASK.md tells.
    """

    def step(position: int) -> Callable[[Exchange], Step]:
        def act(exchange: Exchange) -> Step:
            task = exchange.results[0]
            kind = next((kind for kind in plans if f'"kind": "{kind}"' in task), None)
            if kind is None:
                return {"text": f"No plan for this task: {task[:200]}"}
            steps = plans[kind]
            return steps[position] if position < len(steps) else {"text": "Done."}

        return act

    return {"when": "Read TASK.md", "steps": [{"read": "TASK.md"}, *(step(position) for position in range(STEP_COUNT))]}


@dataclass
class ClaudeFleet:
    """The repository ``root``, the person's ``home`` and ``shell`` environment, the tmux server at ``socket``."""

    folder: Path
    socket: Path
    server: ModelServer
    more_env: dict[str, str] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)
    """The addresses that programs in panes were seen connected to, or trying to be."""

    @property
    def root(self) -> Path:
        return self.folder / "shop"

    @property
    def home(self) -> Path:
        return self.folder / "person"

    def worktree(self, index: int) -> Path:
        return self.root / ".taskmaestro" / f"wt-{index}"

    @property
    def shell(self) -> dict[str, str]:
        """The person's shell: their home, key and base URL, and the programs on PATH."""
        path = os.pathsep.join([str(BIN), str(Path(str(CLAUDE)).parent), os.environ["PATH"]])
        return {**environment(self.home, self.server), "PATH": path, **self.more_env}

    # --- setting up

    def make(self, *, args: Sequence[str] = PERMISSIONS, trusted: bool = True) -> None:
        """The repository with one issue, its configuration, and a tmux server of earlier."""
        self.root.mkdir(parents=True)
        for name, text in SHOP.items():
            (self.root / name).write_text(text, encoding="utf-8")
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "config", "user.name", "Worker One")
        git(self.root, "config", "user.email", "one@example.invalid")
        git(self.root, "add", "--", *SHOP)
        git(self.root, "commit", "-q", "-m", "A small shop")
        seed(self.home, trusted=[self.root] if trusted else [])
        bare = {name: self.shell[name] for name in ("HOME", "PATH", "LANG", "TERM", "SHELL")}
        subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", str(self.socket), "new-session", "-d", "-s", "mine", "cat"],
            env=bare,
            check=True,
            timeout=20,
        )
        self.taskmaestro("init")
        self._configure(args)
        body = "## Acceptance criteria\n\n- [ ] `discount` lowers a price by a percentage\n"
        self.taskmaestro("issue", "create", "--title", "Add a discount", "--body", body)

    def _configure(self, args: Sequence[str]) -> None:
        """What stands in the file is no secret: neither the key nor where it is used."""
        settings = {
            name: value
            for name, value in self.shell.items()
            if name.startswith(("CLAUDE_CODE_DISABLE", "CLAUDE_CODE_MAX", "DISABLE_"))
        }
        rows = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        command = json.dumps(UNITTEST)
        (self.root / ".taskmaestro" / "config.toml").write_text(
            f"[tmux]\nsocket = {json.dumps(str(self.socket))}\n\n"
            f"[agents.claude]\nargs = {json.dumps(list(args))}\n\n[agents.claude.env]\n{rows}\n"
            f"[forge.local.checks]\ntest = {command}\n\n[battery]\ntest = {command}\n\n"
            f"[review.verification]\ntest = {command}\n",
            encoding="utf-8",
        )

    # --- acting

    def taskmaestro(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            [str(BIN / "taskmaestro"), *argv],
            cwd=self.root,
            env=self.shell,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"taskmaestro {argv}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self) -> None:
        self.taskmaestro("up", "1", "--issues", "1", "--agent", "claude")

    def keys(self, *names: str) -> None:
        """Keys that a person presses in the worker's pane."""
        done = tmux(self.socket, "send-keys", "-t", str(self.pane()["pane_id"]), *names)
        assert done.returncode == 0, done.stderr

    def kill_conductor(self) -> None:
        pid = self.status()["conductor"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.status()["conductor"] is None, 10, "the conductor's end")

    # --- looking

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.taskmaestro("status", "--json"))
        return answer

    def pane(self) -> dict[str, Any]:
        """The published state of the one worker; without keys where there is none yet."""
        path = self.root / ".taskmaestro" / "state" / "panes" / "1.json"
        return dict(json.loads(path.read_bytes())) if path.exists() else {}

    def journal(self) -> list[dict[str, Any]]:
        path = self.root / ".taskmaestro" / "state" / "journal.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The journalled events of this kind, oldest first."""
        return [line["event"] for line in self.journal() if (line.get("event") or {}).get("kind") == kind]

    def agent_states(self) -> list[str]:
        return [event["state"] for event in self.events("agent_seen")]

    def receipts(self) -> list[tuple[str, str | None]]:
        path = next(iter((self.root / ".taskmaestro" / "state").rglob("pane-1.jsonl")), None)
        lines = path.read_text(encoding="utf-8").splitlines() if path else []
        return [(one["event"], one["msg"]) for one in map(json.loads, lines)]

    def screen(self) -> Screen:
        pane_id = str(self.pane()["pane_id"])
        shown = tmux(self.socket, "capture-pane", "-p", "-J", "-t", pane_id).stdout
        title = tmux(self.socket, "display-message", "-p", "-t", pane_id, "#{pane_title}").stdout.strip()
        return Screen(tuple(line.rstrip() for line in shown.split("\n")), title)

    def attention(self) -> str:
        """What a person is told about the worker; empty where nobody is wanted."""
        return ((self.pane().get("attention") or {}).get("message")) or ""

    def wait_for_status(self, status: str, timeout: float = PATIENCE) -> None:
        def reached() -> bool:
            self._look_at_connections()
            return self.pane().get("status") == status

        try:
            wait_until(reached, timeout, f"the status {status}")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.told()}") from None

    def _look_at_connections(self) -> None:
        server = tmux(self.socket, "display-message", "-p", "#{pid}").stdout.strip()
        for process in psutil.Process(int(server)).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended while it was being looked at
                self.reached |= {getattr(one.raddr, "ip", "") for one in process.net_connections("inet")} - {""}

    def wait_for_attention(self, words: str, timeout: float = PATIENCE) -> str:
        try:
            return wait_until(lambda: self.attention() if words in self.attention() else "", timeout, repr(words))
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.told()}") from None

    def told(self) -> str:
        """All that helps to see why a test failed."""
        journal = self.taskmaestro("journal", "--all", check=False)
        shown = "\n".join(line for line in self.screen().lines if line) if self.pane().get("pane_id") else ""
        calls = "\n".join(f"{call.step} {call.prompt[:90]} {call.results[-1:]}" for call in self.server.main_calls())
        return f"{journal}\n--- screen\n{shown}\n--- model\n{calls}\n--- receipts\n{self.receipts()}"


__all__ = ["DUMMY_KEY", "PERMISSIONS", "ClaudeFleet", "by_task"]
