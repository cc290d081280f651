"""What ``conduct`` shows: a live table on a terminal, plain lines elsewhere; both take the same calls.

The table is drawn again only when something changed: no thread wakes up for it.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from conductor.core.state import Fleet
from conductor.core.watches import awaited
from conductor.dashboard.narrate import Said
from conductor.dashboard.rows import Row, clock, row_of
from conductor.dashboard.table import rich_table
from schemas.text import clean, one_line

_ATTENTION_LINES = 5
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Display(Protocol):
    """Where the conductor shows what happens. Calls may come from any thread."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, fleet: Fleet, conductor: Mapping[str, Any] | None = None) -> None:
        """The states as of now, and who conducts (``pid``, ``host``, ``since``)."""

    def line(self, text: str, *, at: datetime | None = None, pane: int | None = None) -> None:
        """Something happened."""

    def said(self, said: Said) -> None:
        """A journal line happened; what only the curious want is left out."""


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


class LiveTable:
    """The table at the bottom of the terminal, events above it."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._shown: tuple[object, ...] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self, fleet: Fleet, conductor: Mapping[str, Any] | None = None) -> None:
        rows = rows_of(fleet)
        size = self.console.size
        now = (rows, headline(conductor), size)
        with self._lock:
            if now == self._shown:
                return
            self._shown = now
            self._live.update(live_view(rows, conductor, size.width), refresh=True)

    def line(self, text: str, *, at: datetime | None = None, pane: int | None = None) -> None:
        with self._lock:
            self.console.print(Text(event_line(text, at, pane)), soft_wrap=False)

    def said(self, said: Said) -> None:
        if not said.minor:
            self.line(said.text, at=said.at, pane=said.pane)


def live_view(rows: Sequence[Row], conductor: Mapping[str, Any] | None, width: int) -> RenderableType:
    """What stands at the bottom of the terminal."""
    rule = Text(f"── {headline(conductor)} ".ljust(min(width, 400), "─")[:width], style="dim")
    if not rows:
        return Group(rule, Text("no panes yet: taskmaestro up 3 makes some", style="dim"))
    return Group(rule, rich_table(rows, width, message_lines=_ATTENTION_LINES))


class PlainLines:
    """Events as lines on a stream; the table is not drawn there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def update(self, fleet: Fleet, conductor: Mapping[str, Any] | None = None) -> None:
        """States are not drawn here: the lines tell what changed."""

    def line(self, text: str, *, at: datetime | None = None, pane: int | None = None) -> None:
        with self._lock:
            self._stream.write(event_line(text, at, pane) + "\n")
            self._stream.flush()

    def said(self, said: Said) -> None:
        if not said.minor:
            self.line(said.text, at=said.at, pane=said.pane)


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
