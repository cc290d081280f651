"""``taskmaestro report``: write RESULT.json, so that the conductor knows how the task ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import click

from conductor.cli.numbers import FiniteRange
from worker.report import (
    Extras,
    find_place,
    read_findings,
    report_addressed,
    report_failure,
    report_review,
    report_success,
)


@click.group(name="report")
def command() -> None:
    """Tell the conductor how the task ended; issue, nonce and cycle come from TASK.md.

    \b
    taskmaestro report success --pr 12
    taskmaestro report failure --error "the build needs a newer compiler"
    taskmaestro report addressed --summary "renamed, test added"
    taskmaestro report review --result changes_requested --findings-file findings.json
    """


def _of_this_branch() -> int | None:
    from conductor.cli.context import find_context
    from conductor.forge import open_forge

    context = find_context()
    branch = context.current_branch()
    found = open_forge(context.config, context.root).pull_request_of_branch(branch) if branch else None
    return found.number if found is not None else None


def _extras(verb: Any) -> Any:
    verb = click.option("--json", "as_json", is_flag=True, help="Print the written result as JSON.")(verb)
    verb = click.option("--cost", type=FiniteRange(min=0), help="What the work cost, in US dollars.")(verb)
    return click.option("--summary", help="One paragraph for people.")(verb)


def _say(result: Any, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.model_dump(mode="json", exclude_none=True)))
    else:
        click.echo(f"reported {result.status}" + (f", pull request #{result.pr}" if result.pr else ""))


@command.command()
@click.option("--pr", type=click.IntRange(min=1), help="The pull request's number.")
@click.option("--pr-url", help="Or its URL.")
@_extras
def success(pr: int | None, pr_url: str | None, summary: str | None, cost: float | None, as_json: bool) -> None:
    """The work is done and its pull request is open. Without a number: the open one of this branch."""
    pr = pr or (None if pr_url else _of_this_branch())
    _say(report_success(find_place(Path.cwd()), pr, pr_url, Extras(summary, cost)), as_json)


@command.command()
@click.option("--error", required=True, help="What stopped you.")
@_extras
def failure(error: str, summary: str | None, cost: float | None, as_json: bool) -> None:
    """The work could not be finished."""
    _say(report_failure(find_place(Path.cwd()), error, Extras(summary, cost)), as_json)


@command.command()
@click.option("--cycle", type=click.IntRange(min=0), help="The review cycle that is answered; default: the task's.")
@_extras
def addressed(cycle: int | None, summary: str | None, cost: float | None, as_json: bool) -> None:
    """Every comment of the review was answered, by a fix or a rebuttal."""
    _say(report_addressed(find_place(Path.cwd()), cycle, Extras(summary, cost)), as_json)


@command.command()
@click.option("--result", required=True, type=click.Choice(["approve", "changes_requested"]), help="The verdict.")
@click.option("--findings-file", help="JSON list of findings; - for stdin.")
@_extras
def review(
    result: Literal["approve", "changes_requested"],
    findings_file: str | None,
    summary: str | None,
    cost: float | None,
    as_json: bool,
) -> None:
    """The verdict of a review pane."""
    findings = read_findings(findings_file) if findings_file else []
    _say(report_review(find_place(Path.cwd()), result, findings, Extras(summary, cost)), as_json)
