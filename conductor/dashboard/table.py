"""The rows as a coloured table for a terminal, with rich: for ``status`` and for the live view of ``conduct``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from conductor.dashboard.rows import GAP, HEADINGS, Row, attention_lines, cells, fitting

_STYLES = {
    "working": "cyan",
    "reviewing": "blue",
    "review_pending": "yellow",
    "review_addressed": "magenta",
    "approved": "green",
    "done": "dim",
}


def rich_table(rows: Sequence[Row], width: int, *, message_lines: int | None = None) -> RenderableType:
    """The rows as a table for a terminal of this width, then what needs a person (``message_lines`` of each)."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_edge=False)
    places, widths = fitting(rows, width)
    for place, size in zip(places, widths, strict=True):
        table.add_column(HEADINGS[place], no_wrap=True, overflow="ellipsis", width=size)
    for row in rows:
        texts = [Text(cells(row)[place]) for place in places]
        texts[places.index(HEADINGS.index("STATUS"))].stylize(_STYLES.get(row.status, ""))
        if row.attention is not None:
            texts[0].stylize("bold red")
        table.add_row(*texts)
    parts: list[RenderableType] = [table]
    for row in rows:
        lines = attention_lines(row, width)
        if message_lines == 1:
            lines = lines[:1]
        elif message_lines is not None and len(lines) > message_lines:
            lines = [*lines[: message_lines - 1], f"    … (all of it: taskmaestro explain {row.pane})"]
        parts += [Text(line, style="bold red" if number == 0 else "red") for number, line in enumerate(lines)]
    return Group(*parts)
