"""The script file, TOML or JSON: what the scripted agent does in each turn, and how it misbehaves.

    [options]
    trust = true                 # ask whether the folder is trusted, at every start
    draft = "half a thought"     # stands in the composer at the start
    drop_enter_ms = 150          # an Enter so soon after a paste is lost
    die_at_turn = 2              # exit code 70 as soon as turn 2 begins
    silent_at_turn = 3           # turn 3 begins and nothing more is said
    memory = "/some/folder"      # remember turns done over restarts, one file for each working folder

    [[turns]]
    task = "fix"                 # first, fix, ci, notice or review; any when left out; also: cycle, issue
    repeat = false               # a turn is used once, unless it says otherwise
    steps = [{ say = "Mending" }, { write = { path = "a.txt", text = "..." } }, { git = ["add", "a.txt"] },
             { ship = { amend = true } }]

A step has one key: ``say`` text, ``write`` path and text, ``replace`` path, old and new, ``delete`` path,
``git`` and ``run`` arguments, ``ship`` and ``report`` options, ``wait`` seconds, ``result``
(RESULT.json's raw text, or a table, written in place), ``half`` (text, finish_after: the first half only,
the rest later or never), ``ask`` what leave is asked for, ``error`` and ``limit`` what is shown, ``die``
exit code, ``silent``. ``{{nonce}} {{issue}} {{cycle}} {{pr}} {{branch}} {{base}} {{task}} {{lease}}`` in
texts stand for the task's own. Plain checks instead of a model, because the program must start at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import BadInput
from worker.task import KINDS, Task
from worker.tools.files import read_regular

MAX_BYTES = 16 * 1024 * 1024
DIED = 70
"""The exit code of ``die_at_turn``."""


class Options(NamedTuple):
    """How it misbehaves at large."""

    trust: bool = False
    draft: str = ""
    drop_enter_ms: int = 0
    die_at_turn: int = 0
    silent_at_turn: int = 0
    memory: str = ""


class Step(NamedTuple):
    """One thing to do; ``value`` was checked to be what ``kind`` takes."""

    kind: str
    value: Any


class Turn(NamedTuple):
    """What to do for one prompt. None matches anything."""

    steps: tuple[Step, ...]
    task: str | None = None
    cycle: int | None = None
    issue: int | None = None
    repeat: bool = False

    def fits(self, task: Task | None) -> bool:
        if task is None:
            return self.task is None and self.cycle is None and self.issue is None
        wanted = ((self.task, task.kind), (self.cycle, task.cycle), (self.issue, task.issue))
        return all(want is None or want == is_ for want, is_ in wanted)


class Script(NamedTuple):
    """The whole file."""

    options: Options
    turns: tuple[Turn, ...]

    def pick(self, task: Task | None, used: set[int]) -> int | None:
        """The index of the first turn that fits and was not used up; None where no turn is left."""
        for index, turn in enumerate(self.turns):
            if turn.fits(task) and (turn.repeat or index not in used):
                return index
        return None


def load_script(path: Path) -> Script:
    """Read the file. Raises ``BadInput`` that names the place, as in ``turns[0].steps[2].write``."""
    text = read_regular(path, MAX_BYTES).decode("utf-8", "replace")
    try:
        if path.suffix == ".json":
            data = json.loads(text)
        else:
            import tomllib  # only where it is needed: half of the start-up time

            data = tomllib.loads(text)
    except ValueError as fault:
        raise _bad(str(path), f"not readable: {fault}") from None
    return parse_script(data, str(path))


def parse_script(data: object, name: str) -> Script:
    """The script in the parsed file; ``name`` is for messages."""
    whole = _table(data, name, ("options", "turns"))
    options = _options(whole.get("options", {}), f"{name}: options")
    turns = whole.get("turns", [])
    if not isinstance(turns, list):
        raise _bad(f"{name}: turns", "expected a list")
    return Script(options, tuple(_turn(one, f"{name}: turns[{index}]") for index, one in enumerate(turns)))


def _bad(place: str, what: str) -> BadInput:
    return BadInput(f"{place}: {what}", "worker/scripted/script.py says what a script may hold.")


def _table(data: object, place: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _bad(place, "expected a table")
    strange = [str(key) for key in data if key not in known]
    if strange:
        raise _bad(place, f"{strange[0]!r} is not known; known are {', '.join(known)}")
    return data


def _options(data: object, place: str) -> Options:
    table = _table(data, place, Options._fields)
    for name, value in table.items():
        if type(value) is not type(getattr(Options(), name)):
            raise _bad(f"{place}.{name}", f"expected a {type(getattr(Options(), name)).__name__}")
    return Options(**table)


def _turn(data: object, place: str) -> Turn:
    table = _table(data, place, ("steps", "task", "cycle", "issue", "repeat"))
    if table.get("task") not in (None, *KINDS):
        raise _bad(f"{place}.task", f"expected one of {', '.join(KINDS)}")
    for name in ("cycle", "issue"):
        if not isinstance(table.get(name, 0), int):
            raise _bad(f"{place}.{name}", "expected a number")
    steps = table.get("steps", [])
    if not isinstance(steps, list):
        raise _bad(f"{place}.steps", "expected a list")
    return Turn(
        tuple(_step(one, f"{place}.steps[{index}]") for index, one in enumerate(steps)),
        table.get("task"),
        table.get("cycle"),
        table.get("issue"),
        bool(table.get("repeat", False)),
    )


def _step(data: object, place: str) -> Step:
    if not isinstance(data, dict) or len(data) != 1:
        raise _bad(place, "expected a table with one key, the kind of step")
    ((kind, value),) = data.items()
    check = _CHECKS.get(kind)
    if check is None:
        raise _bad(place, f"{kind!r} is not a step; steps are {', '.join(_CHECKS)}")
    if not check(value):
        raise _bad(f"{place}.{kind}", f"cannot take {value!r}")
    return Step(kind, value)


def _texts(*names: str) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict) and set(value) == set(names) and all(isinstance(one, str) for one in value.values())
    )


def _options_of(*names: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and set(value) <= set(names)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_argv(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "say": _is_text,
    "write": _texts("path", "text"),
    "replace": _texts("path", "old", "new"),
    "delete": _is_text,
    "git": _is_argv,
    "run": _is_argv,
    "ship": _options_of("amend", "title", "message", "body", "summary"),
    "report": _options_of("kind", "pr", "error", "cycle", "summary", "result", "findings"),
    "wait": _is_number,
    "result": lambda value: isinstance(value, str | dict),
    "half": _options_of("text", "finish_after"),
    "ask": _is_text,
    "error": _is_text,
    "limit": _is_text,
    "die": lambda value: isinstance(value, int),
    "silent": lambda value: value is True,
}


def filled(value: Any, task: Task | None) -> Any:
    """``value`` with the ``{{names}}`` in its texts replaced by the task's own; missing ones become empty."""
    if isinstance(value, dict):
        return {key: filled(one, task) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, task) for one in value]
    if not isinstance(value, str) or "{{" not in value:
        return value
    for name in ("nonce", "issue", "cycle", "pr", "branch", "base", "task", "lease"):
        own = getattr(task, name) if task is not None else None
        value = value.replace(f"{{{{{name}}}}}", "" if own is None else str(own))
    return value
