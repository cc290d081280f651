"""Scratch checkouts: exactly the commit, made anew, and nothing of the repository runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conductor.git.worktrees import GitWorktrees
from schemas.config import Config
from schemas.errors import BadInput, NotSo
from tests.git.test_remote import pushed
from tests.support.repos import commit_file, git


def test_it_is_the_commit_and_made_anew_each_time(repo: Path, worktrees: GitWorktrees) -> None:
    first = git(repo, "rev-parse", "HEAD")
    second = commit_file(repo, "b.txt", "b")
    path = worktrees.scratch(second, "review 1/x")
    assert path == Path(os.path.realpath(repo)) / ".taskmaestro" / "state" / "scratch" / "review-1-x"
    (path / "left.txt").write_text("left")
    assert worktrees.scratch(first, "review 1/x") == path
    assert sorted(item.name for item in path.iterdir()) == [".git", "README.md"]
    assert git(path, "rev-parse", "HEAD") == first
    assert worktrees.all() == []


def test_a_commit_that_is_only_on_the_remote_is_fetched(remote: Path, tmp_path: Path, worktrees: GitWorktrees) -> None:
    sha = pushed(remote, tmp_path / "other")
    assert git(worktrees.scratch(sha, "n"), "rev-parse", "HEAD") == sha
    with pytest.raises(NotSo):
        worktrees.scratch("2" * 40, "n2")


def test_no_hook_and_no_filter_runs(repo: Path, tmp_path: Path, worktrees: GitWorktrees) -> None:
    commit_file(repo, ".gitattributes", "*.bin filter=spy\n")
    sha = commit_file(repo, "a.bin", "as committed")
    ran = tmp_path / "ran"
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    hook.chmod(0o755)
    git(repo, "config", "filter.spy.smudge", f"touch '{ran}'; cat")
    git(repo, "config", "filter.spy.required", "true")
    assert (worktrees.scratch(sha, "n") / "a.bin").read_text() == "as committed"
    assert not ran.exists()


def test_dropping_removes_it_whatever_lies_there_and_may_be_repeated(repo: Path, worktrees: GitWorktrees) -> None:
    path = worktrees.scratch(git(repo, "rev-parse", "HEAD"), "n")
    (path / "new.txt").write_text("x")
    git(repo, "worktree", "lock", str(path))
    worktrees.drop_scratch(path)
    worktrees.drop_scratch(path)
    assert not path.exists()
    assert "scratch" not in git(repo, "worktree", "list")


def test_a_leftover_without_registration_makes_room(repo: Path, worktrees: GitWorktrees) -> None:
    path = worktrees.root / ".taskmaestro" / "state" / "scratch" / "n"
    (path / "deep").mkdir(parents=True)
    assert worktrees.scratch(git(repo, "rev-parse", "HEAD"), "n") == path
    assert not (path / "deep").exists()


def test_nothing_but_a_scratch_worktree_is_dropped(repo: Path, worktrees: GitWorktrees) -> None:
    made = worktrees.add(1, "x")
    home = worktrees.root / ".taskmaestro" / "state" / "scratch"
    for path in (made.path, repo, home, home / "a" / "b", home / ".." / "x"):
        with pytest.raises(BadInput, match="no scratch worktree"):
            worktrees.drop_scratch(path)
    assert made.path.exists()


def test_worktrees_and_checkouts_get_the_ignored_files_that_they_need(repo: Path) -> None:
    (repo / ".git" / "info").mkdir()
    (repo / ".git" / "info" / "exclude").write_text("generated.txt\n")
    (repo / "generated.txt").write_text("by the build")
    worktrees = GitWorktrees(repo, Config(default_branch="main", needed=("generated.txt",)))
    scratch = worktrees.scratch(git(repo, "rev-parse", "HEAD"), "x")
    tree = worktrees.add(1, "task-1").path
    assert (scratch / "generated.txt").read_text() == (tree / "generated.txt").read_text() == "by the build"
    assert git(tree, "status", "--short") == ""
    assert not worktrees.at_risk(1).any
