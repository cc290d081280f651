"""A world of its own for the real Claude Code program: home, environment, seeds, and a terminal to see it in.

The program talks to a scripted model on loopback with a dummy key. Other ways out lead to a closed port,
so that a call that would leave the machine fails there. It is the program that the environment variable
TASKMAESTRO_CLAUDE names, else the one under `.cache/agents/claude` at the root of the repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conductor.panes.agents.claude import Claude
from conductor.ports import Launch, Screen
from tests.support.model_server import ModelServer
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DUMMY_KEY = "sk-scripted-0123456789-abcdefghij"
#: The program keeps the answer about a custom key under its last 20 characters.
KEY_TAIL = DUMMY_KEY[-20:]
CLOSED_PROXY = "http://127.0.0.1:9"


def _find() -> Path | None:
    named = os.environ.get("TASKMAESTRO_CLAUDE")
    path = Path(named) if named else ROOT / ".cache/agents/claude/node_modules/.bin/claude"
    return path if os.access(path, os.X_OK) else None


#: Looked up once, at import: the tests' own isolation takes the variable away afterwards.
CLAUDE = _find()
MISSING = "Claude Code is not installed here: scripts/setup puts it under .cache/agents/claude"


def environment(home: Path, server: ModelServer, **more: str) -> dict[str, str]:
    """All that the program gets to see; nothing comes from the caller's environment but PATH."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "SHELL": "/bin/sh",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": DUMMY_KEY,
        "HTTP_PROXY": CLOSED_PROXY,
        "HTTPS_PROXY": CLOSED_PROXY,
        "NO_PROXY": "127.0.0.1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
        # Retries wait for seconds; one shows that there are retries.
        "CLAUDE_CODE_MAX_RETRIES": "1",
        **more,
    }


def seed(home: Path, *, trusted: Sequence[Path] = (), key_approved: bool = True) -> None:
    """Answer the first-run dialogs beforehand: onboarding always, folders and the key as told."""
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY_TAIL] if key_approved else [], "rejected": []},
        "projects": {str(path.resolve()): {"hasTrustDialogAccepted": True} for path in trusted},
    }
    home.mkdir(parents=True, exist_ok=True)
    (home / ".claude.json").write_text(json.dumps(state), encoding="utf-8")


@dataclass
class Terminal:
    """One pane of a private tmux server that runs one command, typed into as the delivery rules say."""

    socket: Path
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    size: tuple[int, int] = (120, 40)

    def start(self) -> Terminal:
        width, height = map(str, self.size)
        options = (";", "set-option", "-w", "remain-on-exit", "on")
        # The server takes its environment from this first command, and the pane from the server.
        self.tmux("new-session", "-d", "-x", width, "-y", height, "-c", str(self.cwd), *self.argv, *options)
        return self

    def tmux(self, *arguments: str, stdin: str | None = None) -> str:
        command = ["tmux", "-u", "-f", "/dev/null", "-S", str(self.socket), *arguments]
        done = subprocess.run(
            command, input=stdin, env=dict(self.env), capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    @property
    def screen(self) -> Screen:
        place = self.tmux("display-message", "-p", "-t", ":0", "#{cursor_x},#{cursor_y},#{pane_title}")
        column, row, title = place.rstrip("\n").split(",", 2)
        lines = self.tmux("capture-pane", "-p", "-J", "-t", ":0").split("\n")
        return Screen(tuple(line.rstrip(" ") for line in lines), title, (int(column), int(row)))

    @property
    def dead(self) -> bool:
        return self.tmux("display-message", "-p", "-t", ":0", "#{pane_dead}").strip() == "1"

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", "-t", ":0", *names)

    def paste(self, text: str) -> None:
        self.tmux("load-buffer", "-b", "test", "-", stdin=text)
        self.tmux("paste-buffer", "-p", "-d", "-b", "test", "-t", ":0")


@dataclass
class World:
    """A home, a repository to work in, a model, and the program between them."""

    folder: Path
    socket: Path
    server: ModelServer
    agent: Claude
    more_env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def worktree(self) -> Path:
        return self.folder / "tree with blank"

    @property
    def private(self) -> Path:
        return self.folder / "private"

    @property
    def receipts_file(self) -> Path:
        return self.folder / "receipts.jsonl"

    def receipts(self) -> list[tuple[str, str | None]]:
        """The receipts so far as (event, message id), in order."""
        if not self.receipts_file.exists():
            return []
        lines = map(json.loads, self.receipts_file.read_text(encoding="utf-8").splitlines())
        return [(line["event"], line["msg"]) for line in lines]

    def launch(self, first_prompt: str | None, *, args: Sequence[str] = (), resume: bool = False) -> Launch:
        hook = (sys.executable, "-I", "-S", str(ROOT / "worker/hook.py"))
        return Launch(1, self.worktree, self.private, hook, first_prompt, tuple(args), resume)

    def run(self, first_prompt: str | None = None, **launch: object) -> Terminal:
        """Start the program in the worktree, as the conductor would."""
        args, resume = launch.get("args", ()), bool(launch.get("resume", False))
        assert isinstance(args, tuple)
        how = self.launch(first_prompt, args=args, resume=resume)
        self.agent.prepare(how)
        receipts = {"TASKMAESTRO_RECEIPTS": str(self.receipts_file), "TASKMAESTRO_PANE": "1"}
        env = environment(self.home, self.server, **receipts, **self.agent.env(how), **self.more_env)
        return Terminal(self.socket, self.agent.argv(how), self.worktree, env).start()

    def wait_for_state(self, terminal: Terminal, state: str, timeout: float = 15) -> str:
        """Wait until the screen is classified so; returns the detail."""

        def reached() -> bool:
            return self.agent.classify(terminal.screen).name == state

        wait_until(reached, timeout, f"the state {state!r}")
        return self.agent.classify(terminal.screen).detail

    def wait_for_receipt(self, event: str, msg: str | None = None, count: int = 1) -> None:
        wait_until(lambda: self.receipts().count((event, msg)) >= count, 15, f"receipt {event} {msg}")

    def submit(self, terminal: Terminal, text: str) -> None:
        """Paste, wait until the text shows, Enter."""
        terminal.paste(text)

        def shown() -> bool:
            return self.agent.placeholder(terminal.screen) or text[-8:] in (self.agent.composer(terminal.screen) or "")

        wait_until(shown, 5, "the text in the input line")
        terminal.keys("Enter")
