"""``taskmaestro loop outer``, ``watch``, ``watch-ci``, ``startup``: the outer loop on a live pull request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import click

from conductor.cli.loops.live import Target, say
from conductor.cli.loops.reading import loop_options, target_options
from conductor.cli.numbers import NUMBER, FiniteRange
from conductor.cli.output import note
from conductor.core.loops import outer as rules
from conductor.core.loops.ci import Credit, ci_status
from conductor.core.loops.facts import signals_of
from conductor.core.loops.follow_up_loop import GREEN
from conductor.lock import holder
from conductor.loop import detect
from conductor.loop.watching import only_watcher, wait_for
from conductor.ports import Forge
from schemas.errors import BadInput, NeedsPerson, NotSo
from schemas.forge import Checks, CheckState, Issue, PullRequest
from schemas.loops.checkpoint import write_checkpoint

P = ParamSpec("P")
R = TypeVar("R")
_TIMED_OUT = 2
CAP = 1800.0
"""Seconds that one wait may take, unless a person configured more (review protocol, timeout and watch policy)."""


def budget_options(verb: Callable[P, R]) -> Callable[P, R]:
    """``--interval`` and ``--budget``."""
    seconds = FiniteRange(min=0, min_open=True)
    interval = click.option("--interval", type=seconds, help="Seconds between two looks; default: [loops] poll, 60.")
    budget = click.option(
        "--budget", type=seconds, help="Seconds to wait at most, 1800 or [loops] budget; default: the latter."
    )
    return interval(budget(verb))


def _budget(asked: float | None, configured: float) -> float:
    """The seconds of one wait. Raises ``BadInput`` for more than the protocol's half hour, unless it is configured."""
    most = max(CAP, configured)
    if asked is not None and asked > most:
        raise BadInput(
            f"--budget {asked:g} is more than the {most:g} seconds that one wait may take",
            "A person may allow more: set budget of [loops].",
        )
    return asked or configured


@click.command()
@target_options()
@loop_options
def outer(*, repo: str | None, number: int, as_json: bool, jq: str | None, silent: bool) -> None:  # noqa: ARG001
    """Run one cycle of the outer loop: detect both loops, route, write the checkpoint and print it.

    \b
    Example: taskmaestro loop outer --pr 12 --jq .outerAction
    """
    target = Target.find(repo, number)
    say(detect.cycle(target.forge, target.layout, number, target.wishes()).as_json(), jq=jq, silent=silent)


