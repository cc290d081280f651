"""Making worktrees: where they start, what is taken up again, what is refused and how it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from conductor.git import places
from conductor.git.run import safe_name, valid_branch
from conductor.git.worktrees import GitWorktrees
from schemas.config import Config
from schemas.errors import BadInput, NotSo, StillPending, Unavailable
from tests.support.repos import clone, commit_file, git, make_remote, make_repository


def test_a_worktree_starts_from_what_somebody_has_just_pushed(
    repo: Path, remote: Path, tmp_path: Path, worktrees: GitWorktrees
) -> None:
    other = clone(remote, tmp_path / "other")
    newest = commit_file(other, "new.txt", "new")
    git(other, "push", "--quiet", "origin", "main")
    made = worktrees.add(1, "tm/one")
    assert (made.index, made.branch, made.head) == (1, "tm/one", newest)
    assert made.path == Path(os.path.realpath(repo)) / ".taskmaestro" / "wt-1"
    assert (made.path / "new.txt").read_text() == "new"


def test_it_works_offline_from_what_was_fetched_last(repo: Path, remote: Path, worktrees: GitWorktrees) -> None:
    remote.rename(remote.with_name("gone.git"))
    told = worktrees.fetch()
    assert told is not None
    assert "remote.git" in told
    assert worktrees.add(1, "tm/one").head == git(repo, "rev-parse", "main")


def test_it_works_without_any_remote(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "alone")
    worktrees = GitWorktrees(repo, Config())
    assert worktrees.fetch() is None
    assert worktrees.default_branch() == "main"
    assert worktrees.add(2, "x").head == git(repo, "rev-parse", "main")
    assert worktrees.remote_head("x") is None


def test_adding_again_answers_the_same_worktree(worktrees: GitWorktrees) -> None:
    first = worktrees.add(1, "tm/one")
    (first.path / "work.txt").write_text("mine")
    assert worktrees.add(1, "tm/one") == first
    assert (first.path / "work.txt").read_text() == "mine"


def test_all_lists_ours_by_index_and_nobody_elses(repo: Path, tmp_path: Path, worktrees: GitWorktrees) -> None:
    git(repo, "worktree", "add", "-q", "-b", "theirs", str(tmp_path / "wt-7"))
    worktrees.add(10, "ten")
    worktrees.add(2, "two")
    assert [found.index for found in worktrees.all()] == [2, 10]
    assert worktrees.find(7) is None


def test_files_of_the_conductor_do_not_show_in_any_status(repo: Path, worktrees: GitWorktrees) -> None:
    made = worktrees.add(1, "tm/one")
    (made.path / "RESULT.json").write_text("{}")
    (made.path / "TASK.md").write_text("do")
    assert git(made.path, "status", "--porcelain") == ""
    assert git(repo, "status", "--porcelain") == ""


# --- default branch ---


def test_the_default_branch_is_the_configured_one(repo: Path) -> None:
    git(repo, "branch", "develop")
    assert GitWorktrees(repo, Config(default_branch="develop")).default_branch() == "develop"
    with pytest.raises(NotSo, match="nowhere is neither in"):
        GitWorktrees(repo, Config(default_branch="nowhere")).default_branch()


def test_the_default_branch_is_the_remotes_head(repo: Path, remote: Path, worktrees: GitWorktrees) -> None:
    git(repo, "branch", "trunk")
    git(repo, "push", "-q", "origin", "trunk")
    git(remote, "symbolic-ref", "HEAD", "refs/heads/trunk")
    assert worktrees.default_branch() == "trunk"
    git(repo, "remote", "set-head", "origin", "main")
    assert worktrees.default_branch() == "main"


def test_the_default_branch_is_init_default_branch_or_the_only_one(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "r")
    git(repo, "branch", "-m", "main", "stem")
    worktrees = GitWorktrees(repo, Config())
    assert worktrees.default_branch() == "stem"
    git(repo, "branch", "other")
    with pytest.raises(NotSo, match="other, stem") as fault:
        worktrees.default_branch()
    assert "default_branch =" in fault.value.hint
    git(repo, "config", "init.defaultBranch", "other")
    assert worktrees.default_branch() == "other"


# --- repositories that cannot be managed ---


def test_a_repository_without_commits_is_refused_with_the_next_step(tmp_path: Path) -> None:
    worktrees = GitWorktrees(make_repository(tmp_path / "r", commits=0), Config())
    with pytest.raises(NotSo, match="no commits yet") as fault:
        worktrees.add(1, "x")
    assert "first commit" in fault.value.hint


def test_bare_missing_inner_and_worker_folders_are_refused(
    repo: Path, remote: Path, tmp_path: Path, worktrees: GitWorktrees
) -> None:
    plain = tmp_path / "plain"
    (repo / "inner").mkdir()
    plain.mkdir()
    made = worktrees.add(1, "x")
    for folder, told in [
        (remote, "bare repository"),
        (plain, "not a git repository"),
        (tmp_path / "missing", "not a folder"),
        (repo / "inner", "lies inside the repository"),
        (made.path, "worker's own worktree"),
    ]:
        with pytest.raises(BadInput, match=told):
            GitWorktrees(folder, Config())


def test_a_linked_worktree_can_be_managed_like_any_other(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "side", str(linked))
    worktrees = GitWorktrees(linked, Config())
    made = worktrees.add(1, "tm/one")
    assert made.path.parent.parent == linked
    (made.path / "TASK.md").write_text("x")
    assert git(made.path, "status", "--porcelain") == ""


def test_variables_of_a_surrounding_git_process_do_not_lead_elsewhere(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "elsewhere", commits=3)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    worktrees = GitWorktrees(repo, Config())
    assert worktrees.add(1, "x").path.is_relative_to(os.path.realpath(repo))
    assert not worktrees.at_risk(1).any
    for name in ("GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert git(repo, "branch", "--list", "x") != ""
    assert git(other, "branch", "--list", "x") == ""


def test_without_git_it_says_what_is_missing(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unavailable, match="git was not found on PATH"):
        GitWorktrees(repo, Config())


# --- branches ---


@pytest.mark.parametrize("name", ["-x", "a b", "a..b", "a.lock", "", "HEAD", "a/", "/a", "a//b", "a~1", "a\nb"])
def test_a_branch_name_that_git_refuses_is_refused_here(name: str, worktrees: GitWorktrees) -> None:
    with pytest.raises(BadInput, match="not a branch's name"):
        worktrees.add(1, name)
    assert not (worktrees.root / ".taskmaestro" / "wt-1").exists()


@pytest.mark.parametrize("name", ["a", "tm/ä-1", "x'y", 'q"z', "a@b", "v1.2", "$(id)", "a;b", "#1"])
def test_branch_names_are_judged_as_git_does(name: str, repo: Path, worktrees: GitWorktrees) -> None:
    assert valid_branch(name)
    git(repo, "check-ref-format", f"refs/heads/{name}")
    assert worktrees.add(1, name).branch == name


def test_a_local_branch_with_work_is_taken_up_again(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "switch", "-q", "-c", "tm/one")
    head = commit_file(repo, "w.txt", "w")
    git(repo, "switch", "-q", "main")
    assert worktrees.add(1, "tm/one").head == head


def test_an_old_branch_without_work_of_its_own_starts_afresh(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "branch", "tm/one")
    newest = commit_file(repo, "later.txt", "x")
    git(repo, "push", "-q", "origin", "main")
    assert worktrees.add(1, "tm/one").head == newest


def test_a_branch_that_is_only_on_the_remote_is_taken_up(remote: Path, tmp_path: Path, worktrees: GitWorktrees) -> None:
    other = clone(remote, tmp_path / "other")
    git(other, "switch", "-q", "-c", "tm/one")
    head = commit_file(other, "w.txt", "w")
    git(other, "push", "-q", "origin", "tm/one")
    made = worktrees.add(1, "tm/one")
    assert (made.branch, made.head) == ("tm/one", head)


def test_a_branch_checked_out_elsewhere_is_refused_with_the_place(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "switch", "-q", "-c", "tm/one")
    with pytest.raises(NotSo, match="checked out in") as fault:
        worktrees.add(1, "tm/one")
    assert str(repo) in fault.value.what


def test_a_branch_whose_name_is_another_ones_folder_is_refused(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "branch", "a/b")
    with pytest.raises(NotSo, match="cannot be made beside a/b"):
        worktrees.add(1, "a")
    with pytest.raises(NotSo, match="cannot be made beside a/b"):
        worktrees.add(1, "a/b/c")


# --- leftovers ---


def test_a_folder_that_git_does_not_know_is_left_alone_and_explained(worktrees: GitWorktrees) -> None:
    path = worktrees.path_of(1)
    path.mkdir(parents=True)
    (path / "notes.txt").write_text("precious")
    for action in (lambda: worktrees.add(1, "x"), lambda: worktrees.at_risk(1)):
        with pytest.raises(NotSo, match="no worktree of"):
            action()
    assert (path / "notes.txt").read_text() == "precious"


def test_an_empty_folder_is_used(worktrees: GitWorktrees) -> None:
    worktrees.path_of(1).mkdir(parents=True)
    assert worktrees.add(1, "x").branch == "x"


def test_a_worktree_whose_folder_was_deleted_is_made_again(repo: Path, worktrees: GitWorktrees) -> None:
    made = worktrees.add(1, "x")
    other = worktrees.add(2, "y")
    head = commit_file(made.path, "w.txt", "w")
    for path in (made.path, other.path):
        git(repo, "worktree", "list")
        places.delete(path)
    assert worktrees.find(1) is None
    assert worktrees.add(1, "x").head == head
    assert str(other.path) in git(repo, "worktree", "list", "--porcelain"), "only ours is forgotten"


def test_a_worktree_that_lost_its_git_file_is_repaired(worktrees: GitWorktrees) -> None:
    made = worktrees.add(1, "x")
    (made.path / "mine.txt").write_text("mine")
    (made.path / ".git").unlink()
    assert worktrees.find(1) is None
    with pytest.raises(NotSo, match="not a working tree of its own"):
        worktrees.at_risk(1)
    assert worktrees.add(1, "x") == made
    assert (made.path / "mine.txt").read_text() == "mine"


def test_a_locked_worktree_is_explained(repo: Path, worktrees: GitWorktrees) -> None:
    made = worktrees.add(1, "x")
    git(repo, "worktree", "lock", "--reason", "on a stick", str(made.path))
    places.delete(made.path)
    with pytest.raises(NotSo, match=r"locked \(on a stick\)") as fault:
        worktrees.add(1, "x")
    assert "git worktree unlock" in fault.value.hint


def test_a_worktree_whose_making_was_killed_half_way_is_made_anew_and_nothing_deleted(
    repo: Path, worktrees: GitWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "HALF_MADE", 0.3)
    made = worktrees.add(1, "x")
    admin = repo / ".git" / "worktrees" / "wt-1"
    (admin / "index").unlink()
    (admin / "index.lock").write_text("")
    (admin / "locked").write_text("initializing")
    (made.path / "half.txt").write_text("half")
    again = worktrees.add(1, "x")
    assert again.branch == "x"
    assert git(again.path, "status", "--porcelain") == ""
    assert next(worktrees.root.glob(".taskmaestro/state/leftover/wt-1-*/half.txt")).read_text() == "half"


def test_a_failing_post_checkout_hook_does_not_lose_the_worktree(repo: Path, worktrees: GitWorktrees) -> None:
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexit 3\n")
    hook.chmod(0o755)
    assert worktrees.add(1, "x").branch == "x"


def test_a_content_filter_that_does_not_run_is_named_and_leaves_nothing(repo: Path, worktrees: GitWorktrees) -> None:
    commit_file(repo, ".gitattributes", "*.bin filter=lfs\n")
    commit_file(repo, "a.bin", "pointer")
    git(repo, "push", "-q", "origin", "main")
    git(repo, "config", "filter.lfs.smudge", "git-lfs-that-is-missing smudge -- %f")
    git(repo, "config", "filter.lfs.required", "true")
    with pytest.raises(NotSo, match="worktree failed") as fault:
        worktrees.add(1, "x")
    assert "git-lfs" in fault.value.hint
    assert not worktrees.path_of(1).exists()
    git(repo, "config", "--remove-section", "filter.lfs")
    assert worktrees.add(1, "x").branch == "x"
    assert any("git-lfs" in line for line in worktrees.notes(1))


# --- concurrency ---

ADD = """
import sys
from pathlib import Path
from conductor.git.worktrees import GitWorktrees
from schemas.config import Config
print(GitWorktrees(Path(sys.argv[1]), Config()).add(int(sys.argv[2]), "tm/" + sys.argv[2]).branch)
"""


def test_processes_that_add_at_once_all_get_theirs(repo: Path, worktrees: GitWorktrees) -> None:
    root = Path(__file__).parents[2]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", ADD, str(repo)]
    started = [subprocess.Popen([*command, number], cwd=root, **pipes) for number in ("1", "2", "3", "3")]
    answers = [process.communicate(timeout=60) for process in started]
    assert [out.strip() for out, _ in answers] == ["tm/1", "tm/2", "tm/3", "tm/3"], answers
    assert [found.index for found in worktrees.all()] == [1, 2, 3]


def test_a_worktree_that_another_git_process_is_just_making_is_waited_for(
    repo: Path, worktrees: GitWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    worktrees.add(1, "x")
    half = repo / ".git" / "worktrees" / "half"
    half.mkdir()
    (half / "gitdir").write_text("/elsewhere/.git\n")
    (half / "commondir").write_text("")
    monkeypatch.setattr("conductor.git.run.sleep", lambda _: (half / "commondir").write_text("../..\n"))
    assert [found.index for found in worktrees.all()] == [1]


def test_a_lock_of_another_git_process_is_waited_for(
    repo: Path, worktrees: GitWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = repo / ".git" / "refs" / "heads" / "x.lock"
    lock.write_text("")
    waited: list[float] = []

    def other_ends(seconds: float) -> None:
        waited.append(seconds)
        lock.unlink()

    monkeypatch.setattr("conductor.git.run.sleep", other_ends)
    assert worktrees.add(1, "x").branch == "x"
    assert len(waited) == 1


def test_a_lock_that_stays_is_explained_after_a_bounded_wait(
    repo: Path, worktrees: GitWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = repo / ".git" / "refs" / "heads" / "x.lock"
    lock.write_text("")
    monkeypatch.setattr("conductor.git.run.LOCK_WAIT", 0.1)
    with pytest.raises(Unavailable, match="another git process holds a lock") as fault:
        worktrees.add(1, "x")
    assert "delete the .lock file" in fault.value.hint
    lock.unlink()
    assert worktrees.add(1, "x").branch == "x"


def test_a_command_that_hangs_is_ended_with_all_its_children(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "config", "alias.hang", "!(trap '' TERM; sleep 54321; sleep 54321); true")
    with pytest.raises(Unavailable, match=r"did not end within 0\.3 s"):
        worktrees.repository.git.run("hang", timeout=0.3)
    left = [process for process in psutil.process_iter(["cmdline"]) if "54321" in (process.info["cmdline"] or [])]
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def test_a_worktree_on_which_another_process_works_is_not_touched(
    worktrees: GitWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    import filelock

    from conductor.git import worktrees as module

    monkeypatch.setattr(module, "LOCK_WAIT", 0.05)
    worktrees.add(1, "x")
    with (
        filelock.FileLock(worktrees.root / ".taskmaestro" / "state" / "wt-1.lock"),
        pytest.raises(StillPending, match="another process works on worktree wt-1"),
    ):
        worktrees.remove(1, force=True)
    assert worktrees.find(1)


def test_any_text_becomes_a_name() -> None:
    assert safe_name("pr 12/../ä;$(x).lock") == "pr-12-.-x"
    assert safe_name("...") == "unnamed"
    assert safe_name("-rf") == "rf"


def test_submodules_without_content_are_noted(repo: Path, tmp_path: Path, worktrees: GitWorktrees) -> None:
    library = make_repository(tmp_path / "library")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(repo, "commit", "-q", "-m", "lib")
    git(repo, "push", "-q", "origin", "main")
    worktrees.add(1, "x")
    assert worktrees.notes(1) == ("submodule lib is empty: git submodule update --init",)


def test_a_remote_under_another_name_is_used(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "r")
    make_remote(repo, tmp_path / "u.git", "upstream")
    worktrees = GitWorktrees(repo, Config(remote="upstream"))
    assert worktrees.remote_head("main") == git(repo, "rev-parse", "main")
