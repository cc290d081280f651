"""What lies in a worktree and in no commit: everything that a clean-up could lose.

Asked of git with a private copy of the index, so that a worker who commits at the same moment is not
disturbed and files hidden by assume-unchanged or skip-worktree are seen. Nothing is changed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conductor.git.run import Done, Git
from schemas.errors import NotSo
from schemas.text import one_line
from worker.tools.exclude import OURS

STATES = {
    "rebase-merge": "rebase in progress",
    "rebase-apply": "rebase or am in progress",
    "MERGE_HEAD": "merge in progress",
    "CHERRY_PICK_HEAD": "cherry-pick in progress",
    "REVERT_HEAD": "revert in progress",
    "sequencer": "sequence of cherry-picks or reverts in progress",
    "BISECT_LOG": "bisect in progress",
}
PSEUDO_REFS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "ORIG_HEAD", "AUTO_MERGE")
REBUILT = frozenset({"node_modules", ".venv", "venv", "site-packages", ".tox", ".nox", "__pycache__"})
"""Folders that tools fill and fill again: files in them are nobody's secrets, even where a pattern fits."""
WALKED = 50_000
"""At most so many folders inside ignored ones are looked at for repositories."""
SLOW = 300.0


@dataclass(frozen=True)
class Dirt:
    """Paths are relative to the worktree, as git gives them; ``kept_out`` says what no commit can keep."""

    folder: Path
    git_dir: Path
    changed: tuple[tuple[str, str], ...]
    """(status letters, path) of tracked files that differ from HEAD, in the index or on disk."""
    untracked: tuple[str, ...]
    precious: tuple[str, ...]
    states: tuple[str, ...]
    stashes: tuple[tuple[str, str], ...]
    """(SHA, line for a person) of stash entries made on this branch."""
    kept_out: tuple[str, ...]
    branch: str | None
    """The branch, also while a rebase has detached HEAD from it."""

    @property
    def files(self) -> tuple[str, ...]:
        """Every path whose content is not HEAD's."""
        return tuple(sorted({path for _, path in self.changed} | set(self.untracked) | set(self.precious)))


def git_dir_of(git: Git, folder: Path) -> Path:
    """The worktree's own git folder. Raises ``NotSo`` where git would answer for a repository around it."""
    done = git.run("rev-parse", "--show-toplevel", "--absolute-git-dir", folder=folder)
    lines = done.text.split("\n")
    if done.code != 0 or Path(os.path.realpath(lines[0])) != Path(os.path.realpath(folder)):
        raise NotSo(
            f"{shown(str(folder))} is not a working tree of its own any more: "
            + (done.reason if done.code else "its .git file is missing"),
            "Run git worktree repair in the managed repository, or look at the folder.",
        )
    return Path(lines[1])


@contextmanager
def private_index(git: Git, folder: Path, git_dir: Path, scratch: Path) -> Iterator[dict[str, str]]:
    """Environment with a copy of the worktree's index, made in ``scratch``, in which no file is hidden."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="index-") as holder:
        copy = Path(holder) / "index"
        if (git_dir / "index").exists():
            # With its time stamp: by it git knows which files may have changed in the very moment of writing.
            shutil.copy2(git_dir / "index", copy)
        env = {"GIT_INDEX_FILE": str(copy)}
        marked = git.must("ls-files", "-v", "-z", folder=folder, env=env).fields
        # Lower case: assumed unchanged. S: skipped, as a sparse checkout does with files that are not there.
        hidden = [row[2:] for row in marked if row[0].islower() and row[0] != "s"]
        hidden += [row[2:] for row in marked if row[0] in "sS" and os.path.lexists(folder / row[2:])]
        if hidden:
            data = "\0".join(hidden).encode("utf-8", "surrogateescape") + b"\0"
            for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
                git.must("update-index", "-z", flag, "--stdin", folder=folder, env=env, data=data)
        yield env


def look(git: Git, folder: Path, precious: Sequence[str], scratch: Path) -> Dirt:
    """Everything in the worktree that is in no commit. Raises ``NotSo`` where it cannot be read."""
    git_dir = git_dir_of(git, folder)
    branch = _branch(git, folder, git_dir)
    with private_index(git, folder, git_dir, scratch) as env:
        every = ("--untracked-files=all", "--no-renames", "--ignore-submodules=none")
        status = git.must("status", "--porcelain=v2", "-z", *every, folder=folder, env=env, timeout=SLOW)
        kept_out = [*_unreadable(status), *_submodules(git, folder, precious, env)]
    changed, untracked = _parse(status.fields)
    nested = [path for path in untracked if path.endswith("/")]
    nested += _ignored_repositories(git, folder)
    kept_out += [f"{shown(path)} is a git repository of its own: git cannot keep it" for path in nested]
    plain = [path for path in untracked if not path.endswith("/")]
    found = [path for path in _precious(git, folder, precious) if path not in set(plain)]
    return Dirt(
        folder=folder,
        git_dir=git_dir,
        changed=tuple(changed),
        untracked=tuple(plain),
        precious=tuple(found),
        states=tuple(_states(git_dir)),
        stashes=tuple(_stashes(git, folder, branch)),
        kept_out=tuple(kept_out),
        branch=branch,
    )


def shown(path: str) -> str:
    """A path for a person: cleaned, and with escapes where it has characters that do not print."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return one_line(text if text.isprintable() else repr(text), 300)


