"""``taskmaestro stop``: end the conductor, and with ``--panes`` the agents too."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import nullcontext

import click

from conductor.cli.context import find_context
from conductor.cli.output import answer
from conductor.cli.turns import turn
from conductor.journal import holder
from conductor.layout import Layout
from schemas.errors import Unavailable

_WAIT = 20.0


def stop_conductor(layout: Layout) -> int | None:
    """End the live conductor and wait until it let go; answers its pid, None where none lived.

    Raises ``Unavailable`` for one on another host, or one that does not end.
    """
    held = holder(layout.lock)
    if held is None:
        return None
    pid, host = held.get("pid"), held.get("host")
    if not isinstance(pid, int) or host != socket.gethostname():
        raise Unavailable(f"the conductor runs on {host} (pid {pid})", "Run `taskmaestro stop` there.")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _WAIT
    while holder(layout.lock) is not None:
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the conductor (pid {pid}) did not end within {_WAIT:.0f} s",
                f"`kill -9 {pid}` is safe: the next start recovers from the journal.",
            )
        time.sleep(0.02)
    return pid


@click.command(
    "stop",
    short_help="End the conductor, with --panes the agents too; worktrees stay",
    epilog="Example: taskmaestro stop --panes",
)
@click.option("--panes", "and_panes", is_flag=True, help="End the agents and the tmux session too; worktrees stay.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(and_panes: bool, as_json: bool) -> None:
    """End the conductor in good order. The agents go on unless ``--panes`` is given; `taskmaestro up` starts again."""
    context = find_context()
    layout = Layout(context.root)
    # Where nothing was ever begun, nothing is written either.
    with turn(layout, "stop") if layout.state.is_dir() else nullcontext():
        pid = stop_conductor(layout)
        ended = _end_panes(layout) if and_panes else []
    value = {"conductor": pid, "panes": ended}
    said = f"The conductor (pid {pid}) ended." if pid is not None else "No conductor ran."
    answer(value, as_json=as_json, text=said + (f" {len(ended)} pane(s) ended." if and_panes else ""))


def _end_panes(layout: Layout) -> list[str]:
    from conductor.loop.adapters import panes_of
    from conductor.loop.bring_up import known_panes
    from conductor.panes.agents import agent_kinds

    config = find_context().config
    panes, kinds = panes_of(layout, config), agent_kinds(config)
    agents = {known.pane_id: known.agent for known in known_panes(layout).values() if known.pane_id}
    try:
        ours = [pane_id for pane_id, info in panes.all().items() if info.session == panes.session]
        return panes.end_all({pane_id: kinds.get(agents.get(pane_id, "")) for pane_id in ours})
    finally:
        panes.close()
