"""Reads a unified diff into plain values: which files changed, how, and which lines are new.

A parser of our own, because git's quoted paths, binary files, pure renames and mode changes must come out
right and a diff that cannot be read must be a fault with its line, never a shorter list of files. What the
files are for (tests, source, documents) is in ``conductor.core.filekinds``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from schemas.errors import BadInput
from schemas.text import one_line

Status = Literal["added", "modified", "deleted", "renamed", "copied"]

_HUNK = re.compile(r"^@@ -[0-9]{1,9}(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_ESCAPE = re.compile(r'\\([abfnrtv"\\]|[0-3][0-7]{2})')
_PLAIN_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, '"': 34, "\\": 92}
_EXTENDED = (
    "index ",
    "similarity index ",
    "dissimilarity index ",
    "old mode ",
    "new mode ",
)
_USUAL = ("a/", "b/")
_MNEMONIC = (("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"), ("1/", "2/"))
_NOWHERE = "/dev/null"


@dataclass(frozen=True)
class AddedLine:
    """A line that is new in the new file: its number there (from 1) and its text without the line end."""

    number: int
    text: str


@dataclass(frozen=True)
class FileChange:
    """How one file changed. ``path`` is its new name, or its last one where it was deleted."""

    path: str
    status: Status = "modified"
    old_path: str | None = None
    binary: bool = False
    added: tuple[AddedLine, ...] = ()
    removed: tuple[str, ...] = ()
    shown: frozenset[int] = field(default=frozenset(), compare=False)
    """New-side numbers of all lines that the diff shows, context too: where a review may comment."""

    @property
    def changed_lines(self) -> frozenset[int]:
        """New-side numbers of the lines that are new."""
        return frozenset(line.number for line in self.added)

    @property
    def first_line(self) -> int:
        """The first new line, or 1 where the change adds none."""
        return self.added[0].number if self.added else 1


def parse_diff(text: str) -> tuple[FileChange, ...]:
    """The files of a unified diff, in its order. An empty diff has none.

    Takes what ``git diff`` prints (with any of its usual path prefixes or none) and plain ``diff -u`` output.
    Raises ``BadInput`` with the diff's own line number for anything else, a combined (merge) diff included.
    """
    if not text.strip():
        return ()
    return _Reader(text).read()


def shown_lines(text: str) -> dict[str, frozenset[int]]:
    """For each file of the diff the lines of the new file that it shows: where a review may comment."""
    return {change.path: change.shown for change in parse_diff(text) if change.status != "deleted"}


def first_place(changes: tuple[FileChange, ...]) -> tuple[str, int]:
    """Where to point when nothing says where: the first file that still exists, at its first new line."""
    present = [change for change in changes if change.status != "deleted"]
    for change in [*(c for c in present if c.added), *present, *changes]:
        return change.path, change.first_line
    return "(empty diff)", 1


def unquote(name: str) -> str:
    """A path as git prints it, without its quotes: octal escapes are bytes of UTF-8."""
    if not (len(name) >= 2 and name.startswith('"') and name.endswith('"')):
        return name
    raw = bytearray()
    inner = name[1:-1]
    position = 0
    for found in _ESCAPE.finditer(inner):
        raw += inner[position : found.start()].encode("utf-8", "surrogateescape")
        code = found.group(1)
        raw.append(_PLAIN_ESCAPES[code] if code in _PLAIN_ESCAPES else int(code, 8))
        position = found.end()
    raw += inner[position:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


@dataclass
class _Draft:
    """A file while its part of the diff is read."""

    header: str = ""
    old: str | None = None
    new: str | None = None
    status: Status = "modified"
    moved_from: str | None = None
    moved_to: str | None = None
    binary: bool = False
    added: list[AddedLine] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    context: list[int] = field(default_factory=list)

    def finish(self) -> FileChange | None:
        old, new = self._paths()
        path = (old if self.status == "deleted" else new) or new or old
        if not path:
            return None
        other = old if old not in (None, path) else None
        shown = frozenset((*self.context, *(line.number for line in self.added)))
        return FileChange(path, self.status, other, self.binary, tuple(self.added), tuple(self.removed), shown)

    def _paths(self) -> tuple[str | None, str | None]:
        if self.moved_from is not None and self.moved_to is not None:
            return self.moved_from, self.moved_to
        if self.old is None or self.new is None:
            return _names_of_header(self.header)
        old, new = _without_prefix(self.old, self.new)
        return (None if old == _NOWHERE else old), (None if new == _NOWHERE else new)


class _Reader:
    """Goes through the lines once. Lines end at LF only: other line ends are part of a file's text."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        self._at = 0
        self._done: list[FileChange] = []
        self._draft: _Draft | None = None

    def read(self) -> tuple[FileChange, ...]:
        while self._at < len(self._lines):
            line = self._lines[self._at].removesuffix("\r")
            if line.startswith("diff --git "):
                self._close()
                self._draft = _Draft(header=line.removeprefix("diff --git "))
                self._at += 1
            elif line.startswith("--- ") and self._follows("+++ "):
                self._names(line)
            elif line.startswith("@@ "):
                self._hunk(line)
            else:
                self._other(line)
        self._close()
        return tuple(self._done)

    def _follows(self, start: str) -> bool:
        return self._at + 1 < len(self._lines) and self._lines[self._at + 1].startswith(start)

    def _close(self) -> None:
        if self._draft is not None:
            change = self._draft.finish()
            if change is None:
                raise self._fault("a file without a name ends before it")
            self._done.append(change)
        self._draft = None

    def _names(self, line: str) -> None:
        if self._draft is None or self._draft.new is not None:
            self._close()
            self._draft = _Draft()
        self._draft.old = _name(line[4:])
        self._draft.new = _name(self._lines[self._at + 1].removesuffix("\r")[4:])
        if self._draft.old == _NOWHERE:
            self._draft.status = "added"
        elif self._draft.new == _NOWHERE:
            self._draft.status = "deleted"
        self._at += 2

    def _hunk(self, line: str) -> None:
        found = _HUNK.match(line)
        if found is None:
            raise self._fault("this is not a hunk header")
        if self._draft is None or self._draft.new is None:
            raise self._fault("a hunk without the two file names before it")
        old_left, number, new_left = int(found[1] or 1), int(found[2]), int(found[3] or 1)
        if number == 0 and new_left > 0:
            raise self._fault("line numbers count from 1")
        self._at += 1
        while old_left > 0 or new_left > 0:
            if self._at >= len(self._lines):
                raise self._fault("the diff ends inside a hunk")
            body = self._lines[self._at]
            # Some tools strip the blank of an empty context line.
            sign, text = (body[0], body[1:].removesuffix("\r")) if body else (" ", "")
            if sign == "+" and new_left > 0:
                self._draft.added.append(AddedLine(number, text))
                number, new_left = number + 1, new_left - 1
            elif sign == "-" and old_left > 0:
                self._draft.removed.append(text)
                old_left -= 1
            elif (sign == " " or body == "\r") and old_left > 0 and new_left > 0:
                self._draft.context.append(number)
                number, old_left, new_left = number + 1, old_left - 1, new_left - 1
            elif sign != "\\":
                raise self._fault("the hunk has other lines than its header counts")
            self._at += 1
        while self._at < len(self._lines) and self._lines[self._at].startswith("\\ "):
            self._at += 1

    def _other(self, line: str) -> None:
        draft = self._draft
        if draft is None:
            if line.startswith(("diff --cc ", "diff --combined ")):
                raise self._fault("a combined diff of a merge has no single old side")
            # `diff -u a b`, `Only in x`, `Index: x`: harmless words between the files of plain diffs.
            if line.strip() and not line.startswith(("diff ", "Only in ", "Index: ", "=====")):
                raise self._fault("expected the start of a file (diff --git, or --- and +++)")
        elif line.startswith("new file mode "):
            draft.status = "added"
        elif line.startswith("deleted file mode "):
            draft.status = "deleted"
        elif line.startswith(("rename from ", "copy from ")):
            draft.status = "renamed" if line.startswith("rename") else "copied"
            draft.moved_from = unquote(line.partition(" from ")[2])
        elif line.startswith(("rename to ", "copy to ")):
            draft.moved_to = unquote(line.partition(" to ")[2])
        elif line.startswith("Binary files ") and line.endswith(" differ"):
            draft.binary = True
        elif line == "GIT binary patch":
            draft.binary = True
            self._skip_binary_patch()
            return
        elif line.strip() and not line.startswith(_EXTENDED):
            raise self._fault("this line belongs to no part of a diff")
        self._at += 1

    def _skip_binary_patch(self) -> None:
        self._at += 1
        while self._at < len(self._lines) and not self._lines[self._at].startswith(("diff --git ", "--- ")):
            self._at += 1

    def _fault(self, why: str) -> BadInput:
        shown = one_line(self._lines[self._at], 80) if self._at < len(self._lines) else "(end)"
        return BadInput(
            f"the diff cannot be read at its line {min(self._at, len(self._lines)) + 1}: {why}: {shown}",
            "Give the output of `git diff BASE HEAD` without colours.",
        )


