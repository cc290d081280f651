"""A managed repository with a local forge, and the verbs called in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from conductor.cli.issue import issue
from conductor.cli.pr import pr
from conductor.forge.local.forge import LocalForge
from schemas.config import LocalForgeConfig
from tests.forge.conftest import end_runners
from tests.support.repos import commit_file, git, make_repository


@dataclass
class Desk:
    """Where verbs are called: ``root`` is the managed repository, the current folder is ``here``."""

    root: Path
    patch: pytest.MonkeyPatch

    def go(self, folder: Path) -> None:
        self.patch.chdir(folder)

    def configure(self, text: str) -> None:
        path = self.root / ".taskmaestro" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def push(self, branch: str, name: str = "new.txt", text: str = "new\n") -> str:
        """A commit on a new branch, pushed; the branch stays checked out."""
        git(self.root, "checkout", "--quiet", "-b", branch)
        sha = commit_file(self.root, name, text)
        LocalForge.create_or_open(self.root, LocalForgeConfig()).close()
        git(self.root, "push", "--quiet", "origin", branch)
        return sha

    def pr(self, *arguments: str, stdin: str = "") -> Result:
        return self._call(pr, arguments, stdin)

    def issue(self, *arguments: str, stdin: str = "") -> Result:
        return self._call(issue, arguments, stdin)

    def _call(self, group: click.Group, arguments: tuple[str, ...], stdin: str) -> Result:
        result = CliRunner().invoke(group, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk in a new managed repository."""
    root = make_repository(tmp_path / "managed")
    monkeypatch.setenv("TASKMAESTRO_LOGIN", "worker-1")
    monkeypatch.chdir(root)
    yield Desk(root, monkeypatch)
    end_runners(root / ".taskmaestro" / "forge")
