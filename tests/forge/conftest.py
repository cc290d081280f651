"""Stages on the local forge, closed and their runners ended afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conductor.forge.local.forge import LocalForge
from schemas.config import LocalForgeConfig
from tests.forge.stage import MakeStage, Stage
from tests.support.repos import make_repository
from tests.support.waiting import wait_until


def runners_of(folder: Path) -> list[psutil.Process]:
    """The runner processes that work on this forge folder."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if "conductor.forge.local.runner" in line and str(folder) in line and process.status() != "zombie":
                found.append(process)
        except psutil.Error:  # ended meanwhile
            continue
    return found


def end_runners(folder: Path) -> None:
    """Ask the runners of this forge folder to end, and wait for it."""
    for process in runners_of(folder):
        try:
            os.kill(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    wait_until(lambda: not runners_of(folder), 20, "the runners to end")


@pytest.fixture
def make_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeStage]:
    """Makes managed repositories with a local forge. Scratch checkouts lie in a folder of the test."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    forges: list[tuple[LocalForge, Path]] = []

    def make(
        *,
        login: str = "conductor",
        checks: dict[str, tuple[str, ...]] | None = None,
        timeout: float = 60.0,
        name: str = "managed",
        check_env: tuple[str, ...] = (),
    ) -> Stage:
        root = make_repository(tmp_path / name, commits=2)
        config = LocalForgeConfig(checks=checks or {}, check_timeout=timeout, check_env=check_env)
        forge = LocalForge.create_or_open(root, config, login)
        folder = root / ".taskmaestro" / "forge"
        forges.append((forge, folder))

        def acting(other: str) -> LocalForge:
            opened = LocalForge.create_or_open(root, config, other)
            forges.append((opened, folder))
            return opened

        return Stage(root, forge, forge.remote_name, acting=acting)

    yield make
    for forge, folder in forges:
        forge.close()
        end_runners(folder)
    left = list(scratch.iterdir())
    assert left == [], "scratch checkouts were left behind"
