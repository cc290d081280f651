"""``taskmaestro conduct``: the conductor in the foreground."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import click

from conductor.cli.context import find_context
from conductor.layout import Layout

if TYPE_CHECKING:
    from conductor.core.state import Fleet
    from conductor.dashboard.live import Display
    from conductor.loop.conductor import Listeners
    from schemas.journal import JournalLine


@click.command(
    "conduct", short_help="Run the conductor in this terminal", epilog="Example: taskmaestro conduct --plain"
)
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
def command(plain: bool) -> None:
    """Watch the workers' results and conduct the review cycle until interrupted.

    On a terminal a live table, elsewhere plain lines. Ends at Ctrl-C or SIGTERM; everything is in the journal, and
    the next start goes on where this one ended.
    """
    from conductor.dashboard.live import LiveTable, PlainLines, terminal
    from conductor.loop.assemble import outside_of
    from conductor.loop.conductor import Conductor

    context = find_context()
    layout = Layout(context.root)
    view = PlainLines(sys.stdout) if plain or not sys.stdout.isatty() else LiveTable(terminal())
    conductor = Conductor(
        layout,
        context.config,
        outside_of(layout, context.config),
        _listeners(layout, view),
        end_hard=partial(_end_hard, view),
        lock_until_exit=True,
    )

    def end(_number: int, _frame: FrameType | None) -> None:
        conductor.stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    with view:
        conductor.run()


def _end_hard(view: Display) -> None:
    """Something that was begun does not come back, such as a question to a forge that hangs. The next start looks at
    what became of it, as after a kill; until this process is gone it keeps the lock.
    """
    from conductor.panes.processes import end, tree

    view.__exit__(None, None, None)
    sys.stdout.flush()
    sys.stderr.flush()
    end(tree(os.getpid()), grace=1.0)
    os._exit(0)


def _listeners(layout: Layout, view: Display) -> Listeners:
    """The view told of what happens: states first, then each journalled line in words."""
    from conductor.dashboard.narrate import Narrator
    from conductor.journal import holder
    from conductor.loop.conductor import Listeners

    narrator = Narrator()

    def started(fleet: Fleet) -> None:
        narrator.fleet = fleet
        view.update(fleet, holder(layout.lock))

    def changed(lines: Sequence[tuple[JournalLine, str]], fleet: Fleet) -> None:
        for line, _rule in lines:
            view.said(narrator.tell(line))
        view.update(fleet, holder(layout.lock))

    return Listeners(started=started, said=view.line, changed=changed)
