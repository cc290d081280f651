"""A pane's published state as a row for people, and a table of rows in plain text. Nothing heavy is loaded here.

States come as plain JSON objects (``state/panes/N.json``): whatever is in them is cleaned before a terminal sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from schemas.text import clean, one_line

MAX_CYCLES = 3
"""The cap where the configuration names none (``schemas.config.ReviewConfig``; a test holds them together)."""

UNLIMITED = 10_000
GAP = 2
_NARROWEST = 8


class Attention(NamedTuple):
    """A person is wanted: ``message`` is the whole text, ``since`` a time for people."""

    reason: str
    since: str
    message: str


class Row(NamedTuple):
    """One pane, each field as text for people."""

    pane: str
    agent: str
    status: str
    cycle: str
    pr: str
    head: str
    event: str
    when: str
    awaiting: str
    attention: Attention | None


def moment(text: object) -> datetime | None:
    """An ISO 8601 time; None where it is not one."""
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def age(since: datetime | None, now: datetime) -> str:
    """How long ago: ``now``, ``12 s``, ``3 min``, ``2 h``, ``4 d``; empty where it is not known."""
    if since is None:
        return ""
    seconds = int((now - since).total_seconds())
    if seconds < 1:
        return "now"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clock(at: datetime | None) -> str:
    """The local time of day."""
    return f"{at.astimezone():%H:%M:%S}" if at is not None else ""


def row_of(state: Mapping[str, Any], *, max_cycles: int, now: datetime | None) -> Row:
    """The row of one state. ``now``: times are shown as ages; None: as the local time of day."""

    def told(at: datetime | None) -> str:
        return clock(at) if now is None else age(at, now)

    role = _text(state.get("role"))
    agent = _text(state.get("agent")) or "-"
    cycle = state.get("review_cycle")
    cycle = cycle if isinstance(cycle, int) else 0
    number = state.get("pr_number")
    attention = state.get("attention")
    conducts = role == "conductor"
    return Row(
        pane=_text(state.get("index")),
        agent=agent if role == "worker" else role if agent in ("-", role) else f"{role}: {agent}",
        status="-" if conducts else _text(state.get("status")),
        cycle="-" if conducts else f"{cycle}/{max(max_cycles, cycle)}",
        pr=f"#{number}" if isinstance(number, int) else "-",
        head=_text(state.get("head_sha"))[:7] or "-",
        event=_text(state.get("last_event")) or "-",
        when=told(moment(state.get("updated_at"))),
        awaiting="-" if conducts else _text(state.get("awaiting")) or "-",
        attention=_attention(attention, told(moment(attention.get("since"))))
        if isinstance(attention, Mapping)
        else None,
    )


def _attention(attention: Mapping[str, Any], since: str) -> Attention:
    message = clean(str(attention.get("message") or "")).strip()
    return Attention(_text(attention.get("reason")), since, message)


def _text(value: object) -> str:
    return "" if value is None else one_line(str(value), 120)


HEADINGS = ("PANE", "AGENT", "STATUS", "CYCLE", "PR", "HEAD", "LAST EVENT", "WHEN", "AWAITS")
_FLEXIBLE = ("LAST EVENT", "AWAITS", "AGENT")
_LEFT_OUT = {100: ("LAST EVENT", "WHEN"), 72: ("HEAD",)}
"""What a terminal narrower than this goes without."""


def fitting(rows: Sequence[Row], width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places in ``HEADINGS`` of the columns that are shown in this width, and how wide each is.

    Columns of free text give way, the widest first; the others are never cut.
    """
    left_out = {name for limit, names in _LEFT_OUT.items() if width < limit for name in names}
    places = [place for place, heading in enumerate(HEADINGS) if heading not in left_out]
    widths = [max([len(HEADINGS[place]), *(len(cells(row)[place]) for row in rows)]) for place in places]
    flexible = [column for column, place in enumerate(places) if HEADINGS[place] in _FLEXIBLE]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:
        widest = max(flexible, key=lambda column: widths[column])
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
        excess -= 1
    return tuple(places), tuple(widths)


def cells(row: Row) -> tuple[str, ...]:
    """The row's fields in the order of ``HEADINGS``."""
    return row.pane, row.agent, row.status, row.cycle, row.pr, row.head, row.event, row.when, row.awaiting


def attention_lines(row: Row, width: int) -> list[str]:
    """What a person should know of this pane; empty where nothing is wanted."""
    if row.attention is None:
        return []
    head = f"! pane {row.pane} needs a person: {row.attention.reason} ({row.attention.since})"
    body = [f"    {line}" for line in row.attention.message.splitlines() if line.strip()]
    return [one_line(head, width), *(line if len(line) <= width else line[: width - 1] + "…" for line in body)]


def plain_table(rows: Sequence[Row], width: int = UNLIMITED) -> str:
    """The rows as aligned columns of at most ``width`` characters, then what needs a person."""
    places, widths = fitting(rows, width)
    lines = [[HEADINGS[place] for place in places], *([cells(row)[place] for place in places] for row in rows)]
    out = [
        (" " * GAP).join(_cut(text, size) for text, size in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    for row in rows:
        out += attention_lines(row, width)
    return "\n".join(out)


def _cut(text: str, size: int) -> str:
    return text.ljust(size) if len(text) <= size else text[: size - 1] + "…"
