"""Reading tmux: the list of all panes, and one pane's screen, so that no text of others can pass for tmux's
words.

Every record and every free field is set off by a token drawn anew for this process; a screen is followed by
an answer that holds it, so that a screen which imitates the control protocol is noticed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from conductor.panes.control import ConnectionLost, TmuxRefused
from conductor.panes.server import NoServer, Tmux
from conductor.ports import PaneInfo, Screen
from schemas.text import clean, one_line

TAG = "@taskmaestro"
STARTED = "@taskmaestro_started"
BORDER = "@taskmaestro_title"

_TOKEN = secrets.token_hex(8)
_NUMBERS = (
    "pane_id", "window_id", "pane_dead", "pane_dead_status", "pane_dead_signal", "pane_pid", "pane_in_mode",
    "pane_width", "pane_height", "cursor_x", "cursor_y", "window_panes",
)  # fmt: skip
_TEXTS = ("session_name", TAG, STARTED, "pane_title", "pane_start_command")
_FORMAT = f"{_TOKEN}:" + f"/{_TOKEN}/".join(
    [":".join(f"#{{{name}}}" for name in _NUMBERS), *(f"#{{{name}}}" for name in _TEXTS)]
)


@dataclass(frozen=True)
class Row:
    """A pane with what this program needs beyond ``PaneInfo``: its tag, whether its program was started, its
    cursor.
    """

    info: PaneInfo
    tag: str
    started: bool
    cursor: tuple[int, int]
    window_panes: int


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def _row(record: str) -> Row:
    numbers, session, tag, started, title, command = record.split(f"/{_TOKEN}/", 5)
    pane_id, window_id, dead, status, signal, pid, mode, width, height, x, y, count = numbers.split(":")
    exit_status = int(status) if status.isdigit() else 128 + int(signal) if signal.isdigit() else None
    info = PaneInfo(
        pane_id=pane_id,
        session=session,
        window_id=window_id,
        dead=dead == "1",
        exit_status=exit_status if dead == "1" else None,
        pid=_number(pid),
        start_command=command.removesuffix("\n"),
        title=one_line(title),
        in_mode=_number(mode) > 0,
        width=_number(width),
        height=_number(height),
    )
    return Row(info, tag, started == "1", (_number(x), _number(y)), _number(count))


def _rows(lines: list[str]) -> list[Row]:
    records = "\n".join(lines).split(f"{_TOKEN}:")
    return [_row(record) for record in records if record.strip()]


def all_rows(tmux: Tmux) -> dict[str, Row]:
    """All panes of the server by id; empty where no server runs.

    A pane whose window is linked into several sessions counts for ours.
    """
    try:
        lines = tmux.read("list-panes", "-a", "-F", _FORMAT)
    except NoServer:
        return {}
    except ConnectionLost:
        # The server went away under the question; whether it is gone is for a fresh process to say.
        return all_rows_anew(tmux)
    return _by_id(tmux, lines)


def all_rows_anew(tmux: Tmux) -> dict[str, Row]:
    """``all_rows`` by a process of its own."""
    try:
        return _by_id(tmux, tmux.once(("list-panes", "-a", "-F", _FORMAT)))
    except (NoServer, ConnectionLost):
        return {}


def _by_id(tmux: Tmux, lines: list[str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in _rows(lines):
        if row.info.pane_id not in found or row.info.session == tmux.session:
            found[row.info.pane_id] = row
    return found


def _question(pane_id: str) -> tuple[str, ...]:
    """The panes of this one's window, filtered for it: quicker than all panes, never another's answer."""
    return ("list-panes", "-t", pane_id, "-f", f"#{{==:#{{pane_id}},{pane_id}}}", "-F", _FORMAT)


def _answer(tmux: Tmux, pane_id: str, lines: list[str]) -> Row | None:
    """The one row, where it is this pane's and says so from our session."""
    rows = _rows(lines)
    if len(rows) == 1 and rows[0].info.pane_id == pane_id and rows[0].info.session == tmux.session:
        return rows[0]
    return None


def row_of(tmux: Tmux, pane_id: str) -> Row | None:
    """One pane, None where it is not among all panes of the server."""
    try:
        row = _answer(tmux, pane_id, tmux.read(*_question(pane_id)))
    except (TmuxRefused, NoServer, ConnectionLost):
        row = None
    return row or all_rows(tmux).get(pane_id)


def screen_of(tmux: Tmux, pane_id: str, history: int = 0) -> tuple[Row, Screen] | None:
    """The pane and what it shows now, with up to ``history`` lines above; None where there is no such pane.

    The cursor is tmux's (column, row) on the visible screen; wrapped lines are joined, so its row need not be
    the line's.
    """
    capture = ["capture-pane", "-p", "-J", "-t", pane_id, *(["-S", str(-history)] if history else [])]
    shown: list[str] = []
    try:
        shown, listed = tmux.run_many(capture, _question(pane_id))
        row = _answer(tmux, pane_id, listed)
    except (TmuxRefused, NoServer, ConnectionLost, ValueError):
        row = None
    if row is None:
        # No such pane, or one in another session; or a screen that imitates the protocol, which cannot reach
        # a process of its own.
        row = all_rows_anew(tmux).get(pane_id)
        if row is None:
            return None
        if row.info.session == tmux.session:
            tmux.drop(f"the screen of pane {pane_id} could not be told from tmux's own words")
        try:
            shown = tmux.once(capture)
        except (TmuxRefused, NoServer, ConnectionLost):
            return None
    lines = [line.rstrip(" ") for line in clean("\n".join(shown)).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return row, Screen(tuple(lines), row.info.title, row.cursor)
