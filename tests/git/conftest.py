"""A repository with a bare remote, in a folder whose name needs care, and its worktrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.git.worktrees import GitWorktrees
from schemas.config import Config
from tests.support.repos import make_remote, make_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = make_repository(tmp_path / "it's my repo ä")
    make_remote(folder, tmp_path / "remote.git")
    return folder


@pytest.fixture
def remote(repo: Path, tmp_path: Path) -> Path:
    return tmp_path / "remote.git"


@pytest.fixture
def worktrees(repo: Path) -> GitWorktrees:
    return GitWorktrees(repo, Config())