def _parse(rows: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    changed, untracked = [], []
    parts_before_path = {"1": 8, "u": 10}
    for row in rows:
        if row.startswith("? "):
            if row[2:] not in OURS:
                untracked.append(row[2:])
        elif row[0] in parts_before_path:
            parts = row.split(" ", parts_before_path[row[0]])
            if parts[-1] not in OURS:
                changed.append((parts[1], parts[-1]))
    return changed, untracked


def _unreadable(status: Done) -> list[str]:
    # git only warns about what it cannot open, and lists the rest as if that were all.
    return [f"cannot be read: {one_line(line)}" for line in status.err.splitlines() if "could not open" in line]


def _states(git_dir: Path) -> list[str]:
    return [told for name, told in STATES.items() if (git_dir / name).exists()]


def _branch(git: Git, folder: Path, git_dir: Path) -> str | None:
    done = git.run("symbolic-ref", "--quiet", "HEAD", folder=folder)
    if done.code == 0:
        return done.text.strip().removeprefix("refs/heads/")
    for name in ("rebase-merge", "rebase-apply"):
        try:
            text = (git_dir / name / "head-name").read_text(encoding="utf-8", errors="surrogateescape").strip()
        except FileNotFoundError:
            continue
        if text.startswith("refs/heads/"):
            return text.removeprefix("refs/heads/")
    return None


def _stashes(git: Git, folder: Path, branch: str | None) -> list[tuple[str, str]]:
    if branch is None or git.run("rev-parse", "--verify", "--quiet", "refs/stash").code != 0:
        return []
    rows = git.must("reflog", "show", "-z", "--format=%H %gd %gs", "refs/stash", "--", folder=folder).fields
    found = []
    for row in rows:
        sha, name, text = row.strip().split(" ", 2)
        if text.startswith((f"WIP on {branch}: ", f"On {branch}: ")):
            found.append((sha, f"{name.replace('refs/', '')} {one_line(text, 120)}"))
    return found


def _precious(git: Git, folder: Path, patterns: Sequence[str]) -> list[str]:
    """Untracked files, ignored or not, that fit a pattern (gitignore syntax), outside of rebuilt folders."""
    if not patterns:
        return []
    excludes = [f"--exclude={pattern}" for pattern in patterns]
    done = git.must("ls-files", "--others", "--ignored", "-z", *excludes, folder=folder, timeout=SLOW)
    found = []
    environments: dict[str, bool] = {}
    for path in done.fields:
        parents = Path(path).parts[:-1]
        if path.endswith("/") or REBUILT.intersection(parents) or path in OURS:
            continue
        if any(
            environments.setdefault(top, (folder / top / "pyvenv.cfg").exists())
            for top in (os.path.join(*parents[: end + 1]) for end in range(len(parents)))  # noqa: PTH118
        ):
            continue
        found.append(path)
    return found


def _ignored_repositories(git: Git, folder: Path) -> list[str]:
    """Git repositories inside ignored folders, which git itself says nothing about."""
    ignored = ("--others", "--ignored", "--exclude-standard", "--directory")
    done = git.must("ls-files", "-z", *ignored, folder=folder, timeout=SLOW)
    found = []
    seen = 0
    for top in (path for path in done.fields if path.endswith("/")):
        for where, folders, files in os.walk(folder / top):
            seen += 1
            if ".git" in folders or ".git" in files:
                found.append(os.path.relpath(where, folder) + "/")
                folders.clear()
            folders[:] = [name for name in folders if name not in REBUILT]
            if seen > WALKED:
                return found
    return found


def _submodules(git: Git, folder: Path, precious: Sequence[str], env: dict[str, str] | None) -> list[str]:
    rows = git.must("ls-files", "--stage", "-z", folder=folder, env=env).fields
    links = sorted({row.partition("\t")[2] for row in rows if row.startswith("160000 ")})
    found = []
    for link in links:
        path = folder / link
        if not path.is_dir() or path.is_symlink() or not any(path.iterdir()):
            continue
        if not (path / ".git").exists():
            found.append(f"submodule {shown(link)} has files but no repository")
            continue
        found += [f"submodule {shown(link)}: {line}" for line in _submodule(git, path, precious)]
    return found


def _submodule(git: Git, path: Path, precious: Sequence[str]) -> list[str]:
    git_dir_of(git, path)
    status = git.must("status", "--porcelain", "-z", "--ignore-submodules=none", folder=path, timeout=SLOW)
    found = ["uncommitted work"] if status.out else []
    found += [f"ignored file {shown(name)}" for name in _precious(git, path, precious)]
    tips = ["--branches", "--tags"]
    tips += ["HEAD"] if git.run("rev-parse", "--verify", "--quiet", "HEAD", folder=path).code == 0 else []
    lone = git.ask("rev-list", "--max-count=1", *tips, "--not", "--remotes", "--", folder=path)
    found += [f"commit {lone[:12]} is on none of its remotes"] if lone else []
    if git.run("rev-parse", "--verify", "--quiet", "refs/stash", folder=path).code == 0:
        found.append("stashed work")
    return found + _submodules(git, path, precious, None)
