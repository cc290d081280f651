"""The private exclude file: our lines in it once, the user's as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.git.worktrees import GitWorktrees
from schemas.errors import Fault
from tests.support.repos import git
from worker.tools.exclude import EXCLUDED, ensure_excluded_in, with_excludes


@given(st.text(alphabet=st.sampled_from("ab/*!# \n.é"), max_size=40))
def test_the_users_lines_stay_and_adding_twice_changes_nothing(text: str) -> None:
    once, _ = with_excludes(text)
    assert once.startswith(text)
    assert with_excludes(once) == (once, [])
    assert set(EXCLUDED) <= set(once.splitlines())


def test_names_that_the_user_excludes_already_are_not_added_again() -> None:
    text, _ = with_excludes("RESULT.json\n.taskmaestro\n")
    assert text.count("RESULT.json") == 1
    assert text.splitlines().count(".taskmaestro") == 1
    assert "/.taskmaestro/" not in text
    assert "/TASK.md" in text


def test_the_file_keeps_its_mode_bytes_and_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "exclude"
    real.parent.mkdir()
    real.write_bytes(b"caf\xe9\n")
    real.chmod(0o640)
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "exclude").symlink_to(real)
    assert ensure_excluded_in(tmp_path)
    assert not ensure_excluded_in(tmp_path)
    assert real.read_bytes().startswith(b"caf\xe9\n")
    assert real.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "info" / "exclude").is_symlink()


def test_only_the_top_of_a_worktree_is_excluded(repo: Path, worktrees: GitWorktrees) -> None:
    assert worktrees.ensure_excluded()
    assert not worktrees.ensure_excluded()
    (repo / "docs").mkdir()
    for name in ("TASK.md", "docs/TASK.md"):
        (repo / name).write_text("x")
    assert git(repo, "status", "--porcelain", "-uall") == "?? docs/TASK.md"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "exclude").write_text("mine\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Fault, match=r"[Ss]pace"):
        ensure_excluded_in(tmp_path)
    assert [path.name for path in (tmp_path / "info").iterdir()] == ["exclude"]
    assert (tmp_path / "info" / "exclude").read_text() == "mine\n"
