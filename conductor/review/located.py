"""Finds the places that the output of compilers, linters and test runners names: path, line, message.

Only files of the checkout count, so a stack through a library or a made-up path never becomes a finding's
place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from schemas.text import one_line

LONGEST_LINE = 2_000
MOST_LINES = 20_000
MOST_PLACES = 200

_PATH = r"(?P<path>[^\s:()\"'<>|*?](?:[^:()\"'<>|*?\n]{0,400}?[^\s:()\"'<>|*?])?)"
# Each pattern's groups: path, line, and message where the same line has it.
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^\s*(?:ERROR:?\s+|E\s+)?{_PATH}:(?P<line>[0-9]{{1,7}})(?::[0-9]+)?:?\s+(?P<message>\S.*)$",
        rf"^\s*{_PATH}:(?P<line>[0-9]{{1,7}})(?::[0-9]+)?:?\s*$",
        rf"^\s*{_PATH}\((?P<line>[0-9]{{1,7}}),[0-9]+\):\s*(?P<message>\S.*)$",  # tsc, msbuild
        rf"^\s*-->\s+{_PATH}:(?P<line>[0-9]{{1,7}}):[0-9]+",  # cargo, ruff
        r"^\s*File \"(?P<path>[^\"]{1,400})\", line (?P<line>[0-9]{1,7})",
        rf"\({_PATH}:(?P<line>[0-9]{{1,7}}):[0-9]+\)\s*$",  # a JavaScript stack
        rf"^\s*at\s+{_PATH}:(?P<line>[0-9]{{1,7}}):[0-9]+\s*$",
    )
)
_STYLISH = re.compile(r"^\s+(?P<line>[0-9]{1,7}):[0-9]+\s+(?P<level>error|warning)\s+(?P<message>\S.*)$")
_PYTEST_FAILED = re.compile(
    r"^(?:FAILED|ERROR) (?P<path>[^\s:]+)::(?P<name>[^\s\[]+(?:\[.*?\])?)(?: - (?P<message>.*))?$"
)
_HARMLESS = re.compile(r"^(?:note|warning|info|help)\b", re.IGNORECASE)
_RUST_HEAD = re.compile(r"^(?:error(?:\[\w+\])?: .+|[A-Z]+[0-9]{1,5} (?:\[\*\] )?.+|invalid-syntax: .+)$")


@dataclass(frozen=True)
class Place:
    """A place in the checkout that a tool complains about. ``path`` is relative to the checkout."""

    path: str
    line: int
    message: str


def places(output: str, checkout: Path, changed: Iterable[str] = ()) -> tuple[Place, ...]:
    """The places named, in their order, each once. Notes and warnings are left out.

    ``changed`` are paths of the checkout: a bare file name that is not at its top (Go's tests print such)
    means the only one of them that is called so.
    """
    found: dict[tuple[str, int], Place] = {}
    files = _Files(checkout, changed)
    for path, line, message in _mentions(output.splitlines()[-MOST_LINES:], files):
        known = files.inside(path)
        if known is None or line < 1:
            continue
        place = Place(known, line, one_line(message, 300))
        before = found.get((known, line))
        if before is None or (not before.message and place.message):
            found[(known, line)] = place
        if len(found) >= MOST_PLACES:
            break
    return tuple(found.values())


def failed_tests(output: str) -> tuple[tuple[str, str, str], ...]:
    """(path, test, message) of pytest's short summary."""
    return tuple(
        (found["path"], found["name"], one_line(found["message"] or "", 300))
        for text in output.splitlines()[-MOST_LINES:]
        if (found := _PYTEST_FAILED.match(text[:LONGEST_LINE]))
    )


class _Files:
    """Which paths are files of the checkout; remembered, since tools name the same ones over and over."""

    def __init__(self, checkout: Path, changed: Iterable[str]) -> None:
        self._checkout = checkout
        self._changed = tuple(changed)
        self._real = checkout.resolve()
        self._known: dict[str, str | None] = {}

    def inside(self, name: str) -> str | None:
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def _look(self, name: str) -> str | None:
        try:
            path = (self._checkout / name).resolve()
            if path.is_relative_to(self._real) and path.is_file():
                return path.relative_to(self._real).as_posix()
        except (OSError, ValueError):  # a name that no file can have: too long, or with NUL in it
            return None
        same = [path for path in self._changed if path.endswith(f"/{name}")] if "/" not in name else []
        return same[0] if len(same) == 1 else None


def _mentions(lines: list[str], files: _Files) -> Iterator[tuple[str, int, str]]:
    heading = ""
    section = ""
    for text in (line[:LONGEST_LINE] for line in lines):
        stylish = _STYLISH.match(text)
        if stylish and section:
            if stylish["level"] == "error":
                yield section, int(stylish["line"]), stylish["message"]
            continue
        if text and not text[0].isspace() and len(text) < 400 and files.inside(text.strip()):
            section = text.strip()
            continue
        if _RUST_HEAD.match(text):
            heading = text
        for pattern in _PATTERNS:
            found = pattern.search(text)
            if found is None:
                continue
            message = found.groupdict().get("message") or (heading if "-->" in text else "")
            if not _HARMLESS.match(message):
                yield found["path"], int(found["line"]), message
            break
