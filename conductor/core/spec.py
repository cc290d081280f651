"""Acceptance criteria of an issue, held against what a pull request claims for each. Pure; the texts are
untrusted.

A criterion is met on paper when the pull request's body has a checked box for it with evidence: a path, a
test or a command. Whatever is missing is ``high``: an unmet criterion means that the issue is not done, which
no reader of the approval would expect; it is not ``critical``, since nothing is shown to break, and it can be
deferred with a reason and a follow-up issue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.text import clean, one_line

PR_BODY = "(pull request body)"
"""Stands for a path where a finding is about a line of the pull request's body."""

LEAST_SHARE = 0.8
"""How much of a criterion's words a claim must hold to be about it: four of five, so that small rewording is
forgiven.

Numbers and negations are never forgiven: "returns 404" is not claimed by "returns 400".
"""
MOST_CRITERIA = 100
MOST_CLAIMS = 300
_LONGEST_LINE = 1_000

_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)[\s#]*$")
_LABEL = re.compile(r"^\s*(?:\*\*|__)?(acceptance[\w ]{0,40}?)(?:\*\*|__)?\s*:\s*(?:\*\*|__)?\s*$", re.IGNORECASE)
_NAME = re.compile(
    r"^[\W\d]*acceptance(?:\s+(?:criteria|criterion|tests?|checks?|list|conditions?))?\W*$", re.IGNORECASE
)
_ITEM = re.compile(r"^(\s*)(?:[-*+]|\d{1,3}[.)])\s+(?:\[([ xX])\]\s+)?(.*)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)

_CODE = re.compile(r"`([^`\n]{1,300})`")
_ENDING = (
    r"pyi?|[cm]?[jt]sx?|go|rs|rb|php|java|kts?|cs|c|h|cc|cpp|hpp|swift|sh|sql|lua|exs?|vue|svelte|html?|s?css"
    r"|md|rst|txt|toml|ya?ml|json|ini|cfg|lock|xml|proto"
)
_NAME_OF_FILE = re.compile(rf"[\w-]{{2,}}(?:\.[\w-]+)*\.(?:{_ENDING})")
_TOKEN = re.compile(r"(?<![\w/.@+-])([\w.@+-]+(?:/[\w.@+-]+)*/?)(?::\d+)?((?:::[\w\[\]., -]+)+)?")
_URL = re.compile(r"\bhttps?://\S+")
_TEST = re.compile(r"\b(test_\w+|Test[A-Z]\w+|\w+_test)\b(?!\.\w)")
_WORD = re.compile(r"[^\W_]+")
_NEGATIONS = frozenset({"not", "no", "never", "without", "none", "cannot", "nor"})
_FILLERS = frozenset(
    {"a", "an", "the", "is", "are", "be", "to", "of", "and", "or", "in", "on", "it", "that", "for", "with"}
)

EvidenceKind = Literal["path", "test", "command"]


@dataclass(frozen=True)
class Criterion:
    """One acceptance criterion: its words on one line, and its line in the issue's body (from 1)."""

    text: str
    line: int


@dataclass(frozen=True)
class Evidence:
    """What a claim names as its proof."""

    kind: EvidenceKind
    text: str


@dataclass(frozen=True)
class Claim:
    """A box in the pull request's body."""

    text: str
    line: int
    checked: bool
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Gap:
    """A criterion that is not shown to be met: what is missing, and where to look."""

    criterion: Criterion
    kind: Literal["no claim", "unchecked", "no evidence", "evidence not found"]
    message: str
    path: str
    line: int


@dataclass
class _Item:
    line: int
    indent: int
    mark: str | None
    text: str


def criteria(issue_body: str) -> tuple[Criterion, ...]:
    """The criteria: the list under a heading called "Acceptance" or "Acceptance criteria", else every
    checkbox.

    Any level and case of heading, or a line that ends in a colon. An indented item without a box belongs to
    the one above it. Fenced code and HTML comments do not count. At most ``MOST_CRITERIA``.
    """
    rows = _rows(issue_body)
    items = _items(_section(rows)) or [item for item in _items(rows) if item.mark is not None]
    found = [Criterion(one_line(item.text, 400), item.line) for item in _joined(items) if _WORD.search(item.text)]
    return tuple(found[:MOST_CRITERIA])


def claims(pr_body: str) -> tuple[Claim, ...]:
    """The boxes of a pull request's body; what is indented below a box belongs to it."""
    rows = _rows(pr_body)
    boxes: list[_Item] = []
    for item in _items(rows, with_plain_lines=True):
        if item.mark is not None:
            boxes.append(item)
        elif boxes and item.indent > boxes[-1].indent:
            boxes[-1].text += f"\n{item.text}"
        else:
            boxes.append(_Item(item.line, -1, None, ""))  # ends what belongs to the box before it
    return tuple(
        Claim(one_line(box.text, 600), box.line, box.mark != " ", evidence(box.text))
        for box in boxes
        if box.mark is not None
    )[:MOST_CLAIMS]


def evidence(text: str) -> tuple[Evidence, ...]:
    """Paths, tests and commands that a claim names. Code with a blank in it is a command, and so is ``$
    ...``.
    """
    found: list[Evidence] = []
    plain = _URL.sub(" ", text)
    for code in _CODE.findall(plain):
        if " " in code.strip():
            found.append(Evidence("command", code.strip().removeprefix("$ ")))
    plain = _CODE.sub(lambda code: " " if " " in code[1].strip() else f" {code[1]} ", plain)
    for name, tests in _paths(plain):
        found.append(Evidence("path", name))
        if tests:
            found.append(Evidence("test", tests.rpartition("::")[2].partition("[")[0].strip()))
    found += [Evidence("test", name) for name in _TEST.findall(_without_paths(plain))]
    return tuple(dict.fromkeys(found))


def _is_path(token: str) -> bool:
    """A bare name needs a known ending; one with a folder any ending, or a last slash: "and/or" is no path."""
    if "/" not in token:
        return _NAME_OF_FILE.fullmatch(token) is not None
    return token.endswith("/") or "." in token.rpartition("/")[2].lstrip(".")


def _paths(text: str) -> list[tuple[str, str]]:
    """(path, pytest's ``::`` part) of each path in the text."""
    found = []
    for token in _TOKEN.finditer(text):
        name = token[1].rstrip(".")
        if _is_path(name):
            found.append((name.removeprefix("./"), token[2] or ""))
    return found


def _without_paths(text: str) -> str:
    return _TOKEN.sub(lambda token: " " if _is_path(token[1].rstrip(".")) else token[0], text)


def gaps(
    wanted: Sequence[Criterion],
    claimed: Sequence[Claim],
    *,
    issue: str,
    exists: Callable[[str], bool],
    has_test: Callable[[str], bool],
) -> tuple[Gap, ...]:
    """What is missing, in the order of the criteria; none for those that are claimed with evidence that is
    there.

    ``issue`` stands as the path where only the issue has a line to point to. ``exists`` answers for a path
    that is in the diff or in the checkout, ``has_test`` for the name of a test there. One claim answers one
    criterion.
    """
    answers = _assign(wanted, claimed)
    found = []
    for number, criterion in enumerate(wanted):
        gap = _gap(criterion, answers.get(number), issue, exists, has_test)
        if gap is not None:
            found.append(gap)
    return tuple(found)


def _gap(
    criterion: Criterion,
    claim: Claim | None,
    issue: str,
    exists: Callable[[str], bool],
    has_test: Callable[[str], bool],
) -> Gap | None:
    name = one_line(criterion.text, 160)
    if claim is None:
        message = f"Acceptance criterion without a claim in the pull request: {name}"
        return Gap(criterion, "no claim", message, issue, criterion.line)
    if not claim.checked:
        return Gap(criterion, "unchecked", f"Acceptance criterion not checked off: {name}", PR_BODY, claim.line)
    if not claim.evidence:
        message = f"Acceptance criterion claimed without evidence (a path, a test or a command): {name}"
        return Gap(criterion, "no evidence", message, PR_BODY, claim.line)
    missing = _missing(claim.evidence, exists, has_test)
    if not missing:
        return None
    shown = ", ".join(one_line(text, 100) for text in missing[:3])
    message = f"Evidence that is not there ({shown}) for the acceptance criterion: {name}"
    return Gap(criterion, "evidence not found", message, PR_BODY, claim.line)


def _missing(proofs: Sequence[Evidence], exists: Callable[[str], bool], has_test: Callable[[str], bool]) -> list[str]:
    """The proofs that are not there. A bare name that may be a word (Node.js) is forgiven beside a proof that is."""
    absent = []
    for proof in proofs:
        if proof.kind == "command":
            # A command is taken at its word, but a file with a folder that it names must be there.
            there = all(exists(name) for name, _ in _paths(proof.text) if "/" in name)
        else:
            there = exists(proof.text) if proof.kind == "path" else has_test(proof.text)
        if not there:
            absent.append(proof)
    if len(absent) < len(proofs):
        absent = [proof for proof in absent if proof.kind != "path" or "/" in proof.text]
    return [proof.text for proof in absent]


def _assign(wanted: Sequence[Criterion], claimed: Sequence[Claim]) -> dict[int, Claim]:
    """The claim of each criterion: the best fits first, each claim once."""
    claim_words = [_words(claim.text) for claim in claimed]
    denied = [_words(_without_paths(_CODE.sub(" ", claim.text))) & _NEGATIONS for claim in claimed]
    fits = []
    for number, criterion in enumerate(wanted):
        words = _words(criterion.text)
        for position, other in enumerate(claim_words):
            share = 0.0 if denied[position] - words else _share(words, other)
            if share >= LEAST_SHARE:
                overlap = len(words & other) / max(1, len(words | other))
                fits.append((-share, -overlap, number, position))
    answers: dict[int, Claim] = {}
    used: set[int] = set()
    for _, _, number, position in sorted(fits):
        if number not in answers and position not in used:
            answers[number] = claimed[position]
            used.add(position)
    return answers


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold().replace("n't", " not")))


