"""``taskmaestro issue``: the issues that workers are given, whatever the forge."""

from __future__ import annotations

import click

from conductor.cli.context import find_context
from conductor.cli.output import answer, note, read_options, telling_faults
from conductor.cli.pulls import body_options, read_body
from conductor.forge import open_forge
from conductor.ports import Forge
from schemas.errors import BadInput
from schemas.forge import Issue
from schemas.text import clean, one_line


@click.group()
def issue() -> None:
    """File, read and close issues.

    \b
    Example: taskmaestro issue view 12
    """


@issue.command()
@click.option("-t", "--title", required=True, help="One line that says what is to be done.")
@body_options
@read_options
@telling_faults
def create(*, title: str, body: str | None, body_file: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """File an issue. Acceptance criteria as a list of checkboxes are what reviews go by.

    \b
    Example: taskmaestro issue create --title "Add retries" --body "- [ ] three attempts"
    """
    made = _forge().create_issue(title, read_body(body, body_file) or "")
    answer(made.model_dump(mode="json"), as_json=as_json, jq=jq, silent=silent, text=_headline(made))


@issue.command()
@click.argument("number")
@read_options
@telling_faults
def view(*, number: str, as_json: bool, jq: str | None, silent: bool) -> None:
    """Show an issue.

    \b
    Example: taskmaestro issue view 12 --jq .title
    """
    found = _forge().issue(_number(number))
    answer(
        found.model_dump(mode="json"),
        as_json=as_json,
        jq=jq,
        silent=silent,
        text=lambda: f"{_headline(found)}\n\n{clean(found.body).strip() or '(no description)'}",
    )


@issue.command()
@click.argument("number")
@read_options
@telling_faults
def close(*, number: str, as_json: bool, jq: str | None, silent: bool) -> None:
    """Close an issue. A merged pull request closes those that its text says it closes (`Closes #12`) by itself.

    \b
    Example: taskmaestro issue close 12
    """
    closed = _forge().close_issue(_number(number))
    answer(closed.model_dump(mode="json"), as_json=as_json, jq=jq, silent=silent, text=_headline(closed))


@issue.command("list")
@read_options
@telling_faults
def list_(*, as_json: bool, jq: str | None, silent: bool) -> None:
    """List the open issues.

    \b
    Example: taskmaestro issue list --json
    """
    found = _forge().issues()
    if not found and not (as_json or jq is not None or silent):
        note("no open issues")
    answer(
        [one.model_dump(mode="json") for one in found],
        as_json=as_json,
        jq=jq,
        silent=silent,
        text=lambda: "\n".join(map(_headline, found)),
    )


def _forge() -> Forge:
    context = find_context()
    return open_forge(context.config, context.root)


def _number(number: str) -> int:
    digits = number.removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits)):
        raise BadInput(f"{one_line(number)!r} is no issue number", "Give a number such as 12 or #12.")
    return int(digits)


def _headline(found: Issue) -> str:
    return f"#{found.number}  {found.state}  {one_line(found.title)}"
