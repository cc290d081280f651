"""A person's word to the conductor: left in the inbox, and what became of it where a conductor is at work."""

from __future__ import annotations

import getpass
import time
from typing import NamedTuple

from conductor import inbox
from conductor.cli.reading import Tail
from conductor.core.cycle import apply
from conductor.core.memory import Memory
from conductor.core.state import Pane
from conductor.dashboard.narrate import change
from conductor.dashboard.outlook import REFUSALS
from conductor.dashboard.words import RULES
from conductor.layout import Layout
from conductor.lock import holder
from schemas.effects import Report
from schemas.errors import BadInput, Fault
from schemas.events import TaskGiven, UserDecided
from schemas.journal import EventLine, JournalLine
from schemas.text import one_line
from worker.tools.git import git

PATIENCE = 5.0
"""Seconds for which a living conductor is waited for."""


class Taken(NamedTuple):
    """What the conductor made of a request: the rule, the words for people, whether it was refused."""

    rule: str
    words: str
    refused: bool
    pane: Pane | None


def ask(layout: Layout, event: UserDecided | TaskGiven) -> tuple[bool, Taken | None]:
    """Leave the event for the conductor. Answers whether one is at work, and what it made of the event within 5 s.

    Where none is at work, an event that the rules would refuse is not left at all.
    """
    if event.request is None:
        raise ValueError("a request needs its id, or it could be taken twice")
    tail, memory = Tail(layout.journal), Memory()
    for _, line in tail.parsed():
        memory.take(line)
    if holder(layout.lock) is None:
        refused = _refused_now(memory, event)
        if refused is not None:
            return False, refused
    inbox.put(layout.inbox, event.request, [event])
    deadline = time.monotonic() + PATIENCE
    while True:
        for _, line in tail.parsed():
            taken = _take(memory, line, event.request)
            if taken is not None:
                return True, taken
        if holder(layout.lock) is None:
            return False, None
        if time.monotonic() >= deadline:
            return True, None
        time.sleep(0.03)


def _refused_now(memory: Memory, event: UserDecided | TaskGiven) -> Taken | None:
    _fleet, effects, rule = apply(memory.fleet, event)
    if rule not in REFUSALS and rule != "ignored":
        return None
    said = next((effect.message for effect in effects if isinstance(effect, Report)), RULES[rule])
    return Taken(rule, said, True, memory.fleet.panes.get(event.pane))


def _take(memory: Memory, line: JournalLine, request: str) -> Taken | None:
    index = line.event.pane if isinstance(line, EventLine) else None
    before = memory.fleet.panes.get(index) if index is not None else None
    step = memory.take(line)
    if not isinstance(line, EventLine) or not isinstance(line.event, UserDecided | TaskGiven):
        return None
    if line.event.request != request:
        return None
    after = memory.fleet.panes.get(line.event.pane)
    effects = [memory.outstanding[key].effect for key in step.keys]
    said = next((effect.message for effect in effects if isinstance(effect, Report)), "")
    refused = step.rule in REFUSALS or step.rule == "ignored"
    words = said if refused and said else f"pane {line.event.pane}: {step.rule} ({RULES[step.rule]})"
    return Taken(step.rule, words + change(before, after), refused, after)


def who(layout: Layout) -> str:
    """The person at the keyboard: git's name and address where they are set, else the login."""
    try:
        name, email = (
            one_line(git(["config", "--get", key], layout.root, check=False).output, 100)
            for key in ("user.name", "user.email")
        )
    except Fault:
        name = email = ""
    if name and email:
        return f"{name} <{email}>"
    try:
        return name or email or getpass.getuser()
    except (KeyError, OSError):
        return "an unknown person"


def pane_known(layout: Layout, index: int) -> None:
    """Raise ``BadInput`` where no such pane is published."""
    if layout.pane_file(index).exists():
        return
    known = sorted(int(path.stem) for path in layout.panes.glob("*.json") if path.stem.isdigit())
    listed = f"Panes: {', '.join(map(str, known))}." if known else "There are no panes yet: `taskmaestro up 3`."
    raise BadInput(f"there is no pane {index}", listed)
