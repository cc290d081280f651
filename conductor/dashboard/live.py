"""What ``conduct`` shows: a live table on a terminal, plain lines elsewhere; both take the same calls.

The calls only leave word and return: a thread of its own draws, so that a slow or stopped terminal never holds the
conductor up. It sleeps until something changed; the table is drawn again only then.
"""

from __future__ import annotations

import io
import os
import queue
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from conductor.core.state import Fleet
from conductor.core.watches import awaited
from conductor.dashboard.narrate import Narrator, Said, by_rule
from conductor.dashboard.rows import Row, clock, row_of
from conductor.dashboard.table import rich_table
from schemas.journal import JournalLine
from schemas.text import clean, one_line

_ATTENTION_LINES = 5
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_LAST_WORDS = 5.0
"""Seconds for which the end waits for what is still to be drawn."""


def rows_of(fleet: Fleet, *, now: datetime | None = None) -> list[Row]:
    """The fleet's rows, by pane."""
    cap = fleet.policy.max_cycles
    return [
        row_of(
            pane.published(awaited(pane)).model_dump(mode="json"),
            max_cycles=cap + pane.extra_cycles,
            now=now,
        )
        for _, pane in sorted(fleet.panes.items())
    ]


def headline(conductor: Mapping[str, Any] | None) -> str:
    """Who conducts, in words."""
    if conductor is None:
        return "no conductor runs"
    pid, host = conductor.get("pid", "?"), one_line(str(conductor.get("host", "?")), 60)
    return f"conductor: pid {pid} on {host}"


def event_line(text: str, at: datetime | None, pane: int | None) -> str:
    """``HH:MM:SS pane 2  what happened`` on one line."""
    where = f"pane {pane}" if pane else "all"
    return f"{clock(at or datetime.now().astimezone())} {where:<7} {one_line(text, 500)}"


Lines = Sequence[tuple[JournalLine, str]]


class _Drawn:
    """Takes word from any thread and draws it in its own. Subclasses draw ``_print`` and ``_redraw``."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Said | str | tuple[Lines, Fleet] | Fleet | None] = queue.SimpleQueue()
        self._narrator: Narrator | None = None
        self._thread = threading.Thread(target=self._run, name="display", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join(timeout=_LAST_WORDS)

    def said(self, text: str) -> None:
        """A message for people, as it is: it may have several lines."""
        self._queue.put(text)

    line = said

    def changed(self, lines: Lines, fleet: Fleet) -> None:
        """These lines were journalled, each with the rule that took it; ``fleet`` is the state after them."""
        self._queue.put((lines, fleet))

    def update(self, fleet: Fleet) -> None:
        """The states as of now."""
        self._queue.put(fleet)

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            fleet: Fleet | None = None
            for item in batch:
                if isinstance(item, str):
                    self._print(message_lines(item, datetime.now().astimezone()))
                elif isinstance(item, Fleet):
                    fleet = item
                elif isinstance(item, tuple):
                    fleet = self._tell(*item)
            if fleet is not None:
                self._redraw(fleet)
            if None in batch:
                return

    def _tell(self, lines: Lines, fleet: Fleet) -> Fleet:
        for line, rule in lines:
            said = by_rule(line, rule) if self._narrator is None else self._narrator.tell(line)
            if not said.minor:
                self._print([event_line(said.text, said.at, said.pane)])
        self._narrator = Narrator(fleet)
        return fleet

    def _print(self, lines: Sequence[str]) -> None:
        raise NotImplementedError

    def _redraw(self, fleet: Fleet) -> None:
        raise NotImplementedError


class LiveTable(_Drawn):
    """The table at the bottom of the terminal, events above it."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self.console = console or Console()
        self._live = Live(console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._shown: object = None
        self._conductor = {"pid": os.getpid(), "host": socket.gethostname()}

    def __enter__(self) -> Self:
        self._live.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, value, trace)
        self._live.stop()

    def _print(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.console.print(Text(line), style="red" if line.startswith(" ") else None)

    def _redraw(self, fleet: Fleet) -> None:
        size = self.console.size
        now = (rows := rows_of(fleet), size)
        if now != self._shown:
            self._shown = now
            self._live.update(live_view(rows, self._conductor, size.width), refresh=True)


class PlainLines(_Drawn):
    """Events as lines on a stream; no table is drawn there."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def _print(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def _redraw(self, fleet: Fleet) -> None:
        """The lines tell what changed."""


def message_lines(text: str, at: datetime) -> list[str]:
    """A message with its time; what it has beyond the first line is indented."""
    first, *rest = clean(text).strip().splitlines() or [""]
    return [f"{clock(at)} {first}", *(f"         {line}" for line in rest)]


def live_view(rows: Sequence[Row], conductor: Mapping[str, Any] | None, width: int) -> RenderableType:
    """What stands at the bottom of the terminal."""
    rule = Text(f"── {headline(conductor)} ".ljust(min(width, 400), "─")[:width], style="dim")
    if not rows:
        return Group(rule, Text("no panes yet: taskmaestro up 3 makes some", style="dim"))
    return Group(rule, rich_table(rows, width, message_lines=_ATTENTION_LINES))


def svg(
    fleet: Fleet, lines: Sequence[Said] = (), conductor: Mapping[str, Any] | None = None, *, width: int = 110
) -> str:
    """A picture of these lines with the table below, as ``conduct`` shows them; no font is fetched for it."""
    console = Console(
        record=True,
        width=width,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for said in lines:
        if not said.minor:
            console.print(Text(clean(event_line(said.text, said.at, said.pane))), no_wrap=True, overflow="ellipsis")
    console.print(live_view(rows_of(fleet), conductor, width))
    return _FONT.sub("", console.export_svg(title="taskmaestro conduct"))
