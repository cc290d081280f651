"""What an agent is doing, from its receipts and from its screen.

The screen is believed where it shows something that stops the agent (a dialog, a limit, an error); else a
receipt that is newer than the pane's last output; else the screen; else the last receipt.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from conductor.panes.listing import Row, row_of
from conductor.panes.processes import is_zombie
from conductor.panes.receipts import Receipt
from conductor.panes.server import Tmux
from conductor.ports import AgentKind, AgentState, AgentStateName, Screen

_BY_RECEIPT: dict[str, AgentStateName] = {"prompt": "busy", "stop": "idle", "permission": "permission"}
_STOPPERS = frozenset({"permission", "trust", "limit", "error", "gone"})
_SLACK = 0.05
_NUDGES = 5
_BY_HOOK = "by its hook: "


def settled(tmux: Tmux, row: Row) -> Row:
    """The row, asked again where a dead pane has no exit status yet, or its program has ended and tmux has not seen it.

    tmux 3.3a can miss an end until it sees another child end; an empty status is never a result.
    """
    for _ in range(_NUDGES):
        missed = is_zombie(row.info.pid) if not row.info.dead else row.info.exit_status is None
        if not missed or row.info.pid == 0:
            break
        tmux.run("run-shell", "-b", ":")
        time.sleep(0.01)
        again = row_of(tmux, row.info.pane_id)
        if again is None:
            break
        row = again
    return row


def gone(row: Row) -> AgentState:
    status = "exit status unknown" if row.info.exit_status is None else f"exit status {row.info.exit_status}"
    return AgentState("gone", f"its program ended ({status})")


def by_hook_alone(state: AgentState) -> bool:
    """A hook says so, and the screen does not show it."""
    return state.detail.startswith(_BY_HOOK)


def combined(row: Row, screen: Screen, agent: AgentKind, receipt: Receipt | None, still: float) -> AgentState:
    """The state; ``still`` is for how many seconds the pane wrote nothing, 0 where that is not known."""
    if row.info.dead:
        return gone(row)
    seen = agent.classify(screen)
    if seen.name == "unknown" and not any(line.strip() for line in screen.lines):
        seen = AgentState("starting", "nothing on its screen yet")
    told = _BY_RECEIPT.get(receipt.event) if receipt is not None else None
    if receipt is None or told is None or seen.name in _STOPPERS:
        return seen
    age = (datetime.now(UTC) - receipt.at).total_seconds()
    if seen.name == told:
        return seen
    if seen.name == "unknown" or age <= still + _SLACK:
        return AgentState(told, f"{_BY_HOOK}{receipt.event}")
    return seen
