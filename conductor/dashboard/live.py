"""What ``conduct`` shows: a live table on a terminal, plain lines elsewhere; both take the same calls.

The calls only leave word and return: a thread of its own draws, so that a slow or stopped terminal never holds the
conductor up. It sleeps until something changed; the table is drawn again only then.
"""

from __future__ import annotations

import io
import os
import queue
import re
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from conductor.core.state import Fleet
from conductor.core.watches import awaited
from conductor.dashboard.narrate import Said
from conductor.dashboard.rows import Row, attention_lines, clock, row_of
from conductor.dashboard.table import rich_table
from schemas.text import clean, one_line

_ATTENTION_LINES = 5
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_HANGING = " " * 17
"""Under the words of an event line, behind time and pane."""
_LAST_WORDS = 5.0
"""Seconds for which the end waits for what is still to be drawn."""


class Display(Protocol):
    """Where the conductor shows what happens. Calls may come from any thread and return at once."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, fleet: Fleet, conductor: Mapping[str, Any] | None = None) -> None: ...

    def line(self, text: str, *, at: datetime | None = None, pane: int | None = None) -> None: ...

    def said(self, said: Said) -> None: ...


class _State(NamedTuple):
    fleet: Fleet
    conductor: Mapping[str, Any] | None


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


class _Drawn(ABC):
    """Takes word from any thread and draws it in its own. Subclasses draw: ``_print`` and ``_redraw``."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[list[str] | _State | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="display", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join(timeout=_LAST_WORDS)

    def update(self, fleet: Fleet, conductor: Mapping[str, Any] | None = None) -> None:
        """The states as of now, and who conducts (``pid``, ``host``)."""
        self._queue.put(_State(fleet, conductor))

    def line(self, text: str, *, at: datetime | None = None, pane: int | None = None) -> None:
        """Something for people, with its time; a text of several lines keeps them."""
        self._queue.put(message_lines(text, at, pane))

    def said(self, said: Said) -> None:
        """A journal line happened; what only the curious want is left out."""
        if not said.minor:
            self._queue.put([event_line(said.text, said.at, said.pane)])

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            last: _State | None = None
            for item in batch:
                if isinstance(item, _State):
                    last = item
                elif item is not None:
                    self._print(item)
            if last is not None:
                self._redraw(last)
            going_on = None not in batch

    @abstractmethod
    def _print(self, lines: Sequence[str]) -> None:
        """Write lines that stay."""

    @abstractmethod
    def _redraw(self, state: _State) -> None:
        """Show this state in place of the last one."""


def terminal() -> Console:
    """This terminal in its own size: COLUMNS and LINES may be those of the one that something was started from."""
    return Console(_environ={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")})


class LiveTable(_Drawn):
    """The table at the bottom of the terminal, events above it."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self.console = console or Console()
        self._live = Live(console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live.vertical_overflow = "crop"
        self._shown: object = None
        self._size: tuple[int, int] | None = None
        self._last: _State | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        self._live.start()
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGWINCH, self._resized)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGWINCH, self._before)
        super().__exit__(kind, value, trace)
        self._live.stop()

    def _resized(self, _number: int, _frame: object) -> None:
        """The terminal has another size: the same is drawn again, in it."""
        if self._last is not None:
            self._queue.put(self._last)

    def _print(self, lines: Sequence[str]) -> None:
        width = self.console.width
        for line in lines:
            for part in wrap(line, width, subsequent_indent=_HANGING, drop_whitespace=False) or [""]:
                self.console.print(Text(part.rstrip()), no_wrap=True, overflow="ellipsis")

    def _redraw(self, state: _State) -> None:
        self._last = state
        rows, size = rows_of(state.fleet), self.console.size
        now = (rows, headline(state.conductor), size)
        if now != self._shown:
            self._shown = now
            if self._size not in (None, size):
                self.console.clear()  # the terminal has wrapped the old table
            self._size = size
            self._live.update(live_view(rows, state.conductor, size.width, size.height), refresh=True)


class PlainLines(_Drawn):
    """Events as lines on a stream; no table is drawn there."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def _print(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def _redraw(self, state: _State) -> None:
        """The lines tell what changed."""


def message_lines(text: str, at: datetime | None, pane: int | None) -> list[str]:
    """A message with its time and pane; what it has beyond the first line is indented."""
    first, *rest = clean(text).strip().splitlines() or [""]
    if pane is not None:
        return [event_line(first, at, pane), *(f"         {line}" for line in rest)]
    return [f"{clock(at or datetime.now().astimezone())} {first}", *(f"         {line}" for line in rest)]


def live_view(
    rows: Sequence[Row], conductor: Mapping[str, Any] | None, width: int, height: int | None = None
) -> RenderableType:
    """What stands at the bottom of the terminal. In few rows (``height``) the table comes first, then one line for each
    pane that needs a person; who conducts is left out where even that is too much.
    """
    rule = Text(f"── {headline(conductor)} ".ljust(min(width, 400), "─")[:width], style="dim")
    if not rows:
        return Group(rule, Text("no panes yet: taskmaestro up 3 makes some", style="dim"))
    told = [len(attention_lines(row, width)) for row in rows]
    table = 1 + len(rows)
    if height is None or 1 + table + sum(min(count, _ATTENTION_LINES) for count in told) <= height:
        return Group(rule, rich_table(rows, width, message_lines=_ATTENTION_LINES))
    short = rich_table(rows, width, message_lines=1)
    return Group(rule, short) if 1 + table + sum(map(bool, told)) <= height else short


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
