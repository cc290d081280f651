"""TASK.md's first line: what the conductor's task is about, for the programs in the worker's pane.

    <!-- taskmaestro {"task": "2-3", "kind": "fix", "nonce": "...", "issue": 12, "pr": 4, "cycle": 1,
                      "lease": "<sha>", "branch": "...", "base": "main"} -->

on one line. Standard library alone, because programs that must start quickly read it too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from schemas.errors import BadInput
from worker.tools.files import MissingFile, read_regular

TASK_FILE = "TASK.md"
MAX_BYTES = 4 * 1024 * 1024
KINDS = ("first", "fix", "ci", "notice", "review")
_OPEN, _CLOSE = "<!-- taskmaestro", "-->"
_SHA = re.compile(r"^[0-9a-f]{7,64}$")
_WHERE = "Only the conductor writes TASK.md; `taskmaestro retry` has it written again."

TaskKind = Literal["first", "fix", "ci", "notice", "review"]


class BadTask(BadInput):
    """A TASK.md whose first line cannot be read."""


class Task(NamedTuple):
    """The header. ``lease`` is the head that the branch may be pushed over; ``cycle`` the review cycle to
    answer.
    """

    task: str
    kind: TaskKind
    nonce: str | None = None
    issue: int | None = None
    pr: int | None = None
    cycle: int = 0
    lease: str | None = None
    branch: str | None = None
    base: str | None = None
    about: TaskKind | None = None
    """What a notice or a taken-back task speaks of; as ``kind`` otherwise."""


def read_task(worktree: Path) -> Task:
    """The task of this worktree.

    Raises ``MissingFile`` where there is no TASK.md, ``BadTask`` where its first line is not a header.
    """
    path = worktree / TASK_FILE
    try:
        raw = read_regular(path, MAX_BYTES)
    except MissingFile as fault:
        raise MissingFile(f"{path} is not there: this worktree has no task", _WHERE) from fault
    try:
        return parse_task(raw.decode("utf-8-sig", "replace"))
    except BadTask as fault:
        raise BadTask(f"{path}, {fault.what}", fault.hint) from None


def parse_task(text: str) -> Task:
    """The header in TASK.md's text: its first line that is not blank. Unknown fields are left alone."""
    line = next((one for one in text.split("\n") if one.strip()), "").strip()
    if not line.startswith(_OPEN) or not line.endswith(_CLOSE):
        raise BadTask("line 1: expected the header <!-- taskmaestro {...} -->", _WHERE)
    body = line[len(_OPEN) : -len(_CLOSE)]
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as fault:
        raise BadTask(f"line 1: the header is not JSON ({fault})", _WHERE) from None
    if not isinstance(data, dict):
        raise BadTask("line 1: the header is not a JSON object", _WHERE)
    return _from_fields(data)


def _from_fields(data: dict[str, Any]) -> Task:
    kind = data.get("kind")
    if kind not in KINDS:
        raise BadTask(f"line 1: kind is {kind!r}; expected one of {', '.join(KINDS)}", _WHERE)
    about = data.get("about")
    if about is not None and about not in KINDS:
        raise BadTask(f"line 1: about is {about!r}; expected one of {', '.join(KINDS)}", _WHERE)
    lease = _text(data, "lease")
    if lease is not None and not _SHA.match(lease):
        raise BadTask(f"line 1: lease is {lease!r}; expected a commit's SHA", _WHERE)
    return Task(
        task=_text(data, "task") or "",
        kind=cast(TaskKind, kind),
        nonce=_text(data, "nonce"),
        issue=_number(data, "issue", 1),
        pr=_number(data, "pr", 1),
        cycle=_number(data, "cycle", 0) or 0,
        lease=lease,
        branch=_text(data, "branch"),
        base=_text(data, "base"),
        about=cast("TaskKind | None", about),
    )


def _text(data: dict[str, Any], name: str) -> str | None:
    value = data.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadTask(f"line 1: {name} is {value!r}; expected text", _WHERE)
    return value


def _number(data: dict[str, Any], name: str, least: int) -> int | None:
    value = data.get(name)
    if isinstance(value, str):
        digits = value.removeprefix("#")
        value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else value
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadTask(f"line 1: {name} is {value!r}; expected a number from {least}", _WHERE)
    return value
