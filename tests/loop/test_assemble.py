"""What the conductor of a repository is put together from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductor.layout import Layout
from conductor.loop import assemble
from schemas.config import Config
from schemas.effects import InspectPr
from tests.support.repos import git, make_repository


@pytest.mark.parametrize("purpose", ["success", "addressed"])
@pytest.mark.parametrize(("old_head", "mine"), [("a" * 40, ("one@example.invalid",)), (None, ())])
def test_commits_of_the_worker_are_its_own_wherever_an_earlier_head_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: Any, old_head: str | None, mine: tuple[str, ...]
) -> None:
    root = make_repository(tmp_path / "managed")
    git(root, "config", "user.email", "one@example.invalid")
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(assemble, "inspect", lambda *_, mine, **__: told.append(tuple(mine)))
    look = assemble.outside_of(Layout(root), Config(default_branch="main")).inspect
    look(InspectPr(pane=1, claim_id="c", pr_number=3, purpose=purpose, old_head=old_head))
    assert told == [mine]
