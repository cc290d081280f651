"""``taskmaestro conduct``: the conductor in the foreground."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import click

from conductor.cli.context import find_context
from conductor.layout import Layout


@click.command(
    epilog="Example: taskmaestro conduct --plain",
    short_help="Run the conductor in the foreground.",
)
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
def conduct(plain: bool) -> None:
    """Watch the workers' results and conduct the review cycle until interrupted.

    On a terminal a live table, elsewhere plain lines. Ends at Ctrl-C or SIGTERM; everything is in the journal, and
    the next start goes on where this one ended.
    """
    from conductor.dashboard.live import LiveTable, PlainLines
    from conductor.loop.assemble import outside_of
    from conductor.loop.conductor import Conductor, Listeners

    context = find_context()
    layout = Layout(context.root)
    view = PlainLines(sys.stdout) if plain or not sys.stdout.isatty() else LiveTable()
    listeners = Listeners(said=view.said, changed=view.changed)
    conductor = Conductor(layout, context.config, outside_of(layout, context.config), listeners)

    def end(_number: int, _frame: FrameType | None) -> None:
        conductor.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGHUP, end)
    with view:
        conductor.run()
