"""What the stand-in reads of a bare repository: refs, commits, diffs. What cannot change is kept."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class GitError(Exception):
    """Git refused; the message has its words."""


@dataclass(frozen=True)
class Commit:
    """One commit, as git tells it. Times are in ISO 8601."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    author_name: str
    author_email: str
    authored_at: str
    committer_name: str
    committer_email: str
    committed_at: str
    message: str

    @property
    def headline(self) -> str:
        return self.message.partition("\n")[0]

    @property
    def body(self) -> str:
        return self.message.partition("\n")[2].strip("\n")


@dataclass(frozen=True)
class FileChange:
    """One file of a diff. ``right`` and ``left`` are the line numbers that the diff shows of the new and old file."""

    path: str
    previous: str
    status: str
    additions: int
    deletions: int
    patch: str
    right: frozenset[int]
    left: frozenset[int]


def git_bytes(repository: Path, *arguments: str) -> bytes:
    command = ["git", f"--git-dir={repository}", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        raise GitError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def git(repository: Path, *arguments: str) -> str:
    return git_bytes(repository, *arguments).decode(errors="replace").removesuffix("\n")


def heads(repository: Path) -> dict[str, str]:
    """Branch -> SHA, as they stand now."""
    lines = git(repository, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads").splitlines()
    found = (line.split(" ", 1) for line in lines)
    return {name.removeprefix("refs/heads/"): oid for oid, name in found}


def resolve(repository: Path, name: str) -> str | None:
    """The commit that this SHA, its beginning, or ref names; None where there is none."""
    try:
        return git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except GitError:
        return None


def set_ref(repository: Path, ref: str, oid: str) -> None:
    git(repository, "update-ref", ref, oid)


def is_ancestor(repository: Path, older: str, newer: str) -> bool:
    command = ["git", f"--git-dir={repository}", "merge-base", "--is-ancestor", older, newer]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


@lru_cache(maxsize=4096)
def commit(repository: Path, oid: str) -> Commit:
    fields = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
    told = git(repository, "log", "-1", f"--format={fields}", oid).split("\0", 9)
    oid, tree, parents, author, author_mail, authored, committer, committer_mail, committed, message = told
    people = (author, author_mail, authored, committer, committer_mail, committed)
    return Commit(oid, tree, tuple(parents.split()), *people, message.strip("\n"))


@lru_cache(maxsize=1024)
def merge_base(repository: Path, one: str, other: str) -> str | None:
    try:
        return git(repository, "merge-base", one, other)
    except GitError:
        return None


@lru_cache(maxsize=1024)
def commits_between(repository: Path, base: str, head: str) -> tuple[str, ...]:
    """The commits of ``head`` that ``base`` has not, oldest first."""
    return tuple(git(repository, "rev-list", "--reverse", "--topo-order", f"{base}..{head}").split())


def diff_text(repository: Path, base: str, head: str) -> bytes:
    return git_bytes(repository, "-c", "core.quotePath=true", "diff", "--no-color", "--no-ext-diff", f"{base}...{head}")


def patch_text(repository: Path, base: str, head: str) -> bytes:
    return git_bytes(repository, "format-patch", "--stdout", f"{base}..{head}")


def _shown(patch: str) -> tuple[frozenset[int], frozenset[int]]:
    right: set[int] = set()
    left: set[int] = set()
    new = old = 0
    for line in patch.splitlines():
        hunk = _HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[3])
        elif line.startswith("+"):
            right.add(new)
            new += 1
        elif line.startswith("-"):
            left.add(old)
            old += 1
        elif line.startswith(" "):
            right.add(new)
            left.add(old)
            new += 1
            old += 1
    return frozenset(right), frozenset(left)


_STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}


@lru_cache(maxsize=256)
def changes(repository: Path, base: str, head: str) -> tuple[FileChange, ...]:
    """The files that ``head`` changes since it left ``base``."""
    start = merge_base(repository, base, head) or base
    told = git(repository, "diff", "--find-renames", "--name-status", "-z", start, head).split("\0")
    found = []
    while told and told[0]:
        letter = told.pop(0)[0]
        previous = told.pop(0)
        path = told.pop(0) if letter in "RC" else previous
        paths = sorted({previous, path})
        raw = git(repository, "diff", "--no-color", "--no-ext-diff", "--find-renames", start, head, "--", *paths)
        begin = raw.find("\n@@ ")
        patch = raw[begin + 1 :] if begin >= 0 else ""
        lines = patch.splitlines()
        plus = sum(line.startswith("+") for line in lines)
        minus = sum(line.startswith("-") for line in lines)
        found.append(FileChange(path, previous, _STATUS[letter], plus, minus, patch, *_shown(patch)))
    return tuple(found)


def follow_line(repository: Path, path: str, line: int, old: str, new: str) -> int | None:
    """Where a line of ``old`` stands in ``new``; None where it was changed or is gone."""
    if old == new:
        return line
    raw = git(repository, "diff", "--no-color", "--no-ext-diff", "--no-renames", "-U0", old, new, "--", path)
    if "\ndeleted file" in raw:
        return None
    shift = 0
    for text in raw.splitlines():
        hunk = _HUNK.match(text)
        if not hunk:
            continue
        start, count = int(hunk[1]), int(hunk[2] or 1)
        if count and start <= line < start + count:
            return None
        if line >= start + max(count, 1):
            shift += int(hunk[4] or 1) - count
    return line + shift


def hunk_until(patch: str, line: int, side: str) -> str:
    """The part of the hunk that ends with this line, as a review comment quotes it."""
    lines: list[str] = []
    new = old = 0
    for text in patch.splitlines():
        hunk = _HUNK.match(text)
        if hunk:
            lines, old, new = [text], int(hunk[1]), int(hunk[3])
            continue
        lines.append(text)
        at = new if side == "RIGHT" else old
        if at == line and text[:1] in ((" ", "+") if side == "RIGHT" else (" ", "-")):
            return "\n".join(lines)
        new += text[:1] in (" ", "+")
        old += text[:1] in (" ", "-")
    return "\n".join(lines)
