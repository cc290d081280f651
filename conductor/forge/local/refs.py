"""Refs of a bare repository, read from its files: no process on the way that the conductor takes all the
time.

A ref is its loose file, else its line in ``packed-refs``; git writes the packed file before it removes loose
ones, so reading in this order never misses one. What neither has is asked of git before it counts as absent,
which also covers repositories that keep their refs in another format.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from conductor.forge.local.plumbing import git
from schemas.errors import BadInput, Unavailable

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{")
_MAX_SYMBOLIC = 5


def branch_fault(name: str) -> str | None:
    """Why this cannot be a branch's name (the rules of ``git check-ref-format --branch``), or None."""
    if not name or name == "@" or len(name) > 240:
        return "is empty or too long"
    if name.startswith(("-", "/")) or name.endswith(("/", ".")) or name == "HEAD":
        return "starts or ends with a character that git does not allow there"
    if _FORBIDDEN.search(name):
        return "holds a character or sequence that git does not allow"
    if any(part.startswith(".") or part.endswith(".lock") for part in name.split("/")):
        return "has a part that starts with a dot or ends with .lock"
    return None


def check_branch(name: str) -> str:
    """The name itself. Raises ``BadInput`` for what git would not take: it also becomes a path here."""
    fault = branch_fault(name)
    if fault is not None:
        raise BadInput(f"{name!r} {fault}, so it is no branch name", "Name a branch as `git branch` lists it.")
    return name


class Refs:
    """The refs of one bare repository."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo
        self._packed: dict[str, str] = {}
        self._packed_stamp: tuple[int, int, int] | None = None

    def read(self, name: str) -> str | None:
        """The SHA of a full ref name, None when it is surely not there.

        Raises ``Unavailable`` where the repository is missing or unreadable: that is not "no such ref".
        """
        try:
            found = self._from_files(name)
        except OSError as error:
            raise Unavailable(
                f"cannot read {name} in {self._repo}: {error.strerror or error}",
                "Make the repository of the local forge readable.",
            ) from error
        return found if found is not None else self._from_git(name)

    def branch(self, name: str) -> str | None:
        return self.read(f"refs/heads/{check_branch(name)}")

    def pull_head(self, number: int) -> str | None:
        return self.read(f"refs/pull/{number}/head")

    def head_branch(self) -> str:
        """The branch that HEAD names: the default branch."""
        text = (self._repo / "HEAD").read_text(encoding="utf-8").strip()
        return text.removeprefix("ref: refs/heads/")

    def _from_files(self, name: str) -> str | None:
        for _ in range(_MAX_SYMBOLIC):
            try:
                text = (self._repo / name).read_text(encoding="utf-8", errors="replace").strip()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return self._packed_refs().get(name)
            if not text.startswith("ref: refs/"):
                return text if _SHA.fullmatch(text) else None
            name = text.removeprefix("ref: ")
            if _FORBIDDEN.search(name):
                return None
        return None

    def _packed_refs(self) -> dict[str, str]:
        path = self._repo / "packed-refs"
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                status = os.fstat(file.fileno())
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if stamp != self._packed_stamp:
                    pairs = (line.split(None, 1) for line in file if line[:1] not in "#^\n")
                    self._packed = {pair[1].strip(): pair[0] for pair in pairs if len(pair) == 2}
                    self._packed_stamp = stamp
        except FileNotFoundError:
            self._packed, self._packed_stamp = {}, None
        return self._packed

    def _from_git(self, name: str) -> str | None:
        if not (self._repo / "HEAD").is_file():
            raise Unavailable(
                f"the local forge's repository is missing: {self._repo}",
                "Put it back, or move the forge's folder away so that a new one is made.",
            )
        done = git(self._repo, "rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1))
        return done.out.strip() or None
