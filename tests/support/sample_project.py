"""A user's project as the README's reader has one, with the scripted agent and a private tmux server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.repos import git
from tests.support.tmux_server import tmux
from tests.support.waiting import wait_until

BIN = Path(sys.executable).parent
PATIENCE = 240.0
"""Seconds for whole rounds of work, checks and review on a busy machine."""

WEEKS = 'def week(text):\n    """The number of an ISO week, round {{cycle}}."""\n    return int(text.split("-W")[1])\n'
FILES = {
    "dates.py": '"""Dates."""\n\n\ndef parse(text):\n    """Year, month and day."""\n    return text.split("-")\n',
    "test_dates.py": "import unittest\n\nimport dates\n\n\nclass DatesTest(unittest.TestCase):\n"
    '    def test_parse(self):\n        self.assertEqual(dates.parse("2026-01"), ["2026", "01"])\n',
}


class Sample:
    """The project's folder and how commands are run there."""

    def __init__(self, root: Path, socket: Path) -> None:
        self.root = root
        self.socket = socket
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_MERGE_AUTOEDIT": "no",
        }
        root.mkdir()
        for name, text in FILES.items():
            (root / name).write_text(text, encoding="utf-8")
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "First")

    def run(self, argv: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=cwd or self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def taskmaestro(self, *argv: str) -> str:
        """Output of a verb that must go well."""
        done = self.run(["taskmaestro", *argv])
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def use_script(self, turns: list[dict[str, Any]]) -> None:
        """Set the scripted agent and the private socket in the configuration that ``init`` wrote."""
        script = self.root.parent / "script.json"
        script.write_text(json.dumps({"turns": turns}), encoding="utf-8")
        path = self.root / ".taskmaestro" / "config.toml"
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if not line.startswith("agent = ")]
        settings = [
            f"[agents.scripted]\nargs = {json.dumps(['--script', str(script)])}",
            f"[tmux]\nsocket = {json.dumps(str(self.socket))}",
        ]
        path.write_text("\n".join(['agent = "scripted"', *kept, *settings]) + "\n", encoding="utf-8")

    def pane(self, index: int) -> dict[str, Any]:
        """Its published state."""
        answer = json.loads(self.taskmaestro("status", "--json"))
        found: dict[str, Any] = next(pane for pane in answer["panes"] if pane["index"] == index)
        return found

    def wait_for(self, index: int, what: str, fits: Callable[[dict[str, Any]], bool]) -> None:
        """Until the pane fits; fails with its state where it does not."""
        path = self.root / ".taskmaestro" / "state" / "panes" / f"{index}.json"

        def now() -> bool:
            return path.exists() and fits(json.loads(path.read_bytes()))

        try:
            wait_until(now, PATIENCE, what)
        except AssertionError as late:
            journal = self.run(["taskmaestro", "journal", "--pane", str(index)]).stdout
            raise AssertionError(f"{late}\n{path.read_text(encoding='utf-8')}\n{journal[-3000:]}") from None

    def sessions(self) -> list[str]:
        return tmux(self.socket, "list-sessions", "-F", "#{session_name}").stdout.split()


def first_turn(*, issue: int | None) -> dict[str, Any]:
    """Writes a function without a test and ships it: each review asks for one."""
    body = "## Acceptance criteria\n\n- [x] 2026-W05 is accepted: weeks.py\n"
    steps = [
        {"write": {"path": "weeks.py", "text": WEEKS}},
        {"git": ["add", "weeks.py"]},
        {"ship": {"title": "Parse ISO weeks", "body": f"Closes #{issue}\n\n{body}" if issue else body}},
    ]
    return {"task": "first", **({"issue": issue} if issue else {}), "steps": steps}


def fix_turn() -> dict[str, Any]:
    """Changes something, and never what was asked for."""
    steps = [
        {"write": {"path": "weeks.py", "text": WEEKS}},
        {"git": ["add", "weeks.py"]},
        {"ship": {"amend": True}},
    ]
    return {"task": "fix", "repeat": True, "steps": steps}
