"""The pure verbs of ``taskmaestro loop``: JSON in, JSON out, nothing else read or written."""

from __future__ import annotations

from typing import Any

import click

from conductor.cli.loops.reading import answer_each, input_options, read_file


@click.command()
@input_options
def reviewer(*, source: str, as_json: bool, jq: str | None, silent: bool) -> None:  # noqa: ARG001  # JSON always
    """Say in which state the reviewer loop is, from a snapshot.

    \b
    Example: taskmaestro loop reviewer --input snapshot.json --jq .state
    """
    from conductor.core.loops.reviewer_loop import detect

    answer_each(source, detect, jq=jq, silent=silent)


@click.command(name="follow-up")
@click.option("--config", metavar="FILE", help="JSON with maxCopilotRounds, stopOnLowSignal and its two limits.")
@input_options
def follow_up(
    *,
    source: str,
    config: str | None,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Say in which state the follow-up loop is, from a snapshot.

    \b
    Example: taskmaestro loop follow-up --input snapshot.json --config limits.json
    """
    from conductor.core.loops.follow_up_loop import detect
    from schemas.loops.follow_up import read_limits

    limits: Any = None if config is None else read_file(config)
    read_limits(limits)
    answer_each(source, lambda snapshot: detect(snapshot, limits), jq=jq, silent=silent)


@click.command()
@input_options
def route(*, source: str, as_json: bool, jq: str | None, silent: bool) -> None:  # noqa: ARG001  # JSON always
    """Say which loop acts next, from the states of both.

    \b
    Example: taskmaestro loop route --input states.json --jq .outerAction
    """
    from conductor.core.loops.routing import detect

    answer_each(source, detect, jq=jq, silent=silent)


@click.command()
@input_options
def plan(*, source: str, as_json: bool, jq: str | None, silent: bool) -> None:  # noqa: ARG001  # JSON always
    """Choose the angles of a review and name its runs.

    The input has requestedAngles, maxParallel and lenses ({"dry": "maintainability"}); all may be left out.

    \b
    Example: taskmaestro loop plan --input options.json
    """
    from conductor.core.loops.plan import detect

    answer_each(source, detect, jq=jq, silent=silent)


@click.command()
@input_options
def merge(*, source: str, as_json: bool, jq: str | None, silent: bool) -> None:  # noqa: ARG001  # JSON always
    """Merge the results of review runs into one review with one verdict.

    \b
    Example: taskmaestro loop merge --input results.json > merged-review.json
    """
    from conductor.core.loops.merge import detect

    answer_each(source, detect, jq=jq, silent=silent)


@click.command()
@input_options
def draft(*, source: str, as_json: bool, jq: str | None, silent: bool) -> None:  # noqa: ARG001  # JSON always
    """Make the payload of a pending review from a merged one; nothing is sent.

    \b
    Example: taskmaestro loop draft --input merged-review.json
    """
    from conductor.core.loops.draft import detect

    answer_each(source, detect, jq=jq, silent=silent)
