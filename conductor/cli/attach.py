"""``taskmaestro attach``: the fleet's tmux session, in this terminal."""

from __future__ import annotations

import os

import click

from conductor.cli.context import find_context
from conductor.layout import Layout
from schemas.errors import NotSo, Unavailable


@click.command("attach", short_help="Show the panes", epilog="Example: taskmaestro attach")
def command() -> None:
    """Show the panes in this terminal: attach, or switch to them where this terminal is in tmux already."""
    import shutil

    from conductor.loop.adapters import panes_of
    from conductor.panes.whereabouts import usual

    context = find_context()
    panes = panes_of(Layout(context.root), context.config)
    if not any(info.session == panes.session for info in panes.all().values()):
        raise NotSo(f"the tmux session {panes.session} does not run", "`taskmaestro up` brings it about.")
    program = shutil.which("tmux")
    if program is None:
        raise Unavailable("tmux was not found on PATH", "`taskmaestro doctor` names the command that installs it.")
    there, here = panes.socket_path(), usual(os.environ)
    verb = "switch-client" if os.environ.get("TMUX") and there.resolve() == here.resolve() else "attach-session"
    socket = ["-S", str(there)]
    environment = {name: value for name, value in os.environ.items() if verb == "switch-client" or name != "TMUX"}
    os.execve(  # noqa: S606 - no shell is wanted
        program, ["tmux", "-u", *socket, verb, "-t", f"={panes.session}"], environment
    )
