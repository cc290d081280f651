"""What the description of a pull request must have: the review protocol's PR description contract, line by line.

Sections (summary, scope, acceptance criteria, definition of done, non-goals) with something in them; ``Closes #N`` or
``Fixes #N``; checkboxes that the forge can tick: in list items, not in backticks, not in table cells. Text in code
blocks and comments says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SECTIONS: dict[str, tuple[str, ...]] = {
    "summary": ("summary", "change summary", "summary of changes", "what changes"),
    "scope": ("scope", "context", "scope and context", "scope/context", "scope & context"),
    "acceptance criteria": ("acceptance criteria", "acceptance"),
    "definition of done": ("definition of done", "dod"),
    "non-goals": ("non-goals", "non goals", "nongoals", "out of scope", "explicit non-goals"),
}
"""Each section that must be there, and the headings that it may have; case and marks do not count."""
TICKED = ("acceptance criteria", "definition of done")
"""Sections whose items are checkboxes."""

_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<name>.+?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")
_PARAGRAPH = re.compile(r"^ {0,3}(?!(?:[-*+]|\d{1,9}[.)]|>|\|)(?:\s|$))\S")
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PREFORMATTED = re.compile(r"<(pre|code)\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_INDENTED = re.compile(r"^(?: {4}| {0,3}\t)[ \t]*\S")
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?P<text>.*)$")
_REAL = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX]\][ \t]+\S")
_EMPTY = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX]\][ \t]*$")
_BOX = re.compile(r"(?<![\w\]!])\[(?: ?[xX]? ?)\](?![\w(\[:])")
_CODE = re.compile(r"(?P<ticks>`+)(?P<text>[^`]|[^`].*?[^`])(?P=ticks)(?!`)")
_CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+#(?P<issue>[1-9]\d{0,8})\b", re.IGNORECASE)
_REQUIRED = re.compile(r"\b(?:closes|fixes)\b:?\s+#[1-9]\d{0,8}\b", re.IGNORECASE)
_MARKS = re.compile(r"[*_`:]+")


class Flaw(NamedTuple):
    """One thing that is not as it must be. ``line`` counts from 1."""

    line: int
    rule: str
    message: str


class _Line(NamedTuple):
    number: int
    text: str


def lint(body: str) -> list[Flaw]:
    """Everything that is wrong with this description, by line. Pure and total."""
    lines = list(_spoken(body))
    flaws = [*_boxes(lines), *_sections(lines)]
    if not any(_REQUIRED.search(_without_code(line.text)) for line in lines):
        flaws.append(Flaw(1, "issue", "no issue is closed: add `Closes #N` or `Fixes #N` on a line of its own"))
    return sorted(flaws)


def closes(body: str) -> int | None:
    """The first issue that a forge closes with this pull request."""
    return next(iter(closed_by(body)), None)


def closed_by(body: str) -> list[int]:
    """All issues that a forge closes with this pull request, each once, in their order."""
    lines = (_without_code(line.text) for line in _spoken(body))
    return list(dict.fromkeys(int(found["issue"]) for line in lines for found in _CLOSES.finditer(line)))


def _spoken(body: str) -> Iterator[_Line]:
    """The lines that are neither in a code block nor in a comment, with their numbers."""
    text = body.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for silent in (_COMMENT, _PREFORMATTED):
        text = silent.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    fence, after_blank, in_list = "", True, False
    for number, line in enumerate(text.split("\n"), 1):
        found = _FENCE.match(line)
        if fence:
            closing = found is not None and found["fence"].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closing else fence
        elif found is not None:
            fence = found["fence"]
        elif not (after_blank and not in_list and _INDENTED.match(line)):
            yield _Line(number, line)
            if line.strip():
                # What is indented below a list item belongs to it, until a line begins at the margin.
                in_list = bool(_ITEM.match(line)) or (in_list and line[:1].isspace())
                after_blank = bool(_HEADING.match(line))
            else:
                after_blank = True


def _without_code(line: str) -> str:
    return _CODE.sub(" ", line)


def _boxes(lines: list[_Line]) -> Iterator[Flaw]:
    for number, text in lines:
        if any(_BOX.search(found["text"]) for found in _CODE.finditer(text)):
            yield Flaw(number, "checkbox", "a checkbox in backticks cannot be ticked: write `- [ ] ...` without them")
        plain = _without_code(text)
        if not _BOX.search(plain):
            continue
        if plain.lstrip().startswith("|") or _row(plain):
            yield Flaw(number, "checkbox", "a checkbox in a table cell cannot be ticked: make it a list item")
        elif _EMPTY.match(text):
            yield Flaw(number, "checkbox", "this checkbox has no text: say after it what is to be done")
        elif not _REAL.match(text):
            yield Flaw(number, "checkbox", "this checkbox is not a list item: write `- [ ] text` or `- [x] text`")


def _row(text: str) -> bool:
    """A table row, with the bullet that some put before it."""
    item = _ITEM.match(text)
    inner = (item["text"] if item else text).strip()
    return inner.startswith("|") or (inner.count("|") > 1 and inner.endswith("|"))


def _sections(lines: list[_Line]) -> Iterator[Flaw]:
    names = {alias: name for name, aliases in SECTIONS.items() for alias in aliases}
    found: dict[str, list[tuple[int, list[_Line]]]] = {}
    into: list[_Line] = []
    for line in _with_headings(lines):
        name = names.get(_MARKS.sub("", line.heading).strip().lower()) if line.heading else None
        if name is not None:
            into = []
            found.setdefault(name, []).append((line.number, into))
        elif line.text.strip():
            into.append(_Line(line.number, line.text))
    for name in SECTIONS:
        if name not in found:
            yield Flaw(1, "section", f"there is no section `{name}`: add a heading `## {name.capitalize()}`")
        for heading, inside in found.get(name, []):
            if not inside:
                yield Flaw(heading, "section", f"the section `{name}` is empty")
            elif name in TICKED:
                yield from _ticked(name, heading, inside)


class _Block(NamedTuple):
    """A line; ``heading`` is its text where it is one."""

    number: int
    text: str
    heading: str = ""


def _with_headings(lines: list[_Line]) -> Iterator[_Block]:
    """The lines, each heading as one; a heading that is underlined takes its underline with it."""
    following = iter([*lines[1:], _Line(0, "")])
    underline = 0
    for line in lines:
        below = next(following)
        if line.number == underline:
            continue
        marked = _HEADING.match(line.text)
        if marked is not None:
            yield _Block(line.number, line.text, marked["name"])
        elif below.number == line.number + 1 and _UNDERLINE.match(below.text) and _PARAGRAPH.match(line.text):
            underline = below.number
            yield _Block(line.number, line.text, line.text.strip())
        else:
            yield _Block(line.number, line.text)


def _ticked(name: str, heading: int, lines: list[_Line]) -> Iterator[Flaw]:
    items = [line for line in lines if _ITEM.match(line.text)]
    real = [line for line in items if _REAL.match(line.text)]
    if not real:
        yield Flaw(heading, "checkbox", f"the section `{name}` has no checkbox: write its items as `- [ ] text`")
    for line in items:
        if line not in real and not line.text[:1].isspace() and not _BOX.search(line.text):
            yield Flaw(line.number, "checkbox", f"an item of `{name}` has no checkbox: write `- [ ] text`")
