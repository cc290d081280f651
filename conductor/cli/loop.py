"""``taskmaestro loop``: where the review loops of a pull request are, what may follow, and which of them acts next.

The verbs' modules are loaded when they run, so that a detector starts at once.
"""

from __future__ import annotations

import click

from schemas.text import clean

VERBS: dict[str, str] = {
    "reviewer": "conductor.cli.loops.detectors:reviewer",
    "follow-up": "conductor.cli.loops.detectors:follow_up",
    "route": "conductor.cli.loops.detectors:route",
    "plan": "conductor.cli.loops.detectors:plan",
    "merge": "conductor.cli.loops.detectors:merge",
    "draft": "conductor.cli.loops.detectors:draft",
    "stage": "conductor.cli.loops.staging:stage",
    "notify": "conductor.cli.loops.staging:notify",
    "outer": "conductor.cli.loops.outer:outer",
    "watch": "conductor.cli.loops.outer:watch",
    "watch-ci": "conductor.cli.loops.outer:watch_ci",
    "startup": "conductor.cli.loops.outer:startup",
    "graph": "conductor.cli.loops.graph:graph",
}
"""Where each verb lives (``module:attribute``), in the order in which they are listed."""


class LoopGroup(click.Group):
    """A group that loads a verb only to run it, or to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = VERBS.get(cmd_name)
        if place is None:
            ctx.fail(f"There is no verb `loop {clean(cmd_name)}`. There are: {', '.join(VERBS)}.")
        from importlib import import_module

        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101  # a defect of the table, not of the caller
        return command


@click.group(cls=LoopGroup)
def loop() -> None:
    """Say where a pull request's review loops are, and which acts next.

    \b
    Verbs take JSON (--input FILE, or - for standard input) or a live pull request (--pr N), and
    answer JSON; a fault is {"ok": false, "error": ...} on standard error. Several lines of JSON
    get an answer each.

    \b
    Example: taskmaestro loop reviewer --input snapshot.json
             taskmaestro loop graph reviewer --format svg > reviewer.svg
    """
