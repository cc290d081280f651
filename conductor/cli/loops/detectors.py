"""The detectors of ``taskmaestro loop`` and the verbs around a review: JSON in, JSON out.

With ``--input`` nothing else is read; what a live pull request needs is loaded for ``--pr`` alone.
"""

from __future__ import annotations

from typing import Any

import click

from conductor.cli.loops.reading import answer_each, input_options, input_or_live_options, one_way, read_file


@click.command()
@click.option("--reviewer-login", metavar="LOGIN", help="Whose loop; default: the one requested reviewer, else all.")
@click.option(
    "--review-requested", type=click.Choice(["true", "false"]), help="Whether a review is requested, where you know."
)
@click.option(
    "--local-state",
    metavar="FILE",
    help="What the pass wrote down, such as loop stage's; default: the conductor's own of this pull request.",
)
@input_or_live_options
def reviewer(
    *,
    source: str | None,
    repo: str | None,
    number: int | None,
    reviewer_login: str | None,
    review_requested: str | None,
    local_state: str | None,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Say in which state the reviewer loop is, of a snapshot or of a live pull request.

    \b
    Example: taskmaestro loop reviewer --input snapshot.json --jq .state
             taskmaestro loop reviewer --pr 12 --local-state draft.json
    """
    one_way(source, number, repo, reviewer_login, review_requested, local_state)
    if number is None:
        from conductor.core.loops.reviewer_loop import detect

        answer_each(str(source), detect, jq=jq, silent=silent)
        return
    from conductor.cli.loops.live import Target, read_local, say
    from conductor.loop.detect import Wishes, reviewer

    target = Target.find(repo, number)
    wishes = Wishes(
        login=reviewer_login,
        review_requested=None if review_requested is None else review_requested == "true",
        local=None if local_state is None else read_local(local_state, number),
    )
    say(reviewer(target.forge, target.layout, number, wishes), jq=jq, silent=silent)


@click.command(name="follow-up")
@click.option("--config", metavar="FILE", help="JSON with maxCopilotRounds, stopOnLowSignal and its two limits.")
@click.option(
    "--review-request-status",
    type=click.Choice(["none", "requested", "already-requested", "unavailable", "failed"]),
    help="How asking for the external review went, where you know.",
)
@click.option("--local-validation-head-sha", metavar="SHA", help="The commit for which the battery passed here.")
@input_or_live_options
def follow_up(
    *,
    source: str | None,
    repo: str | None,
    number: int | None,
    config: str | None,
    review_request_status: str | None,
    local_validation_head_sha: str | None,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Say in which state the follow-up loop is, of a snapshot or of a live pull request.

    \b
    Example: taskmaestro loop follow-up --input snapshot.json --config limits.json
             taskmaestro loop follow-up --pr 12 --jq .nextAction
    """
    one_way(source, number, repo, review_request_status, local_validation_head_sha)
    from schemas.loops.follow_up import read_limits

    limits: Any = None if config is None else read_file(config)
    read_limits(limits)
    if number is None:
        from conductor.core.loops.follow_up_loop import detect

        answer_each(str(source), lambda snapshot: detect(snapshot, limits), jq=jq, silent=silent)
        return
    from conductor.cli.loops.live import Target, say
    from conductor.loop.detect import Wishes, follow_up

    target = Target.find(repo, number)
    wishes = Wishes(
        request_status=review_request_status,
        validated_head=local_validation_head_sha,
        external=target.external,
        limits=limits,
    )
    say(follow_up(target.forge, number, wishes), jq=jq, silent=silent)


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