def _share(wanted: frozenset[str], offered: frozenset[str]) -> float:
    """The share of the wanted words that are offered, 0 where a number or a negation is not."""
    strict = {word for word in wanted if word in _NEGATIONS or any(character.isdigit() for character in word)}
    if not strict <= offered:
        return 0.0
    telling = wanted - _FILLERS or wanted
    return len(telling & offered) / len(telling) if telling else 0.0


def _rows(body: str) -> list[tuple[int, str]]:
    """(line, text) without fenced code and HTML comments, numbered as in the body."""
    text = _COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), clean(body))
    rows = []
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        opened = _FENCE.match(line)
        if opened and (not fence or opened[1] == fence):
            fence = "" if fence else opened[1]
        elif not fence:
            rows.append((number, line[:_LONGEST_LINE].expandtabs(4)))
    return rows


def _section(rows: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The rows under the acceptance heading, up to the next heading of its level or above."""
    found: list[tuple[int, str]] = []
    level = 0
    for number, line in rows:
        heading = _HEADING.match(line)
        label = _LABEL.match(line)
        if heading and (level == 0 or len(heading[1]) <= level):
            level = len(heading[1]) if _NAME.match(heading[2]) else 0
        elif label and level == 0 and _NAME.match(label[1]):
            level = 6
        elif level:
            found.append((number, line))
    return found


def _items(rows: Iterable[tuple[int, str]], *, with_plain_lines: bool = False) -> list[_Item]:
    """List items; a line that goes on with one is added to it, or is an item without a mark of its own."""
    items: list[_Item] = []
    open_item = False
    for number, line in rows:
        match = _ITEM.match(line)
        if match:
            items.append(_Item(number, len(match[1]), match[2], match[3]))
            open_item = True
        elif not line.strip() or _HEADING.match(line):
            open_item = open_item and not _HEADING.match(line)
        elif open_item and items and (line[0] == " " or with_plain_lines is False):
            items[-1].text += f"\n{line.strip()}"
        else:
            open_item = False
            if with_plain_lines:
                items.append(_Item(number, len(line) - len(line.lstrip()), None, line.strip()))
    return items


def _joined(items: Iterable[_Item]) -> list[_Item]:
    """Indented items without a box made part of the item above them."""
    joined: list[_Item] = []
    for item in items:
        if joined and item.indent > joined[-1].indent and item.mark is None:
            joined[-1].text += f"; {item.text}"
        else:
            joined.append(item)
    return joined
