"""A managed repository with a local forge, in which the live verbs are called under changing logins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conductor.cli.main import main
from conductor.forge.local.forge import LocalForge
from schemas.config import LocalForgeConfig
from tests.support.repos import commit_file, git
from tests.support.waiting import wait_until

BODY = """\
Closes #1

## Summary

Parses ISO weeks.

## Scope

The reader of dates.

## Acceptance criteria

- [x] 2026-W05 is accepted: weeks.py

## Definition of done

- [x] tests pass

## Non-goals

Other calendars.
"""


@dataclass
class Told:
    """What a call answered."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        return str(json.loads(self.err.splitlines()[-1])["error"])


class LiveDesk:
    """Pushes branches and calls verbs in process; ``root`` is the managed repository and the current folder."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._patch, self._capsys = root, patch, capsys
        self.acts("worker-1")
        patch.chdir(root)
        LocalForge.create_or_open(root, LocalForgeConfig()).close()

    def acts(self, login: str) -> None:
        self._patch.setenv("TASKMAESTRO_LOGIN", login)

    def configure(self, text: str) -> None:
        path = self.root / ".taskmaestro" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def call(self, *arguments: str) -> Told:
        self._capsys.readouterr()
        code = main(list(arguments))
        told = self._capsys.readouterr()
        return Told(code, told.out, told.err)

    def ok(self, *arguments: str) -> Any:
        """The JSON answer of a call that succeeds."""
        told = self.call(*arguments)
        assert told.code == 0, told.err
        return told.value

    def push(self, branch: str, name: str = "weeks.py", text: str = "one\ntwo\nthree\n") -> str:
        """A commit on the branch, which is made where it is new; answers its SHA."""
        new = [] if git(self.root, "branch", "--list", branch) else ["-b"]
        git(self.root, "checkout", "--quiet", *new, branch)
        sha = commit_file(self.root, name, text)
        git(self.root, "push", "--quiet", "--force", "origin", branch)
        return sha

    def open(self, branch: str = "feature", *more: str, body: str = BODY) -> tuple[int, str]:
        """A pull request of worker-1 for a new branch: its number and its head."""
        self.acts("worker-1")
        there = git(self.root, "branch", "--list", branch)
        head = git(self.root, "rev-parse", branch) if there else self.push(branch)
        made = self.ok("pr", "create", "--title", "Parse ISO weeks", "--body", body, "--json", *more)
        return int(made["number"]), head

    def settle(self, number: int) -> None:
        """Until the checks of its head have ended."""
        wait_until(lambda: self.call("pr", "checks", str(number), "--silent").code != 8, 60, "the checks to end")

    def state(self, number: int, *more: str) -> str:
        return str(self.ok("loop", "reviewer", "--pr", str(number), *more)["state"])

    def merged(self, head: str, *findings: dict[str, Any]) -> str:
        """A file with a merged review of this head, as ``loop merge`` makes it; answers its path."""
        runs = self.root.parent / "runs.json"
        result = {"headSha": head, "runResults": [{"angle": "correctness", "findings": list(findings)}]}
        runs.write_text(json.dumps(result), encoding="utf-8")
        path = self.root.parent / "merged.json"
        told = self.call("loop", "merge", "--input", str(runs))
        assert told.code == 0, told.err
        path.write_text(told.out, encoding="utf-8")
        return str(path)
