"""Clean-up never loses work: what is at risk, what refuses, what is kept, and that it may be repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.git import places, recovery
from conductor.git.repository import Repository
from conductor.git.worktrees import GitWorktrees
from conductor.ports import AtRisk, Worktree
from schemas.config import Config
from schemas.errors import NotSo
from tests.support.repos import clone, commit_file, git, make_repository


@pytest.fixture
def wt(worktrees: GitWorktrees) -> Worktree:
    return worktrees.add(1, "tm/one")


def blob(repo: Path, ref: str, path: str) -> str:
    return git(repo, "show", f"{ref}:{path}")


def refused(worktrees: GitWorktrees, *told: str) -> None:
    """A clean-up without force refuses, names all of ``told`` and touches nothing."""
    with pytest.raises(NotSo) as fault:
        worktrees.remove(1, force=False)
    for text in told:
        assert text in fault.value.what
    assert worktrees.find(1)


# --- what is at risk ---


def test_a_clean_worktree_goes_with_its_branch(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    (wt.path / "RESULT.json").write_text("{}")
    (wt.path / "TASK.md").write_text("x")
    assert worktrees.at_risk(1) == AtRisk()
    assert worktrees.remove(1, force=False) is None
    assert not wt.path.exists()
    assert git(repo, "for-each-ref", "refs/heads/tm", "refs/taskmaestro") == ""
    assert worktrees.remove(1, force=False) is None


def test_uncommitted_work_of_each_kind_is_listed(worktrees: GitWorktrees, wt: Worktree) -> None:
    (wt.path / "README.md").write_text("changed")
    (wt.path / "staged.txt").write_text("s")
    git(wt.path, "add", "staged.txt")
    (wt.path / "new ä\n.txt").write_text("u")
    risk = worktrees.at_risk(1)
    assert risk.uncommitted == (".M README.md", "A. staged.txt")
    assert risk.untracked == ("'new ä\\n.txt'",)
    refused(worktrees, "uncommitted: .M README.md", "staged.txt", "untracked")


def test_files_that_are_hidden_from_status_are_seen(worktrees: GitWorktrees, wt: Worktree) -> None:
    git(wt.path, "update-index", "--assume-unchanged", "README.md")
    (wt.path / "README.md").write_text("local settings")
    assert git(wt.path, "status", "--porcelain") == ""
    assert worktrees.at_risk(1).uncommitted == (".M README.md",)
    git(wt.path, "update-index", "--no-assume-unchanged", "--skip-worktree", "README.md")
    assert worktrees.at_risk(1).uncommitted == (".M README.md",)


def test_a_change_within_the_tick_of_the_indexs_writing_is_seen(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    git(wt.path, "config", "core.trustctime", "false")
    git(wt.path, "config", "core.checkStat", "minimal")
    file, index, tick = (
        wt.path / "README.md",
        repo / ".git" / "worktrees" / "wt-1" / "index",
        (10**18, 10**18),
    )
    size = file.stat().st_size
    os.utime(file, ns=tick)
    git(wt.path, "update-index", "--refresh")
    os.utime(index, ns=tick)
    file.write_text("x" * size)
    os.utime(file, ns=tick)
    assert worktrees.at_risk(1).uncommitted == (".M README.md",)


def test_a_users_setting_that_hides_untracked_files_is_overruled(worktrees: GitWorktrees, wt: Worktree) -> None:
    git(wt.path, "config", "status.showUntrackedFiles", "no")
    (wt.path / "new.txt").write_text("x")
    assert worktrees.at_risk(1).untracked == ("new.txt",)


def test_precious_ignored_files_are_listed_also_inside_ignored_folders(repo: Path, worktrees: GitWorktrees) -> None:
    commit_file(repo, ".gitignore", ".env*\nbuild/\nnode_modules/\n*.log\n")
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "x")
    for name in (".env", "app/.env.local", "build/deep/.env", "build/out.o", "node_modules/a/.env", "x.log"):
        (wt.path / name).parent.mkdir(parents=True, exist_ok=True)
        (wt.path / name).write_text("s3cret")
    (wt.path / ".envs").mkdir()
    (wt.path / ".envs" / "prod").write_text("p")
    (wt.path / ".env-python" / "lib").mkdir(parents=True)
    (wt.path / ".env-python" / "pyvenv.cfg").write_text("home = /usr")
    (wt.path / ".env-python" / "lib" / "x.py").write_text("x")
    found = (".env", ".envs/prod", "app/.env.local", "build/deep/.env")
    assert worktrees.at_risk(1) == AtRisk(precious=found)
    more = GitWorktrees(repo, Config(precious=("*.log", "/build/out.o")))
    assert more.at_risk(1).precious == ("build/out.o", "x.log")


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (("merge", "other"), "merge in progress"),
        (("rebase", "other"), "rebase in progress"),
        (("cherry-pick", "other"), "cherry-pick in progress"),
        (("bisect", "start"), "bisect in progress"),
    ],
)
def test_an_unfinished_operation_is_listed(
    start: tuple[str, ...], told: str, repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    git(repo, "switch", "-q", "-c", "other")
    commit_file(repo, "README.md", "other")
    mine = commit_file(wt.path, "README.md", "mine")
    git(wt.path, "push", "-q", "origin", "tm/one")
    with pytest.raises(AssertionError) if start[0] != "bisect" else _nothing():
        git(wt.path, *start)
    assert told in worktrees.at_risk(1).uncommitted
    refused(worktrees, told)
    ref = worktrees.remove(1, force=True)
    assert ref
    kept = git(repo, "rev-list", ref).split()
    assert mine in kept, "the branch's own commit is kept, also from under a rebase"


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_both_sides_of_a_conflict_are_kept(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    git(repo, "switch", "-q", "-c", "other")
    commit_file(repo, "README.md", "other")
    commit_file(wt.path, "README.md", "mine")
    with pytest.raises(AssertionError):
        git(wt.path, "merge", "other")
    (wt.path / "README.md").write_text("half resolved")
    assert any(line.startswith("UU") for line in worktrees.at_risk(1).uncommitted)
    ref = worktrees.remove(1, force=True)
    assert ref
    assert blob(repo, ref, "README.md") == "half resolved"
    assert blob(repo, f"{ref}^2", ".taskmaestro-conflict/2/README.md") == "mine"
    assert blob(repo, f"{ref}^2", ".taskmaestro-conflict/3/README.md") == "other"
    assert git(repo, "rev-parse", "other") in git(repo, "rev-list", ref).split()


def test_a_stash_made_on_the_branch_is_listed_and_others_are_not(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    (repo / "README.md").write_text("main's")
    git(repo, "stash")
    assert not worktrees.at_risk(1).any
    (wt.path / "README.md").write_text("stashed")
    git(wt.path, "stash", "push", "-m", "later: maybe")
    assert worktrees.at_risk(1).uncommitted == ("stash@{0} On tm/one: later: maybe",)
    ref = worktrees.remove(1, force=True)
    assert ref
    git(repo, "stash", "clear")
    assert "stashed" in [blob(repo, sha, "README.md") for sha in git(repo, "rev-list", ref).split()]


# --- unpushed, merged ---


def test_unpushed_commits_are_listed_until_they_are_pushed(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    sha = commit_file(wt.path, "w.txt", "w", "Work \x1b[31m on it")
    assert worktrees.at_risk(1).unpushed == (f"tm/one: {sha[:12]} Work [31m on it",)
    refused(worktrees, "not pushed", sha[:12])
    git(wt.path, "push", "-q", "origin", "HEAD:refs/heads/elsewhere")
    assert not worktrees.at_risk(1).any
    assert worktrees.remove(1, force=False) is None
    assert git(repo, "branch", "--list", "tm/one") == ""


def test_a_remote_branch_that_was_deleted_there_does_not_count_as_pushed(
    remote: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    commit_file(wt.path, "w.txt", "w")
    git(wt.path, "push", "-q", "origin", "tm/one")
    git(remote, "branch", "-D", "tm/one")
    assert len(worktrees.at_risk(1).unpushed) == 1


def test_offline_the_last_known_remote_branches_count(remote: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    commit_file(wt.path, "w.txt", "w")
    git(wt.path, "push", "-q", "origin", "tm/one")
    remote.rename(remote.with_name("gone"))
    assert not worktrees.at_risk(1).any
    commit_file(wt.path, "v.txt", "v")
    assert len(worktrees.at_risk(1).unpushed) == 1


def merge_on_forge(remote: Path, folder: Path, *, squash: bool, before: bool, after: bool) -> None:
    """What a forge does on merging ``tm/one``: onto a base that moved before, and moves on after."""
    other = clone(remote, folder)
    if before:
        commit_file(other, "w.txt", "".join(f"{n}\n" for n in range(40)) + "base end\n")
    if squash:
        git(other, "merge", "-q", "--squash", "origin/tm/one")
        git(other, "commit", "-q", "-m", "Squashed (#1)")
    else:
        fork = git(other, "merge-base", "main", "origin/tm/one")
        git(other, "cherry-pick", f"{fork}..origin/tm/one")
    if after:
        commit_file(other, "w.txt", "all rewritten\n")
    git(other, "push", "-q", "origin", "main")
    git(other, "push", "-q", "origin", ":tm/one")


@pytest.mark.parametrize("squash", [True, False])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_squashed_or_rebased_work_counts_as_merged_though_the_base_moved_on(
    squash: bool, before: bool, after: bool,
    repo: Path, remote: Path, tmp_path: Path, worktrees: GitWorktrees,
) -> None:  # fmt: skip
    text = "".join(f"{n}\n" for n in range(40))
    commit_file(repo, "w.txt", text)
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "tm/one")
    commit_file(wt.path, "w.txt", "first\n" + text)
    commit_file(wt.path, "w.txt", "first\nsecond\n" + text)
    git(wt.path, "push", "-q", "origin", "tm/one")
    merge_on_forge(remote, tmp_path / "forge", squash=squash, before=before, after=after)
    assert worktrees.at_risk(1) == AtRisk()
    assert worktrees.remove(1, force=False) is None
    assert git(repo, "branch", "--list", "tm/one") == ""


def test_a_squash_beside_a_change_of_the_base_counts_as_merged(
    repo: Path, remote: Path, tmp_path: Path, worktrees: GitWorktrees
) -> None:
    lines = [f"{n}\n" for n in range(9)]
    commit_file(repo, "w.txt", "".join(lines))
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "tm/one")
    commit_file(wt.path, "w.txt", "".join(["mine\n", *lines[1:]]))
    git(wt.path, "push", "-q", "origin", "tm/one")
    other = clone(remote, tmp_path / "forge")
    commit_file(other, "w.txt", "".join([*lines[:2], "base\n", *lines[3:]]))
    git(other, "merge", "-q", "--squash", "origin/tm/one")
    git(other, "commit", "-q", "-m", "Squashed (#1)")
    git(other, "push", "-q", "origin", "main", ":tm/one")
    assert worktrees.at_risk(1) == AtRisk()


def test_work_on_top_of_what_was_squashed_is_still_at_risk(
    remote: Path, tmp_path: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    commit_file(wt.path, "w.txt", "1\n")
    commit_file(wt.path, "w.txt", "1\n2\n")
    git(wt.path, "push", "-q", "origin", "tm/one")
    merge_on_forge(remote, tmp_path / "forge", squash=True, before=False, after=True)
    late = commit_file(wt.path, "late.txt", "late")
    assert [line.split()[1] for line in worktrees.at_risk(1).unpushed] == [late[:12]]


def test_work_that_undoes_itself_is_not_taken_for_merged(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    commit_file(wt.path, "w.txt", "w")
    git(wt.path, "revert", "--no-edit", "HEAD")
    commit_file(repo, "base.txt", "x")
    git(repo, "push", "-q", "origin", "main")
    assert len(worktrees.at_risk(1).unpushed) == 2


def test_without_a_remote_the_default_branch_alone_counts(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "r")
    worktrees = GitWorktrees(repo, Config(default_branch="main"))
    wt = worktrees.add(1, "x")
    commit_file(wt.path, "w.txt", "w")
    assert len(worktrees.at_risk(1).unpushed) == 1
    git(repo, "merge", "-q", "x")
    assert not worktrees.at_risk(1).any


def test_a_detached_head_is_at_risk_and_kept(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    git(wt.path, "switch", "-q", "--detach")
    sha = commit_file(wt.path, "w.txt", "w")
    assert worktrees.at_risk(1).unpushed == (f"{sha[:12]} Write w.txt",)
    ref = worktrees.remove(1, force=True)
    assert ref
    assert git(repo, "rev-parse", f"{ref}^1") == sha
    assert git(repo, "branch", "--list", "tm/one") != "", "a branch that it was not on is not its own to delete"


# --- force ---


def test_force_keeps_everything_and_says_where(repo: Path, worktrees: GitWorktrees) -> None:
    commit_file(repo, ".gitignore", ".env\n")
    commit_file(repo, "run.sh", "#!/bin/sh\n")
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "tm/one")
    head = commit_file(wt.path, "w.txt", "w")
    (wt.path / "w.txt").write_text("in the index")
    git(wt.path, "add", "w.txt")
    (wt.path / "w.txt").write_text("on disk")
    (wt.path / ".env").write_text("KEY=1")
    (wt.path / 'dir \n"q" ä').mkdir()
    (wt.path / 'dir \n"q" ä' / "-x\t\\.bin").write_bytes(bytes(range(256)))
    (wt.path / "link").symlink_to("/nowhere\nat all")
    (wt.path / "run.sh").chmod(0o755)
    (wt.path / "README.md").unlink()
    ref = worktrees.remove(1, force=True)
    assert ref is not None
    assert ref.startswith("refs/taskmaestro/recovery/wt-1/2")
    assert git(repo, "rev-parse", f"{ref}^1") == head
    assert blob(repo, f"{ref}^2", "w.txt") == "in the index"
    rescued = repo.parent / "rescued"
    git(repo, "worktree", "add", "-q", "--detach", str(rescued), ref)
    assert (rescued / "w.txt").read_text() == "on disk"
    assert (rescued / ".env").read_text() == "KEY=1"
    assert (rescued / 'dir \n"q" ä' / "-x\t\\.bin").read_bytes() == bytes(range(256))
    assert str((rescued / "link").readlink()) == "/nowhere\nat all"
    assert os.access(rescued / "run.sh", os.X_OK)
    assert not (rescued / "README.md").exists()
    assert not wt.path.exists()


def test_keeping_leaves_index_and_files_as_they_were(
    repo: Path, worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wt.path / "README.md").write_text("x")
    (wt.path / "new.txt").write_text("x")
    index = repo / ".git" / "worktrees" / "wt-1" / "index"
    status = git(wt.path, "status", "--porcelain")
    before = index.read_bytes(), index.stat().st_mtime_ns

    def stop(*_: object) -> None:
        raise NotSo("stopped here")

    monkeypatch.setattr(places, "take_away", stop)
    with pytest.raises(NotSo, match="stopped here"):
        worktrees.remove(1, force=True)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    assert git(wt.path, "status", "--porcelain") == status


def test_bytes_are_kept_as_they_are_whatever_the_filters_say(
    repo: Path, tmp_path: Path, worktrees: GitWorktrees
) -> None:
    commit_file(repo, ".gitattributes", "* text=auto\n*.up filter=up\n")
    git(repo, "push", "-q", "origin", "main")
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    wt = worktrees.add(1, "x")
    (wt.path / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (wt.path / "a.up").write_bytes(b"lower")
    ref = worktrees.remove(1, force=True)
    assert ref
    for name, data in (("crlf.txt", b"one\r\ntwo\r\n"), ("a.up", b"lower")):
        (tmp_path / "copy").write_bytes(data)
        assert git(repo, "rev-parse", f"{ref}:{name}") == git(tmp_path, "hash-object", "--no-filters", "copy")


def test_a_missing_git_identity_does_not_stop_it(
    worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git(wt.path, "config", "user.useConfigOnly", "true")
    (wt.path / "new.txt").write_text("x")
    assert worktrees.remove(1, force=True)


def test_a_file_that_took_a_folders_place_and_the_other_way_round(repo: Path, worktrees: GitWorktrees) -> None:
    commit_file(repo, "a", "file")
    commit_file(repo, "d/x", "inner")
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "x")
    (wt.path / "a").unlink()
    (wt.path / "a").mkdir()
    (wt.path / "a" / "b").write_text("now a folder")
    places.delete(wt.path / "d")
    (wt.path / "d").write_text("now a file")
    ref = worktrees.remove(1, force=True)
    assert ref
    assert blob(repo, ref, "a/b") == "now a folder"
    assert blob(repo, ref, "d") == "now a file"


def test_a_huge_file_is_kept(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    git(wt.path, "config", "core.bigFileThreshold", "1m")
    with (wt.path / "huge.bin").open("wb") as file:
        file.write(b"start")
        file.truncate(30_000_000)
    ref = worktrees.remove(1, force=True)
    assert ref
    assert git(repo, "cat-file", "-s", f"{ref}:huge.bin") == "30000000"


# --- what cannot be kept ---


@pytest.mark.parametrize("ignored", [True, False])
def test_a_repository_inside_is_never_removed(ignored: bool, repo: Path, worktrees: GitWorktrees) -> None:
    commit_file(repo, ".gitignore", "deps/\n" if ignored else "other/\n")
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "x")
    make_repository(wt.path / "deps" / "inner", commits=2)
    for force in (False, True):
        with pytest.raises(NotSo, match="deps/inner/ is a git repository of its own"):
            worktrees.remove(1, force=force)
    assert (wt.path / "deps" / "inner" / "file-2.txt").exists()
    assert git(repo, "for-each-ref", "refs/taskmaestro") == ""


@pytest.fixture
def submodule(repo: Path, tmp_path: Path, worktrees: GitWorktrees) -> Path:
    """A checked-out submodule in worktree 1."""
    allow = ("-c", "protocol.file.allow=always", "submodule", "--quiet")
    library = make_repository(tmp_path / "library")
    git(repo, *allow, "add", str(library), "lib")
    git(repo, "commit", "-q", "-m", "lib")
    git(repo, "push", "-q", "origin", "main")
    wt = worktrees.add(1, "x")
    git(wt.path, *allow, "update", "--init")
    return wt.path / "lib"


def test_a_clean_submodule_does_not_stop_the_removal(worktrees: GitWorktrees, submodule: Path) -> None:
    assert not worktrees.at_risk(1).any
    assert worktrees.remove(1, force=False) is None
    assert not submodule.exists()


@pytest.mark.parametrize(
    ("soil", "told"),
    [
        (lambda sub: (sub / "README.md").write_text("x"), "submodule lib: uncommitted work"),
        (lambda sub: (sub / "new.txt").write_text("x"), "submodule lib: uncommitted work"),
        (lambda sub: commit_file(sub, "c.txt", "c"), "on none of its remotes"),
    ],
)
def test_work_in_a_submodule_is_never_removed(
    soil: Callable[[Path], object], told: str, worktrees: GitWorktrees, submodule: Path
) -> None:
    soil(submodule)
    for force in (False, True):
        with pytest.raises(NotSo, match=told):
            worktrees.remove(1, force=force)
    assert submodule.exists()


def test_a_file_that_changes_while_it_is_kept_stops_the_removal(
    repo: Path, worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wt.path / "new.txt").write_text("before")
    real = recovery._tree

    def slow(*arguments: object) -> str:
        (wt.path / "new.txt").write_text("after!")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(recovery, "_tree", slow)
    with pytest.raises(NotSo, match="changed while it was being kept"):
        worktrees.remove(1, force=True)
    assert (wt.path / "new.txt").read_text() == "after!"
    assert git(repo, "for-each-ref", "refs/taskmaestro") == ""


def test_a_file_that_cannot_be_read_stops_the_removal(
    worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = wt.path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        # A superuser reads everything: let git's own words for it arrive another way.
        real = worktrees.repository.git.run

        def run(*arguments: str, **options: object) -> object:
            if "hash-object" in arguments and "--stdin-paths" in arguments:
                options["data"] = str(options["data"], "ascii").replace("secret", "no/such").encode()  # type: ignore[call-overload]
            return real(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(worktrees.repository.git, "run", run)
    with pytest.raises(NotSo, match="was not removed, because this cannot be kept"):
        worktrees.remove(1, force=True)
    assert secret.exists()


def test_a_folder_that_git_could_only_warn_about_stops_the_removal() -> None:
    from conductor.git.dirt import _unreadable
    from conductor.git.run import Done

    told = "warning: could not open directory 'private/': Permission denied\n"
    assert _unreadable(Done(0, b"", told)) == [f"cannot be read: {told.strip()}"]


def test_a_locked_worktree_is_not_removed(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    git(repo, "worktree", "lock", str(wt.path))
    with pytest.raises(NotSo, match="locked"):
        worktrees.remove(1, force=True)
    assert wt.path.exists()


# --- crashes ---


@pytest.mark.parametrize("step", ["keep_all", "take_away", "drop_branch"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_between_any_two_steps_leaves_it_repeatable(
    step: str, when: str, repo: Path, worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    owner, name = {
        "keep_all": (recovery, "keep_all"),
        "take_away": (places, "take_away"),
        "drop_branch": (GitWorktrees, "_drop_branch"),
    }[step]
    real = getattr(owner, name)

    def crash(*arguments: object) -> None:
        if when == "after":
            real(*arguments)
        raise Crash

    (wt.path / "new.txt").write_text("new")
    sha = commit_file(wt.path, "w.txt", "w")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crash)
        with pytest.raises(Crash):
            worktrees.remove(1, force=True)
    ref = worktrees.remove(1, force=True)
    assert ref is not None
    assert blob(repo, ref, "new.txt") == "new"
    assert git(repo, "rev-parse", f"{ref}^1") == sha
    assert not wt.path.exists()
    assert git(repo, "branch", "--list", "tm/one") == ""
    assert not list((worktrees.root / ".taskmaestro" / "state").glob("removing-*"))


def test_a_read_only_folder_is_removed_too(worktrees: GitWorktrees, wt: Worktree) -> None:
    (wt.path / "read only").mkdir()
    (wt.path / "read only" / "x").write_text("x")
    (wt.path / "read only").chmod(0o500)
    assert worktrees.remove(1, force=True)
    assert not wt.path.exists()


def test_a_folder_that_git_removed_only_in_part_is_finished(
    worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wt.path / "new.txt").write_text("x")

    def partly(repository: Repository, path: Path) -> None:
        # What git leaves where it could not delete a file: its record is gone, the folder is there.
        path.rename(path.with_name("aside"))
        places.forget(repository, path)
        path.with_name("aside").rename(path)
        raise NotSo("cannot be deleted")

    with monkeypatch.context() as patch:
        patch.setattr(places, "take_away", partly)
        with pytest.raises(NotSo, match="cannot be deleted"):
            worktrees.remove(1, force=True)
    assert (wt.path / "new.txt").exists()
    assert worktrees.remove(1, force=True)
    assert not wt.path.exists()


def test_another_folder_in_its_place_is_not_taken_for_the_rest_of_it(
    worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wt.path / "new.txt").write_text("x")

    def stop(*_: object) -> None:
        raise NotSo("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(GitWorktrees, "_drop_branch", stop)
        with pytest.raises(NotSo, match="stopped"):
            worktrees.remove(1, force=True)
    wt.path.mkdir()
    (wt.path / "notes.txt").write_text("somebody's")
    with pytest.raises(NotSo, match="no worktree of"):
        worktrees.remove(1, force=True)
    assert (wt.path / "notes.txt").exists()


def test_a_branch_without_commits_is_kept_too(repo: Path, worktrees: GitWorktrees, wt: Worktree) -> None:
    git(wt.path, "switch", "-q", "--orphan", "fresh")
    (wt.path / "first.txt").write_text("first")
    git(wt.path, "add", "first.txt")
    ref = worktrees.remove(1, force=True)
    assert ref
    assert blob(repo, ref, "first.txt") == "first"


def test_a_worktree_whose_folder_is_gone_is_cleaned_up_by_its_commits(
    repo: Path, worktrees: GitWorktrees, wt: Worktree
) -> None:
    sha = commit_file(wt.path, "w.txt", "w")
    places.delete(wt.path)
    assert len(worktrees.at_risk(1).unpushed) == 1
    with pytest.raises(NotSo):
        worktrees.remove(1, force=False)
    ref = worktrees.remove(1, force=True)
    assert ref
    assert git(repo, "rev-parse", ref) == sha
    assert str(wt.path) not in git(repo, "worktree", "list")


def test_the_default_branch_is_never_deleted(repo: Path, worktrees: GitWorktrees) -> None:
    git(repo, "switch", "-q", "-c", "side")
    worktrees.add(1, "main")
    worktrees.remove(1, force=True)
    assert git(repo, "branch", "--list", "main") != ""


def test_a_branch_that_moved_meanwhile_is_kept(
    repo: Path, worktrees: GitWorktrees, wt: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = places.take_away

    def move(*arguments: object) -> None:
        real(*arguments)  # type: ignore[arg-type]
        git(repo, "update-ref", "refs/heads/tm/one", commit_file(repo, "m.txt", "m"))

    monkeypatch.setattr(places, "take_away", move)
    worktrees.remove(1, force=False)
    assert git(repo, "branch", "--list", "tm/one") != ""