def _name(text: str) -> str:
    """The name of a ``---`` or ``+++`` line: unquoted, without the tab and time stamp that may follow it."""
    if text.startswith('"'):
        return unquote(text.rstrip("\t"))
    return text.partition("\t")[0]


def _without_prefix(old: str, new: str) -> tuple[str, str]:
    """Both names without git's prefixes. Names without prefixes are taken as they are."""
    first, second = _USUAL
    if (old.startswith(first) or old == _NOWHERE) and (new.startswith(second) or new == _NOWHERE):
        return old.removeprefix(first), new.removeprefix(second)
    for one, other in ((second, first), *_MNEMONIC, *((b, a) for a, b in _MNEMONIC)):
        if old.startswith(one) and new.startswith(other):
            return old.removeprefix(one), new.removeprefix(other)
    return old, new


def _names_of_header(header: str) -> tuple[str | None, str | None]:
    """The two names of ``diff --git``: they are the same there unless rename lines name both."""
    if header.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', header)
        if end is None:
            return None, None
        return _without_prefix(unquote(end.group()), unquote(header[end.end() :].strip()))
    if header.endswith('"') and ' "' in header:
        first, _, second = header.partition(' "')
        return _without_prefix(first, unquote(f'"{second}'))
    middle = len(header) // 2
    if header[middle : middle + 1] != " ":
        return None, None
    old, new = _without_prefix(header[:middle], header[middle + 1 :])
    return (old, new) if old == new else (None, None)
