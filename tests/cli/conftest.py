"""A managed repository in a path with blanks, whose journal and state files tell of four panes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.repos import make_repository
from tests.support.stories import Run, tell_it_all
from tests.support.tree import ROOT

Taskmaestro = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The main folder, and the current one."""
    folder = make_repository(tmp_path / "a repository")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(repository: Path) -> Iterator[Run]:
    """The story of four panes, which can go on."""
    story = tell_it_all(repository)
    yield story
    story.close()


@pytest.fixture
def taskmaestro(repository: Path) -> Taskmaestro:
    """The command as a process of its own, in the repository."""

    def call(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), env=environment(), capture_output=True, text=True, timeout=60, **options
        )  # type: ignore[call-overload, no-any-return]

    return call


def command(*arguments: str) -> list[str]:
    """The command line of ``taskmaestro`` from this tree."""
    return [sys.executable, "-m", "conductor", *arguments]


def environment() -> dict[str, str]:
    """An environment in which this tree's packages are found from any folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
