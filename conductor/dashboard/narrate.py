"""Journal lines told for people: which pane, what happened, by which rule, and what it changed.

The narrator folds the events itself, so that what it says of a line is exactly what the rules made of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from conductor.core.cycle import apply
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
    """Tells lines in their order; ``fleet`` is the state before the first of them."""

    def __init__(self, fleet: Fleet | None = None) -> None:
        self.fleet = fleet or Fleet()

    def tell(self, line: JournalLine) -> Said:
        """One line in words."""
        if isinstance(line, EventLine):
            text, rule, minor = self._event(line.event)
            return Said(line.seq, line.at, line.event.pane or None, text, rule, minor)
        if isinstance(line, IntentLine):
            return Said(line.seq, line.at, line.pane, f"begins: {_named(line.effect)}", "intent", True)
        if isinstance(line, NoteLine):
            return Said(line.seq, line.at, line.pane, one_line(line.text, 500), "note", False)
        return self._result(line)

    def _result(self, line: ResultLine) -> Said:
        if line.event is not None:
            text, rule, minor = self._event(line.event)
            return Said(line.seq, line.at, line.pane, text, rule, minor)
        how = {"done": "done", "failed": "FAILED", "dropped": "not done"}[line.outcome]
        detail = f" ({one_line(line.detail)})" if line.detail else ""
        return Said(
            line.seq, line.at, line.pane, f"{how}: {_named(line.effect)}{detail}", "result", line.outcome != "failed"
        )

    def _event(self, event: Event) -> tuple[str, str, bool]:
        before = self.fleet
        self.fleet, effects, rule = apply(before, event)
        detail = details(event)
        what = event.kind.replace("_", " ") if rule == "ignored" else rule
        text = f"{what}: {detail}" if detail else what
        if rule == "ignored":
            text += " (ignored)"
        text += change(before.panes.get(event.pane), self.fleet.panes.get(event.pane))
        unchanged = self.fleet is before and not effects
        return text, rule, unchanged and rule != "ignored"


def change(before: Pane | None, after: Pane | None) -> str:
    """`` → status (cycle n)`` where one of them changed, and that a person is wanted where that is new."""
    if after is None or before is None:
        return ""
    text = ""
    if (before.status, before.review_cycle) != (after.status, after.review_cycle):
        text = f" → {after.status} (cycle {after.review_cycle})"
    if after.attention is not None and (before.attention is None or before.attention.reason != after.attention.reason):
        text += f" — needs a person: {after.attention.reason}"
    return text


def _named(effect: str) -> str:
    return one_line(effect.replace("_", " "), 60)
