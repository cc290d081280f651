"""``taskmaestro ship``: from staged changes to a reported pull request in one step."""

from __future__ import annotations

import json
from pathlib import Path

import click

from conductor.cli.numbers import FiniteRange
from worker.report import Extras
from worker.ship import Wishes
from worker.ship import ship as ship_it
from worker.tools.files import refuse_irregular


@click.command(name="ship")
@click.option("--amend", is_flag=True, help="Amend the last commit instead of adding one (after a review).")
@click.option("--message", "-m", help="The commit's message; default: the title.")
@click.option("--title", help="The pull request's title; default: the commit's subject.")
@click.option(
    "--body-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the pull request's text.",
)
@click.option("--summary", help="One paragraph for people, for the report.")
@click.option("--cost", type=FiniteRange(min=0), help="What the work cost, in US dollars.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    amend: bool,
    message: str | None,
    title: str | None,
    body_file: Path | None,
    summary: str | None,
    cost: float | None,
    as_json: bool,
) -> None:
    """Run the battery, commit what is staged, push with a lease, open the pull request, report.

    Only staged files are committed. What was done already is not done again, so after an interruption
    the same command goes on. Exit codes: 0 done; 1 the battery or a hook failed, or nothing to ship;
    2 wrong branch or files that must not be committed; 3 remote or forge not reachable; 4 somebody
    else pushed to the branch, or deleted it.

    \b
    git add src/parser.py tests/test_parser.py
    taskmaestro ship --title "Parse dates" --body-file body.md
    taskmaestro ship --amend
    """
    if body_file is not None:
        refuse_irregular(body_file, body_file.stat())
    wishes = Wishes(amend, message, title, body_file, Extras(summary, cost))
    done = ship_it(Path.cwd(), wishes, told=lambda line: click.echo(line, err=True))
    if as_json:
        click.echo(json.dumps(done.as_json()))
        return
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"#{done.pr_number} {done.head[:12]} {done.reported or 'not reported'}")
