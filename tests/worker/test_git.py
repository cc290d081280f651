"""Questions to git, the private exclude list, and pushes that overwrite only what they name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas.errors import BadInput, NotSo, Unavailable
from tests.support.repos import commit_file, git, make_repository
from tests.worker.conftest import World
from worker.tools import git as g


def test_where_we_are(world: World) -> None:
    top, common = g.root_and_common_dir(world.tree)
    assert (top, common) == (world.tree, world.main / ".git")
    assert g.main_root(top, common) == world.main
    assert (g.worktree_index(world.tree), g.worktree_index(world.main)) == (1, None)
    assert g.current_branch(world.tree) == "issue-7"
    assert g.head(world.tree) == git(world.tree, "rev-parse", "HEAD")
    git(world.tree, "switch", "--quiet", "--detach")
    assert g.current_branch(world.tree) is None


def test_before_the_first_commit(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "r", commits=0)
    assert (g.head(root), g.current_branch(root), g.default_branch(root)) == (None, "main", None)
    (root / "a").write_text("x")
    git(root, "add", "a")
    assert g.staged_files(root) == ["a"]


def test_strange_names_come_back_as_they_are(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "-r o'o;t \u00fc")
    names = ["-dash", "a b", "\u00fcber", 'quo"te', "new\nline", "semi;colon", os.fsdecode(b"raw\xff")]
    for name in names:
        (root / name).write_text("x")
    git(root, "add", "--all")
    assert sorted(g.staged_files(root)) == sorted(names)
    git(root, "commit", "--quiet", "-m", "x")
    (root / "-dash").write_text("y")
    assert g.unstaged_files(root) == ["-dash"]
    assert g.is_dirty(root)


def test_staged_deletions_can_be_left_out(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "r")
    git(root, "rm", "--quiet", "README.md")
    assert (g.staged_files(root), g.staged_files(root, deleted=False)) == (["README.md"], [])


def test_a_repository_in_the_environment_is_not_taken_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert g.current_branch(world.tree) == "issue-7"


def test_failures_carry_gits_words(world: World) -> None:
    with pytest.raises(NotSo, match="bad revision"):
        g.git(["log", "no-such-thing", "--"], world.tree)
    assert g.resolve(world.tree, "--all") is None
    with pytest.raises(BadInput, match="no remote is called nowhere"):
        g.remote_head(world.tree, "nowhere", "x")


@pytest.mark.parametrize(
    ("path", "private"),
    [
        ("RESULT.json", True),
        ("TASK.md", True),
        (".taskmaestro/state/panes/1.json", True),
        (".taskmaestro/config.toml", False),
        ("src/.taskmaestro-12ab.tmp", True),
        ("docs/TASK.md", False),
        ("RESULT.json.md", False),
    ],
)
def test_what_is_private(path: str, private: bool) -> None:
    assert g.is_private(path) is private


def test_excludes_are_added_once_and_through_a_link(world: World, tmp_path: Path) -> None:
    exclude = world.main / ".git" / "info" / "exclude"
    own = tmp_path / "own-excludes"
    own.write_text("# mine\nTASK.md\n*.log")
    exclude.unlink()
    exclude.symlink_to(own)
    added = g.exclude_private(world.tree)
    assert "/TASK.md" not in added
    assert "/RESULT.json" in added
    assert exclude.is_symlink()
    assert own.read_text().startswith("# mine\nTASK.md\n*.log\n")
    assert "\n/RESULT.json\n" in own.read_text()
    assert g.exclude_private(world.main) == []


@pytest.fixture
def pushed(world: World) -> str:
    """The SHA of one commit of the worktree's branch that was pushed as a new branch."""
    sha = commit_file(world.tree, "a.txt", "1")
    assert g.push_with_lease(world.tree, "origin", world.branch, None).kind == "pushed"
    assert world.at_remote() == sha
    return sha


def amended(world: World) -> str:
    git(world.tree, "commit", "--quiet", "--amend", "-m", "Amended")
    return git(world.tree, "rev-parse", "HEAD")


def test_a_rewritten_commit_goes_over_the_head_that_the_lease_names(world: World, pushed: str) -> None:
    now = amended(world)
    outcome = g.push_with_lease(world.tree, "origin", world.branch, pushed)
    assert (outcome.kind, world.at_remote()) == ("pushed", now)
    assert g.push_with_lease(world.tree, "origin", world.branch, now).kind == "up_to_date"


def test_a_new_branch_does_not_overwrite_one_that_exists(world: World, pushed: str) -> None:
    amended(world)
    outcome = g.push_with_lease(world.tree, "origin", world.branch, None)
    assert outcome.kind == "rejected_lease"
    assert "expected no such branch" in outcome.text
    assert (world.at_remote(), outcome.remote_head) == (pushed, pushed)


@pytest.mark.parametrize("by_url", [False, True])
def test_a_lease_is_rejected_when_somebody_pushed_even_after_a_fetch(
    world: World, pushed: str, tmp_path: Path, by_url: bool
) -> None:
    theirs = world.colleague_pushes(tmp_path / "other")
    git(world.tree, "fetch", "--quiet")
    amended(world)
    remote = str(world.remote) if by_url else "origin"
    outcome = g.push_with_lease(world.tree, remote, world.branch, pushed)
    assert (outcome.kind, outcome.remote_head, world.at_remote()) == ("rejected_lease", theirs, theirs)


def test_a_commit_that_this_worktree_never_had_is_not_overwritten_even_if_named(
    world: World, pushed: str, tmp_path: Path
) -> None:
    theirs = world.colleague_pushes(tmp_path / "other")
    git(world.tree, "fetch", "--quiet")
    amended(world)
    outcome = g.push_with_lease(world.tree, "origin", world.branch, theirs)
    assert outcome.kind == "rejected_lease"
    assert "never contained" in outcome.text
    assert world.at_remote() == theirs


def test_a_deleted_branch_is_told_apart(world: World, pushed: str) -> None:
    git(world.remote, "update-ref", "-d", f"refs/heads/{world.branch}")
    amended(world)
    outcome = g.push_with_lease(world.tree, "origin", world.branch, pushed)
    assert outcome.kind == "deleted_remotely"
    assert "git push" in outcome.hint


def test_an_unreachable_remote_is_offline(world: World, pushed: str) -> None:
    world.remote.rename(world.remote.with_suffix(".away"))
    amended(world)
    assert g.push_with_lease(world.tree, "origin", world.branch, pushed).kind == "offline"
    with pytest.raises(Unavailable, match="cannot be reached"):
        g.remote_head(world.tree, "origin", world.branch)


def test_a_hook_that_refuses_on_the_remote_is_quoted(world: World, pushed: str) -> None:
    hook = world.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'signed commits only' >&2\nexit 1\n")
    hook.chmod(0o755)
    amended(world)
    outcome = g.push_with_lease(world.tree, "origin", world.branch, pushed)
    assert outcome.kind == "other"
    assert "pre-receive hook declined" in outcome.text
    assert "signed commits only" in outcome.hint


def test_a_tag_or_branch_with_a_confusing_name_is_no_trouble(world: World) -> None:
    git(world.tree, "switch", "--quiet", "-c", "heads/x")
    sha = commit_file(world.tree, "b.txt", "1")
    git(world.tree, "tag", "heads/x", "main")
    assert g.push_with_lease(world.tree, "origin", "heads/x", None).kind == "pushed"
    assert git(world.remote, "rev-parse", "refs/heads/heads/x") == sha
    assert g.remote_head(world.tree, "origin", "heads/x") == sha
    assert g.remote_head(world.tree, "origin", "x") is None