@click.command()
@target_options()
@budget_options
@loop_options
def watch(
    *,
    repo: str | None,
    number: int,
    interval: float | None,
    budget: float | None,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Run cycles of the outer loop until there is something to do, within a budget. Exit 4: a person must look.

    One process watches a pull request at a time; the checkpoint is written at every look.

    \b
    Example: taskmaestro loop watch --pr 12 --jq .outerAction
    """
    target = Target.find(repo, number)
    forge, times = target.forge, target.context.config.loops
    most = _budget(budget, times.budget)
    with only_watcher(target.layout.watch_lock(target.repo, number)):
        last = wait_for(
            lambda: detect.cycle(forge, target.layout, number, target.wishes()),
            lambda cycle: not cycle.waits,
            wake_paths=forge.wake_paths(),
            interval=interval or times.poll,
            budget=most,
        )
    if last.waits:
        raise NeedsPerson(f"watch timeout — PR #{number} needs manual attention")
    say(last.as_json(), jq=jq, silent=silent)
    if last.checkpoint.outer_action == "stop":
        note(f"#{number}: a person must decide ({last.checkpoint.reason})")
        raise click.exceptions.Exit(NeedsPerson.exit_code)


@click.command(name="watch-ci")
@target_options()
@click.option("--head", metavar="SHA", help="The head to watch; default: the one that it has now.")
@click.option("--local-validation-head-sha", metavar="SHA", help="The commit for which the battery passed here.")
@budget_options
@loop_options
def watch_ci(
    *,
    repo: str | None,
    number: int,
    head: str | None,
    local_validation_head_sha: str | None,
    interval: float | None,
    budget: float | None,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Wait until CI of one head is decided. Exit 0: green, 1: failed, 2: timed out, or the head changed.

    \b
    Example: taskmaestro loop watch-ci --pr 12 && taskmaestro pr ready 12
    """
    target = Target.find(repo, number)
    forge, times = target.forge, target.context.config.loops
    most = _budget(budget, times.budget)
    pull = forge.pull_request(number)
    pinned = pull.head if head is None else detect.full_head(forge, pull, head)
    wishes = target.wishes(validated_head=local_validation_head_sha)
    last = wait_for(
        lambda: _ci(target, pinned, wishes),
        lambda seen: seen["status"] not in ("pending", "none"),
        wake_paths=forge.wake_paths(),
        interval=interval or times.poll,
        budget=most,
    )
    status = last["status"]
    if status in ("pending", "none"):
        last = {**last, "status": "timeout", "lastSeen": status}
    say({"ok": True, "pr": number, "head": pinned, **last}, jq=jq, silent=silent)
    if status not in GREEN:
        raise click.exceptions.Exit(1 if status == "failure" else _TIMED_OUT)


def _ci(target: Target, pinned: str, wishes: detect.Wishes) -> dict[str, Any]:
    """CI of the pinned head now; ``changed`` where the pull request is at another one, or not open any more."""

    def read(pull: PullRequest | None) -> dict[str, Any]:
        if pull is None or pull.state != "open" or pull.head != pinned:
            return {"status": "changed", "headNow": None if pull is None else pull.head, "checks": []}
        found = target.forge.checks([target.number]).get(target.number, Checks(head="", state=CheckState.NONE))
        credit = Credit(len(found.checks), detect.previous_green(target.forge, pull, wishes), wishes.validated_head)
        shown = [{"name": check.name, "state": check.state, "logUrl": check.log_url} for check in found.checks]
        return {"status": ci_status(pinned, signals_of(found), credit), "headNow": pull.head, "checks": shown}

    return detect.steady(target.forge, target.number, read)


@click.command()
@target_options(required=False)
@click.option("--issue", type=NUMBER, help="Start from an issue: find its pull request.")
@loop_options
def startup(
    *,
    repo: str | None,
    number: int | None,
    issue: int | None,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Say what a fresh start on an issue or a pull request resumes: the link, the checkpoint, the next action.

    \b
    Example: taskmaestro loop startup --issue 7
             taskmaestro loop startup --pr 12 --jq .resume
    """
    if (number is None) == (issue is None):
        raise BadInput("what is it about?", "Give either --issue N or --pr N.")
    target = Target.find(repo, number or 0)
    forge = target.forge
    if issue is not None:
        about: Issue | None = forge.issue(issue)
        pull = detect.linked(forge, issue)
    else:
        assert number is not None  # noqa: S101  # the two exclude each other
        pull = forge.pull_request(number)
        about = _issue_of(forge, pull)
    say(_start(target, about, pull, of_issue=issue is not None), jq=jq, silent=silent)


def _issue_of(forge: Forge, pull: PullRequest) -> Issue | None:
    """The issue that the pull request says it closes; None where there is no such issue."""
    try:
        return None if pull.issue is None else forge.issue(pull.issue)
    except NotSo:
        return None


def _start(target: Target, issue: Issue | None, pull: PullRequest | None, *, of_issue: bool) -> dict[str, Any]:
    found = None if pull is None else detect.checkpoint_of(target.layout, target.repo, pull.number)
    watcher = None if pull is None else holder(target.layout.watch_lock(target.repo, pull.number))
    start = rules.start(found, issue, pull, of_issue=of_issue)
    named = issue.number if issue is not None else pull.issue if pull is not None else None
    return {
        "ok": True,
        "repo": target.repo,
        "issue": named,
        "issueState": None if issue is None else issue.state,
        "pr": None if pull is None else pull.number,
        "prState": None if pull is None else pull.state,
        "prDraft": None if pull is None else pull.draft,
        "headBranch": None if pull is None else pull.head_branch,
        "headSha": None if pull is None else pull.head,
        "checkpoint": None if found is None else write_checkpoint(found),
        "headMoved": None if found is None or pull is None else found.head_sha != pull.head,
        "resume": str(start.resume),
        "reason": found.reason if found is not None and start.resume is rules.Resume.ASK else None,
        "watchedBy": watcher,
        "nextAction": start.action,
    }
