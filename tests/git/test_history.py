"""How a branch moved: the shapes, and commits of somebody else that fell out."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.git.worktrees import GitWorktrees
from schemas.events import History
from tests.support.repos import commit_file, git

MINE = ("tester@example.invalid", "Conductor@Example.invalid")
COLLEAGUE = ("-c", "user.name=Col\x1b[31mleague", "-c", "user.email=colleague@example.invalid")


def foreign(repo: Path, name: str, text: str) -> str:
    (repo / name).write_text(text)
    git(repo, "add", name)
    git(repo, *COLLEAGUE, "commit", "-q", "-m", f"Theirs {name}")
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def branch(repo: Path) -> str:
    """A branch with one commit, checked out; answers its head."""
    git(repo, "switch", "-q", "-c", "x")
    return commit_file(repo, "a.txt", "one\n" * 30)


def moved(worktrees: GitWorktrees, old: str, repo: Path) -> History:
    return worktrees.history(old, git(repo, "rev-parse", "HEAD"), "main", mine=MINE)


def test_nothing_moved(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    found = moved(worktrees, branch, repo)
    assert (found.shape, found.commits_before, found.range_diff) == ("same", 1, "")


def test_an_amended_commit(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    (repo / "a.txt").write_text("two\n" + "one\n" * 30)
    git(repo, "commit", "-q", "-a", "--amend", "--no-edit")
    found = moved(worktrees, branch, repo)
    assert (found.shape, found.commits_before, found.commits_after) == ("amended", 1, 1)
    assert "two" in found.range_diff


def test_more_and_fewer_commits(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    more = commit_file(repo, "b.txt", "b")
    assert moved(worktrees, branch, repo).shape == "more_commits"
    git(repo, "reset", "-q", "--soft", "main")
    git(repo, "commit", "-q", "-m", "squashed")
    assert moved(worktrees, more, repo).shape == "fewer_commits"


def test_a_rebase_onto_a_newer_base(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    git(repo, "switch", "-q", "main")
    commit_file(repo, "base.txt", "x")
    git(repo, "push", "-q", "origin", "main")
    git(repo, "switch", "-q", "x")
    git(repo, "rebase", "-q", "main")
    found = moved(worktrees, branch, repo)
    assert (found.shape, found.commits_after, found.foreign_lost) == ("rebased", 1, ())
    assert " = 1:" in found.range_diff


def test_a_rewritten_history_on_the_same_base(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    old = commit_file(repo, "b.txt", "b")
    git(repo, "reset", "-q", "--hard", "main")
    commit_file(repo, "c.txt", "c")
    commit_file(repo, "b.txt", "b")
    assert moved(worktrees, old, repo).shape == "rewritten"


def test_a_branch_without_common_history(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    git(repo, "switch", "-q", "--orphan", "fresh")
    commit_file(repo, "z.txt", "z")
    found = moved(worktrees, branch, repo)
    assert (found.shape, found.range_diff) == ("rewritten", "")


def test_a_lost_commit_of_somebody_else_is_told_without_control_characters(
    repo: Path, branch: str, worktrees: GitWorktrees
) -> None:
    theirs = foreign(repo, "theirs.txt", "much\nwork\n")
    git(repo, "reset", "-q", "--hard", branch)
    commit_file(repo, "mine.txt", "x")
    found = moved(worktrees, theirs, repo)
    assert found.foreign_lost == (f"{theirs[:12]} Col[31mleague <colleague@example.invalid> Theirs theirs.txt",)


def test_my_own_lost_commit_and_one_that_i_committed_for_somebody_are_not_foreign(
    repo: Path, branch: str, worktrees: GitWorktrees
) -> None:
    commit_file(repo, "b.txt", "b")
    (repo / "c.txt").write_text("c")
    git(repo, "add", "c.txt")
    git(repo, "commit", "-q", "-m", "for them", "--author", "Other <other@example.invalid>")
    old = git(repo, "rev-parse", "HEAD")
    git(repo, "reset", "-q", "--hard", branch)
    assert moved(worktrees, old, repo).foreign_lost == ()
    assert worktrees.history(old, branch, "main", mine=("TESTER@EXAMPLE.INVALID",)).foreign_lost == ()
    assert len(worktrees.history(old, branch, "main", mine=("x@example.invalid",)).foreign_lost) == 2


def test_a_foreign_commit_that_was_rebased_or_changed_is_not_lost(
    repo: Path, branch: str, worktrees: GitWorktrees
) -> None:
    theirs = foreign(repo, "theirs.txt", "line\n" * 40)
    git(repo, "switch", "-q", "main")
    commit_file(repo, "base.txt", "x")
    git(repo, "push", "-q", "origin", "main")
    git(repo, "switch", "-q", "x")
    git(repo, "rebase", "-q", "main")
    assert moved(worktrees, theirs, repo).foreign_lost == ()
    (repo / "theirs.txt").write_text("line\n" * 39 + "mine\n")
    git(repo, "commit", "-q", "-a", "--amend", "--no-edit")
    assert moved(worktrees, theirs, repo).foreign_lost == ()


def test_a_foreign_commit_that_landed_on_the_base_is_not_lost(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    theirs = foreign(repo, "theirs.txt", "work\n")
    git(repo, "switch", "-q", "main")
    commit_file(repo, "before.txt", "x")
    git(repo, "cherry-pick", theirs)
    git(repo, "push", "-q", "origin", "main")
    git(repo, "switch", "-q", "x")
    git(repo, "reset", "-q", "--hard", "main")
    git(repo, "cherry-pick", branch)
    assert moved(worktrees, theirs, repo).foreign_lost == ()


def test_a_foreign_binary_change_is_told_apart_from_another_one(
    repo: Path, branch: str, worktrees: GitWorktrees
) -> None:
    (repo / "i.bin").write_bytes(b"\0old" * 50)
    git(repo, "add", "i.bin")
    git(repo, *COLLEAGUE, "commit", "-q", "-m", "Theirs")
    theirs = git(repo, "rev-parse", "HEAD")
    git(repo, "reset", "-q", "--hard", branch)
    (repo / "i.bin").write_bytes(b"\0new" * 50)
    git(repo, "add", "i.bin")
    git(repo, "commit", "-q", "-m", "Theirs")
    assert " 1:  " in moved(worktrees, theirs, repo).range_diff, "range-diff takes it for the same"
    found = moved(worktrees, theirs, repo)
    assert found.shape == "amended"
    assert len(found.foreign_lost) == 1


def test_a_foreign_merge_of_the_base_that_a_rebase_dropped_takes_nothing_with_it(
    repo: Path, branch: str, worktrees: GitWorktrees
) -> None:
    git(repo, "switch", "-q", "main")
    commit_file(repo, "base.txt", "x")
    git(repo, "push", "-q", "origin", "main")
    git(repo, "switch", "-q", "x")
    git(repo, *COLLEAGUE, "merge", "-q", "--no-edit", "main")
    merged = git(repo, "rev-parse", "HEAD")
    git(repo, "rebase", "-q", "main")
    assert moved(worktrees, merged, repo).foreign_lost == ()


def test_a_huge_range_diff_is_cut(repo: Path, branch: str, worktrees: GitWorktrees) -> None:
    old = commit_file(repo, "b.txt", "".join(f"line {n}\n" for n in range(6000)))
    (repo / "b.txt").write_text("".join(f"line {n}{'!' * (n % 20 == 0)}\n" for n in range(6000)))
    git(repo, "commit", "-q", "-a", "--amend", "--no-edit")
    text = moved(worktrees, old, repo).range_diff
    assert len(text) < 20_100
    assert text.endswith("more characters)")
