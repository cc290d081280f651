"""A desk for the live verbs, its runners ended afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.loops.desk import LiveDesk
from tests.forge.conftest import end_runners
from tests.support.repos import make_repository


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[LiveDesk]:
    """A desk in a new managed repository ``dates``; ``worker-1`` acts until told otherwise."""
    root = make_repository(tmp_path / "dates")
    yield LiveDesk(root, monkeypatch, capsys)
    end_runners(root / ".taskmaestro" / "forge")
