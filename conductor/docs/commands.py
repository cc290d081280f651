"""docs/commands.md: every verb with its own help text, in the order of ``taskmaestro --help``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from conductor.cli.main import SECTIONS, cli

_WIDTH = 100
_HEAD = """\
# Commands

Generated from the commands themselves by `scripts/docs`. `taskmaestro VERB --help` shows the same text.

Every verb that only reads takes `--json`, `--jq FILTER` and `--silent`. The answer alone goes to stdout, everything
else to stderr; the exit codes are listed in [contracts.md](contracts.md#command-line).
"""


def page() -> str:
    """The whole page."""
    top = top_context()
    parts = [_HEAD]
    for title, verbs in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in verbs:
            verb = cli.get_command(top, name)
            if verb is not None:
                parts += _described(verb, name, top)
    return "\n".join(parts).rstrip() + "\n"


def top_context() -> click.Context:
    """The context in which the verbs stand, with the group's own settings: their help is that of a real call."""
    settings = {**cli.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
    return click.Context(cli, info_name="taskmaestro", **settings)


def walk(command: click.Command, name: str, parent: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """The command and everything below it, each with its context."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH)
    yield command, context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from walk(found, below, context)


def _described(verb: click.Command, name: str, top: click.Context) -> Iterator[str]:
    for command, context in walk(verb, name, top):
        level = "###" if command is verb else "####"
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        yield f"{level} {context.command_path}\n\n```text\n{text}\n```\n"
