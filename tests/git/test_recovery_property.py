"""Whatever lies in a worktree comes back from the recovery ref; and without force it stays."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conductor.git.places import delete
from conductor.git.worktrees import GitWorktrees
from schemas.config import Config
from schemas.errors import NotSo
from tests.support.repos import commit_file, git, make_repository

TRACKED = ("plain.txt", "dir/inner.txt", "run.sh", "sp ace/ü.txt")
IGNORED = (".env", ".env.local", "out/.env", "out/deep/.env.x")
NAMES = st.one_of(
    st.sampled_from([*TRACKED, *IGNORED, "dir", "out/object.o", "-rf", "new/a/b", "q\"uo'te", "t\tab", "\\", "*"]),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=8),
)
DATA = st.one_of(st.binary(max_size=60), st.sampled_from([b"", b"a\r\nb\r\n", b"same\n", b"\0\1", b"x" * 5000]))
STEP = st.one_of(
    st.tuples(st.just("write"), NAMES, DATA),
    st.tuples(st.just("run"), NAMES, DATA),
    st.tuples(st.just("link"), NAMES, st.binary(min_size=1, max_size=20).filter(lambda data: 0 not in data)),
    st.tuples(st.just("delete"), NAMES, st.just(b"")),
    st.tuples(st.just("stage"), st.just(""), st.just(b"")),
    st.tuples(st.just("hide"), st.sampled_from(TRACKED), st.just(b"")),
    st.tuples(st.just("commit"), st.just(""), st.just(b"")),
    st.tuples(st.just("detach"), st.just(""), st.just(b"")),
)
Content = tuple[str, bytes]


def do(folder: Path, verb: str, name: str, data: bytes) -> None:
    """One step of somebody's work; steps that the file system refuses do nothing."""
    path = folder / name
    match verb:
        case "stage":
            git(folder, "add", "-A")
        case "hide":
            if git(folder, "ls-files", "--", name):
                git(folder, "update-index", "--assume-unchanged", "--", name)
        case "commit":
            git(folder, "commit", "-q", "--allow-empty", "-a", "-m", "work")
        case "detach":
            git(folder, "switch", "-q", "--detach")
        case _ if Path(name).parts[:1] in ((".git",), ("..",), (".",), ("/",)) or ".git" in Path(name).parts:
            return
        case _:
            try:
                change(path, verb, data)
            except OSError:
                return


def change(path: Path, verb: str, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if verb == "delete" or path.is_symlink() or path.is_dir():
        delete(path)
    if verb == "link":
        path.symlink_to(os.fsdecode(data))
    elif verb != "delete":
        path.write_bytes(data)
        path.chmod(0o755 if verb == "run" else 0o644)


def content(folder: Path, tracked: set[str]) -> dict[str, Content]:
    """Path -> (kind, bytes) of what has to come back: all but ignored files that nobody called precious."""
    found: dict[str, Content] = {}
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in [*files, *(name for name in folders if (Path(where) / name).is_symlink())]:
            path = Path(where) / name
            key = str(path.relative_to(folder))
            rebuilt = key.startswith("out/") and not name.startswith(".env") and key not in tracked
            if name == ".git" or key in ("RESULT.json", "TASK.md") or rebuilt:
                continue
            if path.is_symlink():
                found[key] = ("link", os.fsencode(path.readlink()))
            else:
                found[key] = (
                    "run" if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else "file",
                    path.read_bytes(),
                )
    return found


def committed(folder: Path, name: str, kept: Content) -> Content:
    """The content; of a file that is committed with other line ends, by the attributes, what the commit has."""
    kind, data = kept
    if kind == "link" or b"\r" not in data:
        return kept
    clean = git(folder, "hash-object", "--path", name, "--", name)
    if clean == git(folder, "hash-object", "--no-filters", "--", name):
        return kept
    if clean not in git(folder, "ls-tree", "HEAD", "--", f":(literal){name}").split():
        return kept
    return kind, data.replace(b"\r\n", b"\n")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repo = make_repository(tmp_path_factory.mktemp("template") / "repo")
    for name in TRACKED:
        commit_file(repo, name, "same\n")
    commit_file(repo, ".gitignore", ".env*\nout/\n")
    commit_file(repo, ".gitattributes", "*.txt text=auto\n")
    return repo


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(steps=[("delete", "plain.txt", b""), ("hide", "plain.txt", b"")])
@example(steps=[("hide", "plain.txt", b""), ("write", "plain.txt", b"mine"), ("write", "out/.env", b"k=1")])
@example(steps=[("write", "plain.txt", b"a\r\nb\r\n"), ("commit", "", b"")])
@example(steps=[("write", "run.sh", b"a\r\nb\r\n"), ("commit", "", b"")])
@example(steps=[("write", "plain.txt", b"a\r\nb\r\n"), ("commit", "", b""), ("write", "plain.txt", b"a\r\n")])
@given(steps=st.lists(STEP, min_size=1, max_size=8))
def test_random_work_is_always_recoverable(template: Path, steps: list[tuple[str, str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as holder:
        repo = Path(holder) / "repo"
        git(template, "clone", "-q", "--shared", str(template), str(repo))
        git(repo, "remote", "remove", "origin")
        worktrees = GitWorktrees(repo, Config())
        wt = worktrees.add(1, "x")
        for step in steps:
            do(wt.path, *step)
        before = content(wt.path, set(git(wt.path, "ls-files", "-z").split("\0")))
        rescuable = {name: committed(wt.path, name, kept) for name, kept in before.items()}
        staged = git(wt.path, "ls-files", "--stage", "-z")
        head = git(wt.path, "rev-parse", "HEAD")
        if worktrees.at_risk(1).any:
            with pytest.raises(NotSo):
                worktrees.remove(1, force=False)
            assert content(wt.path, set(before)) == before
            assert git(wt.path, "ls-files", "--stage", "-z") == staged
        ref = worktrees.remove(1, force=True)
        assert not wt.path.exists()
        rescued = Path(holder) / "rescued"
        # Attributes would rewrite line ends on the way out; the commit itself has the bytes.
        (repo / ".git" / "info" / "attributes").write_text("* -text\n")
        git(repo, "worktree", "add", "-q", "--detach", str(rescued), ref or head)
        assert content(rescued, set(before)) == rescuable
        if ref:
            assert git(repo, "rev-parse", f"{ref}^1") == head
            git(rescued, "read-tree", f"{ref}^2")
            assert git(rescued, "ls-files", "--stage", "-z") == staged
