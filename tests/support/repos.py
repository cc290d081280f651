"""Real git repositories for tests: a repository with commits, a bare remote, a clone."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder`` and return its stdout without the last line break.

    Raises AssertionError with git's own words when it fails.
    """
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(
            f"git {' '.join(arguments)} in {folder} exited {done.returncode}:\n{done.stderr}{done.stdout}"
        )
    return done.stdout.removesuffix("\n")


def commit_file(repository: Path, name: str, text: str, message: str | None = None) -> str:
    """Write ``text`` into ``name`` (folders are made), commit that file alone, and return the new SHA."""
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    git(repository, "add", "--force", "--", name)
    git(repository, "commit", "--quiet", "--message", message or f"Write {name}", "--", name)
    return git(repository, "rev-parse", "HEAD")


def make_repository(folder: Path, commits: int = 1) -> Path:
    """Make a repository on branch ``main`` in ``folder`` with ``commits`` commits, and return ``folder``.

    Commit n writes ``file-n.txt``; the first one writes README.md instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(1, commits + 1):
        name = "README.md" if number == 1 else f"file-{number}.txt"
        commit_file(folder, name, f"Text {number}\n", f"Commit {number}")
    return folder


def make_remote(repository: Path, folder: Path, name: str = "origin") -> Path:
    """Make a bare repository in ``folder``, add it to ``repository`` as ``name`` and push ``main`` to it."""
    git(repository, "init", "--quiet", "--bare", "--initial-branch=main", str(folder))
    git(repository, "remote", "add", name, str(folder))
    git(repository, "push", "--quiet", "--set-upstream", name, "main")
    return folder


def clone(remote: Path, folder: Path) -> Path:
    """Clone ``remote`` into ``folder``, which must not exist, and return ``folder``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    git(folder.parent, "clone", "--quiet", "--", str(remote), str(folder))
    return folder
