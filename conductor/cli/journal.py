"""``taskmaestro journal``: what happened, in words or as the raw lines, up to now or as it happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import click

from conductor.cli.context import find_context
from conductor.cli.output import filtered, note, read_options
from conductor.cli.reading import Tail, changes
from conductor.dashboard.live import event_line
from conductor.dashboard.narrate import Narrator, Said
from conductor.layout import Layout
from schemas.errors import BadInput, NotSo
from schemas.journal import EventLine, JournalLine
from schemas.text import clean


@click.command(name="journal")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on, until Ctrl-C.")
@click.option("--pane", type=click.IntRange(min=0), metavar="N", help="Only what concerns this pane.")
@click.option("--all", "everything", is_flag=True, help="With intents and effects that went as they should.")
@read_options
def command(*, follow: bool, pane: int | None, everything: bool, as_json: bool, jq: str | None, silent: bool) -> None:
    """Show what happened, oldest first.

    Times are local. JSON prints the journal's own lines, one object each (docs/contracts.md); a filter
    is applied to each of them.

    \b
    Example: taskmaestro journal --pane 2
             taskmaestro journal --follow
             taskmaestro journal --jq 'select(.line == "note") | .text'

    Exit codes: 0; 1 nothing happened yet; 2 no such pane.
    """
    layout = Layout(find_context().root)
    if not layout.state.is_dir():
        raise NotSo(f"nothing happened yet: {layout.state} is not there", "`taskmaestro up 3` begins.")
    printer = _Printer(pane, everything=everything or silent, raw=as_json or jq is not None, jq=jq, silent=silent)
    tail = Tail(layout.journal)
    if not follow:
        printer.print(tail.parsed())
        printer.must_know_pane()
        return
    with changes(layout.state) as change:
        try:
            printer.print(tail.parsed())
            if tail.number == 0:
                note("waiting for the first line")
            while True:
                change.wait()
                printer.print(tail.parsed())
        except KeyboardInterrupt:
            return  # the way to end it


class _Printer:
    def __init__(self, pane: int | None, *, everything: bool, raw: bool, jq: str | None, silent: bool) -> None:
        self._pane = pane
        self._everything = everything
        self._raw = raw
        self._jq = jq
        self._silent = silent
        self._narrator = Narrator()
        self._met = False

    def print(self, lines: Iterable[tuple[bytes, JournalLine]]) -> None:
        for raw, line in lines:
            said = self._narrator.tell(line)
            if self._pane is not None and _pane_of(line) != self._pane:
                continue
            self._met = True
            text = self._raw_text(raw) if self._raw else self._told(said)
            if text and not self._silent:
                click.echo(text)
        sys.stdout.flush()

    def must_know_pane(self) -> None:
        """Raises ``BadInput`` where the journal has neither the pane nor a line about it (one may be gone by now)."""
        panes = self._narrator.fleet.panes
        if self._pane is None or self._met or self._pane in panes:
            return
        known = ", ".join(str(index) for index in sorted(panes)) or "none"
        raise BadInput(f"there is no pane {self._pane}", f"Panes: {known}.")

    def _raw_text(self, raw: bytes) -> str:
        if self._jq is not None:
            return clean("\n".join(filtered(json.loads(raw), self._jq)))
        text = raw.decode("utf-8", "replace")
        return clean(text) if sys.stdout.isatty() else text

    def _told(self, said: Said) -> str:
        if said.minor and not self._everything:
            return ""
        day = f"{said.at.astimezone():%Y-%m-%d} "
        return day + event_line(said.text, said.at, said.pane)


def _pane_of(line: JournalLine) -> int | None:
    return line.event.pane if isinstance(line, EventLine) else line.pane
