"""``taskmaestro decide``: a person's decision where a pane waits for one; journalled with who and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast, get_args

import click

from conductor.cli.context import Context, find_context
from conductor.cli.named import open_issue_named
from conductor.cli.numbers import NUMBER
from conductor.cli.output import answer, read_options
from conductor.cli.requests import ask, pane_known, who
from conductor.cli.status import read_state
from conductor.dashboard.outlook import VerbName
from conductor.inbox import new_request
from conductor.layout import Layout
from schemas.errors import BadInput, NotSo, StillPending
from schemas.events import UserDecided
from schemas.text import clean, one_line

_AT_WORK = ("working", "reviewing", "review_pending", "review_addressed")
"""A task may be given up there although nobody asked."""


@click.command(name="decide")
@click.argument("pane", type=click.IntRange(min=1), metavar="N")
@click.argument("verb", type=click.Choice(get_args(VerbName)))
@click.option("--why", required=True, metavar="TEXT", help="The reason; it is kept in the journal.")
@click.option(
    "--follow-up",
    type=NUMBER,
    metavar="ISSUE",
    help="With approve: the open issue that takes up the high findings that stay open.",
)
@read_options
def command(
    *, pane: int, verb: str, why: str, follow_up: int | None, as_json: bool, jq: str | None, silent: bool
) -> int:
    """Decide where a pane waits for a person.

    \b
    approve        take the pull request although the review asked for changes (never with a critical finding)
    another-cycle  one more review, or one more return after CI failed
    retry          try again what failed
    abandon        give the task up, also one at work that nobody asked about

    `taskmaestro explain N` lists what the rules would take now. Without a conductor the decision waits for
    the next `taskmaestro conduct`.

    \b
    Example: taskmaestro decide 2 another-cycle --why "the last finding is easy"
             taskmaestro decide 2 approve --why "accepted for the demo" --follow-up 31

    Exit codes: 0; 1 nothing waits for a decision, or the rules do not take it; 2 no such pane, or
    no such open issue; 3 the forge cannot be reached; 8 the conductor has not answered yet.
    """
    context = find_context()
    layout = Layout(context.root)
    pane_known(layout, pane)
    state = read_state(layout.pane_file(pane))
    given_up_at_work = verb == "abandon" and state.get("status") in _AT_WORK
    if not state.get("attention") and not given_up_at_work:
        raise NotSo(
            f"nothing waits for a decision in pane {pane}: it is {one_line(str(state.get('status')))}, awaited:"
            f" {one_line(str(state.get('awaiting')) or 'nothing')}",
            f"`taskmaestro explain {pane}` says what would move it.",
        )
    reason = clean(why).strip()
    if not reason:
        raise BadInput("--why is empty", "Say why in a few words: the journal keeps it.")
    if follow_up is not None and verb != "approve":
        raise BadInput("--follow-up goes with approve only", "Leave it out.")
    if follow_up is not None:
        _must_be_open(context, follow_up)
    event = UserDecided(
        pane=pane,
        at=datetime.now(UTC),
        verb=cast(VerbName, verb),
        why=reason,
        who=who(layout),
        request=new_request(),
        follow_up_issue=follow_up,
    )
    return told(layout, event, as_json=as_json, jq=jq, silent=silent)


def _must_be_open(context: Context, number: int) -> None:
    """Findings may only be left to an issue that somebody can work on."""
    from conductor.forge import open_forge

    open_issue_named(open_forge(context.config, context.root), number, "--follow-up")


def told(layout: Layout, event: Any, *, as_json: bool, jq: str | None, silent: bool) -> int:
    """Ask the conductor, print what became of it, and answer the exit code."""
    lives, taken = ask(layout, event)
    if taken is not None:
        text = taken.words
    elif lives:
        text = f"the conductor has not taken it yet; `taskmaestro journal --pane {event.pane}` will show it"
    else:
        text = "no conductor runs: it is kept, and taken when `taskmaestro conduct` starts"
    value = {
        "request": event.request,
        "taken": taken is not None,
        "rule": taken.rule if taken else None,
        "refused": taken.refused if taken else None,
        "message": text,
    }
    answer(value, as_json=as_json, jq=jq, silent=silent, text=text)
    if taken is not None:
        return NotSo.exit_code if taken.refused else 0
    return StillPending.exit_code if lives else 0
