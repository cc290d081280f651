"""``taskmaestro explain N``: the events and rules that brought a pane where it is, and what would move it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import click

from conductor.cli.context import find_context
from conductor.cli.output import answer, read_options
from conductor.cli.reading import Tail
from conductor.core.memory import Memory, Step
from conductor.core.state import Fleet, Pane
from conductor.core.watches import awaited
from conductor.dashboard.narrate import change
from conductor.dashboard.outlook import choices, moves
from conductor.dashboard.rows import clock
from conductor.dashboard.words import RULES, details, effect_words, short
from conductor.layout import Layout
from schemas.errors import BadInput, NotSo
from schemas.events import Event
from schemas.journal import EventLine, IntentLine, JournalLine, ResultLine
from schemas.text import clean, one_line


class Done(NamedTuple):
    """What was asked of the outside, and how it ended (``outcome`` is null where it has not ended)."""

    key: str
    effect: str
    words: str
    outcome: str | None
    detail: str


class Happening(NamedTuple):
    """One event that changed the pane or asked for something, by which rule, and what came of it.

    Without an event: an effect that had failed was done at last, and that settled it.
    """

    line: EventLine | ResultLine
    event: Event | None
    rule: str
    change: str
    keys: tuple[str, ...]

    @property
    def details(self) -> str:
        """What the line says beside its rule."""
        if self.event is not None:
            return details(self.event)
        return f"{self.line.effect} {self.line.outcome}" if isinstance(self.line, ResultLine) else ""


@click.command(name="explain")
@click.argument("pane", type=click.IntRange(min=0), metavar="N")
@click.option("--last", type=click.IntRange(min=1), metavar="COUNT", help="Only the last events.")
@read_options
def command(*, pane: int, last: int | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Say why a pane is where it is, and what would move it.

    Every event that changed pane N, with the rule that took it, what the conductor did then and how that
    ended. At the end: where the pane is, what is awaited, and every rule that could take the next event.

    \b
    Example: taskmaestro explain 2
             taskmaestro explain 2 --last 5
             taskmaestro explain 2 --jq .moves
    """
    layout = Layout(find_context().root)
    if not layout.journal.exists():
        raise NotSo(f"nothing happened yet: {layout.journal} is not there", "`taskmaestro up 3` begins.")
    story = Story(pane)
    story.read(line for _, line in Tail(layout.journal).parsed())
    if not story.happenings:
        known = ", ".join(str(index) for index in sorted(story.fleet.panes)) or "none"
        raise BadInput(f"there is no pane {pane}", f"Panes: {known}.")
    shown = story.happenings[-last:] if last else story.happenings
    answer(
        story.as_json(shown), as_json=as_json, jq=jq, silent=silent, text=lambda: clean("\n".join(story.words(shown)))
    )


class Story:
    """One pane's part of the journal."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.happenings: list[Happening] = []
        self._done: dict[str, Done] = {}
        self._memory = Memory()

    @property
    def fleet(self) -> Fleet:
        return self._memory.fleet

    @property
    def pane(self) -> Pane | None:
        """The pane as it is now; None where it was removed."""
        return self.fleet.panes.get(self.index)

    def read(self, lines: Iterable[JournalLine]) -> None:
        """Fold the whole journal, keeping what concerns the pane."""
        for line in lines:
            before = self.pane
            step = self._memory.take(line)
            if isinstance(line, IntentLine) and line.key in self._done:
                self._done[line.key] = self._done[line.key]._replace(outcome="begun")
            if isinstance(line, ResultLine) and line.key in self._done:
                self._done[line.key] = self._done[line.key]._replace(
                    outcome=line.outcome, detail=one_line(line.detail, 300)
                )
            if isinstance(line, EventLine | ResultLine):
                self._note(line, before, step)

    def _note(self, line: EventLine | ResultLine, before: Pane | None, step: Step) -> None:
        event = line.event
        mine = event.pane == self.index if event is not None else self.pane is not before
        if not mine or (self.pane is before and not step.keys):
            return
        for key in step.keys:
            effect = self._memory.outstanding[key].effect
            self._done[key] = Done(key, effect.kind, effect_words(effect), None, "")
        self.happenings.append(Happening(line, event, step.rule, change(before, self.pane), step.keys))

    def as_json(self, shown: list[Happening]) -> dict[str, Any]:
        """The story as JSON."""
        pane = self.pane
        return {
            "pane": pane.published(awaited(pane)).model_dump(mode="json") if pane else None,
            "events": [
                {
                    "seq": one.line.seq,
                    "at": one.line.model_dump(mode="json")["at"],
                    "event": one.event.kind if one.event else None,
                    "details": one.details,
                    "rule": one.rule,
                    "means": RULES.get(one.rule, ""),
                    "change": one.change.strip(),
                    "effects": [self._done[key]._asdict() for key in one.keys],
                }
                for one in shown
            ],
            "awaiting": awaited(pane) if pane else None,
            "moves": [move._asdict() for move in moves(pane, self.fleet.policy)] if pane else [],
            "decisions": [choice._asdict() for choice in choices(pane, self.fleet.policy)] if pane else [],
        }

    def words(self, shown: list[Happening]) -> list[str]:
        """The story for people."""
        lines: list[str] = []
        day = ""
        for one in shown:
            today = f"{one.line.at.astimezone():%Y-%m-%d}"
            if today != day:
                lines.append(today)
                day = today
            detail = f": {one.details}" if one.details else ""
            lines.append(f"{clock(one.line.at)}  {one.rule}{detail}{one.change}")
            if one.rule in RULES:
                lines.append(f"          rule: {RULES[one.rule]}")
            lines += [f"          {_ended(self._done[key])}" for key in one.keys]
        return [*lines, "", *self._now()]

    def _now(self) -> list[str]:
        pane = self.pane
        if pane is None:
            return [f"Now: pane {self.index} was removed."]
        number = f", #{pane.pr_number} at {short(pane.head)}" if pane.pr_number else ""
        lines = [f"Now: pane {pane.index} is {pane.status}, cycle {pane.review_cycle}{number}."]
        if pane.attention is not None:
            lines.append(f"It needs a person ({pane.attention.reason}):")
            lines += [f"    {line}" for line in pane.attention.message.splitlines() if line.strip()]
        lines.append(f"Awaited: {awaited(pane)}.")
        return [*lines, *self._choices(pane), *self._moves(pane)]

    def _choices(self, pane: Pane) -> list[str]:
        lines = []
        for choice in choices(pane, self.fleet.policy):
            words = f"taskmaestro decide {pane.index} {choice.verb}" + (f" {choice.needs}" if choice.needs else "")
            if choice.why_not:
                lines.append(f"    not {choice.verb}: {one_line(choice.why_not)}")
            else:
                lines.append(f"    {words} --why TEXT: {choice.means}")
        return ["A person can decide:", *lines] if lines else []

    def _moves(self, pane: Pane) -> list[str]:
        lines = []
        for move in moves(pane, self.fleet.policy):
            where = move.status if move.status != pane.status else "stays"
            where += f", cycle {move.review_cycle}" if move.review_cycle != pane.review_cycle else ""
            reason = pane.attention.reason if pane.attention else None
            where += f", needs a person ({move.attention})" if move.attention not in (None, reason) else ""
            lines.append(f"    {move.when} → {where}: {move.means}")
        return ["What would move it:", *lines] if lines else ["Nothing would move it."]


def _ended(done: Done) -> str:
    how = {None: "to do", "begun": "begun", "done": "did", "failed": "FAILED", "dropped": "left out"}[done.outcome]
    return f"{how}: {done.words}{f' ({done.detail})' if done.detail else ''}"
