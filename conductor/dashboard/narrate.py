"""Journal lines told for people: which pane, what happened, by which rule, and what it changed.

The narrator folds the events itself, so that what it says of a line is exactly what the rules made of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from conductor.core.memory import Memory, Step
from conductor.core.state import Fleet, Pane
from conductor.dashboard.words import details
from schemas.events import Event
from schemas.journal import EventLine, IntentLine, JournalLine, NoteLine, ResultLine
from schemas.text import one_line


class Said(NamedTuple):
    """One line for people. ``minor``: only the curious want it (an intent, a result that went as it should)."""

    seq: int
    at: datetime
    pane: int | None
    text: str
    rule: str
    minor: bool


class Narrator:
    """Tells lines in their order; ``fleet`` is the state before the first of them, and after the last one told."""

    def __init__(self, fleet: Fleet | None = None) -> None:
        self._memory = Memory(fleet or Fleet())

    @property
    def fleet(self) -> Fleet:
        return self._memory.fleet

    @fleet.setter
    def fleet(self, fleet: Fleet) -> None:
        self._memory = Memory(fleet)

    def tell(self, line: JournalLine) -> Said:
        """One line in words."""
        before = self.fleet
        step = self._memory.take(line)
        if isinstance(line, EventLine | ResultLine) and line.event is not None:
            return self._event(line, line.event, before, step)
        if isinstance(line, ResultLine):
            moved = change(before.panes.get(line.pane), self.fleet.panes.get(line.pane))
            return Said(line.seq, line.at, line.pane, _ended(line) + moved, "result", self._as_expected(line, before))
        if isinstance(line, IntentLine):
            return Said(line.seq, line.at, line.pane, f"begins: {_named(line.effect)}", "intent", True)
        assert isinstance(line, NoteLine)  # noqa: S101  # tells the type checker what is left
        return Said(line.seq, line.at, line.pane, one_line(line.text, 500), "note", False)

    def _event(self, line: EventLine | ResultLine, event: Event, before: Fleet, step: Step) -> Said:
        detail = details(event)
        what = event.kind.replace("_", " ") if step.rule == "ignored" else step.rule
        text = f"{what}: {detail}" if detail else what
        if step.rule == "ignored":
            text += " (ignored)"
        text += change(before.panes.get(event.pane), self.fleet.panes.get(event.pane))
        minor = self.fleet is before and not step.keys and step.rule != "ignored"
        return Said(line.seq, line.at, event.pane or None, text, step.rule, minor)

    def _as_expected(self, line: ResultLine, before: Fleet) -> bool:
        return line.outcome != "failed" and self.fleet is before


def _ended(line: ResultLine) -> str:
    how = {"done": "done", "failed": "FAILED", "dropped": "not done"}[line.outcome]
    return f"{how}: {_named(line.effect)}" + (f" ({one_line(line.detail)})" if line.detail else "")


def change(before: Pane | None, after: Pane | None) -> str:
    """`` → status (cycle n)`` where one of them changed, and whether a person is wanted now, or not any more."""
    if after is None or before is None:
        return ""
    text = ""
    if (before.status, before.review_cycle) != (after.status, after.review_cycle):
        text = f" → {after.status} (cycle {after.review_cycle})"
    if after.attention is not None and (before.attention is None or before.attention.reason != after.attention.reason):
        text += f" — needs a person: {after.attention.reason}"
    elif after.attention is None and before.attention is not None:
        text += f" — settled: {before.attention.reason}"
    return text


def _named(effect: str) -> str:
    return one_line(effect.replace("_", " "), 60)
