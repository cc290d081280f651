"""``taskmaestro assign``: give a pane a task, from an issue or in one's own words."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from conductor.cli.context import Context, find_context
from conductor.cli.decide import told
from conductor.cli.files import read_text
from conductor.cli.named import issue_named
from conductor.cli.numbers import NUMBER
from conductor.cli.output import read_options
from conductor.cli.requests import pane_known
from conductor.cli.status import read_state
from conductor.inbox import new_request
from conductor.layout import Layout
from schemas.errors import BadInput
from schemas.events import TaskGiven
from schemas.text import clean, one_line

MAX_BODY = 200_000
"""Characters of a task's text: TASK.md is read by an agent, not by a search engine."""


@click.command(name="assign")
@click.argument("pane", type=click.IntRange(min=1), metavar="N")
@click.option("--issue", type=NUMBER, metavar="M", help="The issue whose text is the task.")
@click.option("--title", metavar="TEXT", help="The task in one line, where it is no issue.")
@click.option("--body-file", metavar="FILE", help="More about it, from this file; - is stdin.")
@read_options
def command(
    *,
    pane: int,
    issue: int | None,
    title: str | None,
    body_file: str | None,
    as_json: bool,
    jq: str | None,
    silent: bool,
) -> int:
    """Give a pane a task.

    A pane is free when it has no task yet, or when its last one is approved or done. Without a conductor the
    task waits for the next `taskmaestro conduct`.

    \b
    Example: taskmaestro assign 2 --issue 31
             taskmaestro assign 2 --title "Say hello in French" --body-file task.md

    Exit codes: 0; 1 the pane is not free; 2 no such pane or issue; 3 the forge cannot be reached; 8 the
    conductor has not answered yet.
    """
    if (issue is None) == (title is None):
        raise BadInput("one of --issue and --title is needed", "--issue 31, or --title TEXT.")
    if body_file is not None and issue is not None:
        raise BadInput("--body-file goes with --title: an issue has its own text", "Leave one of them out.")
    context = find_context()
    layout = Layout(context.root)
    pane_known(layout, pane)
    role = read_state(layout.pane_file(pane)).get("role")
    if role != "worker":
        raise BadInput(f"pane {pane} is a {one_line(str(role))}, not a worker", "Only workers take tasks.")
    heading, body = _from_issue(context, issue) if issue is not None else (title or "", _body(body_file))
    heading = one_line(heading, 300)
    if not heading:
        raise BadInput("the task has no title", "Say in one line what is to be done.")
    if len(body) > MAX_BODY:
        raise BadInput(f"the task's text has {len(body)} characters, at most {MAX_BODY} are taken", "Shorten it.")
    event = TaskGiven(
        pane=pane,
        at=datetime.now(UTC),
        issue=issue,
        title=heading,
        body=clean(body),
        branch=_new_branch(context, layout, pane, issue),
        request=new_request(),
    )
    return told(layout, event, as_json=as_json, jq=jq, silent=silent)


def _new_branch(context: Context, layout: Layout, pane: int, issue: int | None) -> str | None:
    """A pane that had a task before starts the next one on a branch of its own; None where it keeps the one it has."""
    if read_state(layout.pane_file(pane)).get("status") not in ("done", "approved"):
        return None
    from conductor.forge import open_forge
    from conductor.loop.adapters import worktrees_of
    from conductor.loop.bring_up import branch_name

    worktrees = worktrees_of(layout, context.config, open_forge(context.config, context.root))
    return worktrees.turn_to(pane, branch_name(pane, issue)).branch


def _from_issue(context: Context, number: int) -> tuple[str, str]:
    from conductor.forge import open_forge

    found = issue_named(open_forge(context.config, context.root), number, "--issue")
    return found.title, found.body


def _body(body_file: str | None) -> str:
    if body_file is None:
        return ""
    return read_text(body_file, what="--body-file", strict=False)
