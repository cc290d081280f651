"""The remote's branches, commits that are not here, backups."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.git.run import Done
from conductor.git.worktrees import GitWorktrees
from schemas.errors import BadInput, NotSo, Unavailable
from tests.support.repos import clone, commit_file, git


def pushed(remote: Path, folder: Path, branch: str = "side") -> str:
    """A commit that only the remote has, on ``branch``."""
    other = clone(remote, folder)
    git(other, "switch", "-q", "-c", branch)
    sha = commit_file(other, f"{folder.name}.txt", "x")
    git(other, "push", "-q", "origin", branch)
    return sha


def test_the_head_of_a_branch_is_exactly_that_branchs(repo: Path, remote: Path, worktrees: GitWorktrees) -> None:
    git(repo, "push", "-q", "origin", "main:refs/heads/x/main", "main:refs/odd/refs/heads/lone")
    assert worktrees.remote_head("main") == git(repo, "rev-parse", "main")
    assert worktrees.remote_head("x/main") == git(repo, "rev-parse", "main")
    assert worktrees.remote_head("lone") is None
    assert worktrees.remote_head("x") is None
    with pytest.raises(BadInput):
        worktrees.remote_head("--upload-pack=x")


def test_a_remote_in_a_folder_is_read_without_a_process(
    repo: Path, worktrees: GitWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = worktrees.remote_head("main")
    calls: list[object] = []

    def counted(self: object, *arguments: str, **_: object) -> Done:
        calls.append(arguments)
        return Done(1, b"", "")

    monkeypatch.setattr("conductor.git.run.Git.run", counted)
    assert worktrees.remote_head("main") == head
    assert not calls


def test_packed_refs_of_a_folder_are_found_too(repo: Path, remote: Path, worktrees: GitWorktrees) -> None:
    git(remote, "pack-refs", "--all")
    assert not (remote / "refs" / "heads" / "main").exists()
    assert worktrees.remote_head("main") == git(repo, "rev-parse", "main")


@pytest.mark.parametrize("form", ["file://{}", "{}/", "../remote.git"])
def test_other_ways_to_write_the_folder_work(form: str, repo: Path, remote: Path, worktrees: GitWorktrees) -> None:
    assert worktrees.remote_head("main")
    git(repo, "remote", "set-url", "origin", form.format(remote))
    assert worktrees.remote_head("main") == git(repo, "rev-parse", "main")


def test_a_remote_that_does_not_answer_is_never_an_absent_branch(
    repo: Path, remote: Path, worktrees: GitWorktrees
) -> None:
    remote.rename(remote.with_name("gone"))
    with pytest.raises(Unavailable, match="does not answer"):
        worktrees.remote_head("main")


def test_a_commit_that_is_not_here_is_fetched_and_kept(
    repo: Path, remote: Path, tmp_path: Path, worktrees: GitWorktrees
) -> None:
    sha = pushed(remote, tmp_path / "other")
    ref = worktrees.keep(sha, "pr-7/cycle 1")
    assert ref == "refs/taskmaestro/backup/pr-7-cycle-1"
    assert git(repo, "rev-parse", ref) == sha


def test_an_older_backup_is_never_overwritten(repo: Path, worktrees: GitWorktrees) -> None:
    first = git(repo, "rev-parse", "HEAD")
    second = commit_file(repo, "b.txt", "b")
    ref = worktrees.keep(first, "x")
    assert worktrees.keep(first, "x") == ref
    other = worktrees.keep(second, "x")
    assert other == f"{ref}-{second[:12]}"
    assert (git(repo, "rev-parse", ref), git(repo, "rev-parse", other)) == (first, second)


def test_a_commit_that_only_another_worktree_made_is_kept(repo: Path, worktrees: GitWorktrees) -> None:
    made = worktrees.add(1, "x")
    git(made.path, "switch", "-q", "--detach")
    sha = commit_file(made.path, "w.txt", "w")
    assert git(repo, "rev-parse", worktrees.keep(sha, "n")) == sha


def test_a_commit_that_is_nowhere_is_said_to_be_refused(worktrees: GitWorktrees) -> None:
    with pytest.raises(NotSo, match="fetching it from origin failed") as fault:
        worktrees.keep("1" * 40, "x")
    assert "push it to a branch" in fault.value.hint


def test_a_commit_that_cannot_be_asked_for_is_unavailable(remote: Path, worktrees: GitWorktrees) -> None:
    remote.rename(remote.with_name("gone"))
    with pytest.raises(Unavailable):
        worktrees.keep("1" * 40, "x")


def test_commits_ahead_takes_commits_and_branches(
    repo: Path, remote: Path, tmp_path: Path, worktrees: GitWorktrees
) -> None:
    sha = pushed(remote, tmp_path / "other")
    assert worktrees.commits_ahead(sha, "main") == 1
    assert worktrees.commits_ahead("main", sha) == 0
    pushed(remote, tmp_path / "third", "late")
    assert worktrees.commits_ahead("late", "main") == 1
    with pytest.raises(BadInput):
        worktrees.commits_ahead("--all", "main")


def test_committed_files_include_what_a_later_commit_deleted(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "switch", "-q", "-c", "x")
    commit_file(repo, "RESULT.json", "{}")
    commit_file(repo, "ä b.txt", "x")
    git(repo, "rm", "-q", "--cached", "RESULT.json")
    git(repo, "commit", "-q", "-m", "out")
    assert worktrees.files_committed("x", "main") == ("RESULT.json", "ä b.txt")
