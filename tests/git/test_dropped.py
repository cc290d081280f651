"""Commits that only a worktree's HEAD or its reflog knows outlive the worktree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conductor.git import dropped
from conductor.git.worktrees import GitWorktrees
from conductor.ports import AtRisk, Worktree
from tests.support.repos import commit_file, git


@pytest.fixture
def wt(worktrees: GitWorktrees) -> Worktree:
    return worktrees.add(1, "tm/one")


def kept(repo: Path, worktrees: GitWorktrees) -> list[str]:
    return [git(repo, "rev-parse", ref) for ref in worktrees.recovery_refs(1)]


def unreachable(repo: Path) -> str:
    return git(repo, "fsck", "--unreachable", "--no-reflogs", "--no-progress")


def test_a_detached_commit_that_was_left_is_kept_at_a_plain_removal(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    git(wt.path, "checkout", "-q", "--detach")
    commit_file(wt.path, "a.txt", "a\n")
    sha = commit_file(wt.path, "b.txt", "b\n")
    git(wt.path, "checkout", "-q", "tm/one")
    assert worktrees.at_risk(1) == AtRisk()
    assert worktrees.remove(1, force=False) is None
    assert kept(repo, worktrees) == [sha]  # the newest one holds the older one
    assert "-dropped-1" in worktrees.recovery_refs(1)[0]
    assert unreachable(repo) == ""


def test_a_commit_that_was_reset_is_kept_also_when_forced(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    sha = commit_file(wt.path, "a.txt", "a\n")
    git(wt.path, "reset", "-q", "--hard", "HEAD~1")
    commit_file(wt.path, "b.txt", "b\n")
    git(wt.path, "reset", "-q", "--hard", "HEAD~1")  # ORIG_HEAD is this one, and in the forced commit
    (wt.path / "new.txt").write_text("new")
    ref = worktrees.remove(1, force=True)
    assert ref
    assert sorted(kept(repo, worktrees)) == sorted([sha, git(repo, "rev-parse", ref)])
    assert unreachable(repo) == ""


def test_amended_work_does_not_refuse_and_its_predecessor_is_kept(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    first = commit_file(wt.path, "a.txt", "a\n")
    git(wt.path, "commit", "-q", "--amend", "-m", "Better said")
    git(wt.path, "push", "-q", "origin", "tm/one")
    assert worktrees.remove(1, force=False) is None
    assert kept(repo, worktrees) == [first]


def test_commits_that_a_ref_holds_get_no_other_one(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    sha = commit_file(wt.path, "a.txt", "a\n")
    git(wt.path, "tag", "held", sha)
    git(wt.path, "reset", "-q", "--hard", "HEAD~1")
    worktrees.remove(1, force=False)
    assert worktrees.recovery_refs(1) == ()


def test_a_reflog_that_names_what_is_gone_does_not_stop_the_removal(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    log = repo / ".git" / "worktrees" / "wt-1" / "logs" / "HEAD"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{wt.head} {'1' * 40} A <a@example.invalid> 1 +0000\tcommit: gone\ntorn")
    assert worktrees.remove(1, force=False) is None
    assert worktrees.find(1) is None


def test_beyond_the_limit_the_last_ref_holds_the_rest(
    repo: Path, worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped, "LIMIT", 3)
    for number in range(6):
        commit_file(wt.path, f"{number}.txt", "x\n")
        git(wt.path, "reset", "-q", "--hard", "HEAD~1")
    worktrees.remove(1, force=False)
    assert len(worktrees.recovery_refs(1)) == 3
    assert unreachable(repo) == ""


def deleted_by_hand(wt: Worktree) -> tuple[str, str]:
    """A commit that was reset, and one on a detached head, in a worktree whose folder is gone then."""
    reset = commit_file(wt.path, "a.txt", "a\n")
    git(wt.path, "reset", "-q", "--hard", "HEAD~1")
    git(wt.path, "checkout", "-q", "--detach")
    head = commit_file(wt.path, "b.txt", "b\n")
    shutil.rmtree(wt.path)
    return reset, head


def test_making_a_deleted_worktree_anew_keeps_its_detached_head_and_what_was_reset(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    reset, head = deleted_by_hand(wt)
    assert worktrees.add(1, "tm/one").branch == "tm/one"
    assert sorted(kept(repo, worktrees)) == sorted([head, reset])
    assert unreachable(repo) == ""


def test_removing_a_deleted_worktree_by_force_keeps_its_detached_head(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    reset, head = deleted_by_hand(wt)
    ref = worktrees.remove(1, force=True)
    assert ref
    assert git(repo, "rev-parse", ref) == head
    assert kept(repo, worktrees) == [reset]
    assert unreachable(repo) == ""
