"""``taskmaestro pr``: pull requests, by the same verbs whatever the forge."""

from __future__ import annotations

from typing import Any

import click

from conductor.cli import pr_reviews
from conductor.cli.numbers import NUMBER
from conductor.cli.output import answer, note, read_options, telling_faults
from conductor.cli.pulls import (
    body_options,
    checked_head,
    current_branch_of,
    default_base,
    moved,
    number_of,
    open_here,
    pull_of,
    read_body,
)
from conductor.core.description import closes
from conductor.forge import RerunsChecks
from conductor.ports import Forge, HeadMovedError
from schemas.errors import BadInput, NotSo
from schemas.forge import Check, Checks, CheckState, Comment, Posted, PullRequest
from schemas.review import Verdict
from schemas.text import clean, one_line

_PENDING_EXIT = 8
_MARKS = {CheckState.PASSED: "pass", CheckState.FAILED: "fail", CheckState.PENDING: "pending"}


@click.group()
def pr() -> None:
    """Open, read, check, review, close and reopen pull requests.

    \b
    Where a pull request is asked for, its number or its branch names it; without either it is the
    one of the current branch.

    \b
    Example: taskmaestro pr checks 12
    """


@pr.command()
@click.option("-t", "--title", required=True, help="One line that says what it is about.")
@body_options
@click.option("-B", "--base", metavar="BRANCH", help="Where it is to go; default: the default branch.")
@click.option("-H", "--head", metavar="BRANCH", help="The pushed branch; default: the current one.")
@click.option("-d", "--draft", is_flag=True, help="Open it as a draft.")
@click.option("--ready", is_flag=True, help="Open it as ready; the default unless draft_first is configured.")
@click.option("--another", is_flag=True, help="Open it although the issue has an open pull request already.")
@read_options
@telling_faults
def create(
    *,
    title: str,
    body: str | None,
    body_file: str | None,
    base: str | None,
    head: str | None,
    draft: bool,
    ready: bool,
    another: bool,
    as_json: bool,
    jq: str | None,
    silent: bool,
) -> None:
    """Open a pull request for a pushed branch; an open one of that branch, or of the issue, is used again.

    \b
    Example: taskmaestro pr create --title "Add retries" --body "Closes #12"
    """
    context, forge = open_here()
    draft_first = context.config.forge.draft_first
    if draft and ready:
        raise BadInput("--draft and --ready exclude each other", "Give one of them.")
    if ready and draft_first:
        raise BadInput(
            "--ready is refused: pull requests start as drafts here (draft_first in [forge])",
            "Open it without --ready, and make it ready later: taskmaestro pr ready",
        )
    branch = head or current_branch_of(context)
    text = read_body(body, body_file) or ""
    existing = forge.pull_request_of_branch(branch)
    if existing is not None:
        note(f"{branch} already has an open pull request, {_into(existing, base)}; that one is used as it is")
    elif not another:
        existing = _linked(forge, closes(text), base)
    pull = existing or forge.create_pull_request(
        branch=branch,
        base=base or default_base(context, forge),
        title=title,
        body=text,
        draft=draft or draft_first,
    )
    value = {**_pull_json(pull), "reused": existing is not None}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=_headline(pull))


@pr.command()
@click.argument("which", required=False)
@click.option("-c", "--comments", is_flag=True, help="Show comments and reviews, too.")
@read_options
@telling_faults
def view(*, which: str | None, comments: bool, as_json: bool, jq: str | None, silent: bool) -> None:
    """Show a pull request, with --comments what was said about it.

    \b
    Example: taskmaestro pr view 12 --comments
    """
    context, forge = open_here()
    pull = pull_of(context, forge, which)
    value = _pull_json(pull)
    said: list[Comment] = forge.comments(pull.number) if comments else []
    if comments:
        value["comments"] = [comment.model_dump(mode="json") for comment in said]
    answer(value, as_json=as_json, jq=jq, silent=silent, text=lambda: _pull_text(pull, said))


@pr.command()
@click.argument("which", required=False)
@click.option("--rerun", is_flag=True, help="Run the checks of the current head once more first.")
@read_options
@telling_faults
def checks(*, which: str | None, rerun: bool, as_json: bool, jq: str | None, silent: bool) -> None:
    """Show the checks of a pull request's head. Exit 0: passed, 1: failed or none, 8: pending.

    \b
    Example: taskmaestro pr checks 12 --json
    """
    context, forge = open_here()
    number = number_of(context, forge, which)
    if rerun:
        if not isinstance(forge, RerunsChecks):
            raise BadInput(f"the forge {forge.name!r} cannot run checks again", "Push the branch again instead.")
        forge.rerun_checks(number)
    found = forge.checks([number]).get(number)
    if found is None:
        raise NotSo(f"there is no pull request #{number}", "See `taskmaestro pr list`.")
    value = {"number": number, **found.model_dump(mode="json")}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=lambda: _checks_text(found))
    if found.state in (CheckState.PENDING, CheckState.NOT_YET):
        raise click.exceptions.Exit(_PENDING_EXIT)
    if found.state is not CheckState.PASSED:
        raise click.exceptions.Exit(1)


@pr.command()
@click.argument("which", required=False)
@read_options
@telling_faults
def diff(*, which: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Print what a pull request changes, as a unified diff.

    \b
    Example: taskmaestro pr diff 12
    """
    context, forge = open_here()
    number = number_of(context, forge, which)
    text = forge.diff(number)
    answer({"number": number, "diff": text}, as_json=as_json, jq=jq, silent=silent, text=text)


@pr.command()
@click.argument("which", required=False)
@click.option("-a", "--approve", is_flag=True, help="Approve this head.")
@click.option("-r", "--request-changes", "changes", is_flag=True, help="Ask for changes.")
@click.option("-c", "--comment", "remark", is_flag=True, help="Say something without a verdict.")
@click.option(
    "--head",
    metavar="SHA",
    help="The head that was reviewed, or at least 7 digits of it: refused when it moved since.",
)
@body_options
@read_options
@telling_faults
def review(
    *,
    which: str | None,
    approve: bool,
    changes: bool,
    remark: bool,
    head: str | None,
    body: str | None,
    body_file: str | None,
    as_json: bool,
    jq: str | None,
    silent: bool,
) -> None:
    """Post a review. An approval of one's own pull request is posted as a comment.

    \b
    Example: taskmaestro pr review 12 --request-changes --body-file review.md
    """
    if approve + changes + remark != 1:
        what = "these verdicts contradict each other" if approve or changes or remark else "no verdict was given"
        raise BadInput(what, "Give one of --approve, --request-changes and --comment.")
    reviewed = None if head is None else checked_head(head)
    context, forge = open_here()
    pull = pull_of(context, forge, which)
    text = read_body(body, body_file)
    if reviewed is not None and not pull.head.startswith(reviewed):
        raise moved(pull.number, pull.head)
    if remark:
        posted = forge.comment(pull.number, text or "")
    else:
        verdict = Verdict.APPROVE if approve else Verdict.CHANGES
        if verdict is Verdict.APPROVE and text is None:
            earlier = any(one.review_state == "changes_requested" for one in forge.comments(pull.number))
            text = "LGTM - all review comments addressed" if earlier else "LGTM"
        try:
            posted = forge.post_review(pull.number, body=text or "", verdict=verdict, head=pull.head, marker="")
        except HeadMovedError as error:
            raise moved(pull.number, error.head) from error
    if posted.as_comment:
        note(f"#{pull.number} is your own, so this was posted as a comment")
    _answer_posted(pull.number, posted, as_json=as_json, jq=jq, silent=silent)


@pr.command()
@click.argument("which", required=False)
@body_options
@read_options
@telling_faults
def comment(
    *, which: str | None, body: str | None, body_file: str | None, as_json: bool, jq: str | None, silent: bool
) -> None:
    """Comment on a pull request.

    \b
    Example: taskmaestro pr comment 12 --body "Resolved: the error is handled"
    """
    context, forge = open_here()
    number = number_of(context, forge, which)
    posted = forge.comment(number, read_body(body, body_file) or "")
    _answer_posted(number, posted, as_json=as_json, jq=jq, silent=silent)


@pr.command()
@click.argument("which", required=False)
@read_options
@telling_faults
def ready(*, which: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Make a draft ready for review.

    Where pull requests start as drafts (draft_first in [forge]) the draft gate must be open for this head:
    a clean description, green checks, no open thread, and an inspection (pr verify, ship, or a review).

    \b
    Example: taskmaestro pr ready 12
    """
    context, forge = open_here()
    pull = pull_of(context, forge, which)
    if pull.draft and context.config.forge.draft_first:
        pr_reviews.check_draft_gate(context, forge, pull)
    pull = forge.mark_ready(pull.number)
    answer(_pull_json(pull), as_json=as_json, jq=jq, silent=silent, text=_headline(pull))


@pr.command()
@click.argument("which", required=False)
@read_options
@telling_faults
def close(*, which: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Close a pull request without merging it.

    \b
    Example: taskmaestro pr close 12
    """
    context, forge = open_here()
    pull = forge.close_pull_request(number_of(context, forge, which))
    answer(_pull_json(pull), as_json=as_json, jq=jq, silent=silent, text=_headline(pull))


@pr.command()
@click.argument("number", type=NUMBER, metavar="N")
@read_options
@telling_faults
def reopen(*, number: int, as_json: bool, jq: str | None, silent: bool) -> None:
    """Open a closed pull request again, at the head that its branch has now.

    \b
    Example: taskmaestro pr reopen 12
    """
    _, forge = open_here()
    pull = forge.reopen_pull_request(number)
    answer(_pull_json(pull), as_json=as_json, jq=jq, silent=silent, text=_headline(pull))


@pr.command("list")
@read_options
@telling_faults
def list_(*, as_json: bool, jq: str | None, silent: bool) -> None:
    """List the open pull requests.

    \b
    Example: taskmaestro pr list --jq '.[].number'
    """
    _, forge = open_here()
    pulls = forge.pull_requests()
    if not pulls and not (as_json or jq is not None or silent):
        note("no open pull requests")
    answer(
        [_pull_json(pull) for pull in pulls],
        as_json=as_json,
        jq=jq,
        silent=silent,
        text=lambda: "\n".join(map(_headline, pulls)),
    )


for _verb in pr_reviews.VERBS:
    pr.add_command(_verb)


def _into(pull: PullRequest, base: str | None) -> str:
    """Which one, and where it goes: what was asked for with --base does not change that."""
    other = f", not into {one_line(base)}" if base is not None and base != pull.base_branch else ""
    return f"#{pull.number} into {one_line(pull.base_branch)}{other}"


def _linked(forge: Forge, issue: int | None, base: str | None) -> PullRequest | None:
    """The open pull request that closes this issue already, whatever its branch."""
    if issue is None:
        return None
    found = next((one for one in forge.pull_requests() if one.issue == issue), None)
    if found is not None:
        which = f"{_into(found, base)}, of {one_line(found.head_branch)}"
        note(f"issue #{issue} has an open pull request, {which}; that one is used")
    return found


def _answer_posted(number: int, posted: Posted, *, as_json: bool, jq: str | None, silent: bool) -> None:
    value = {"number": number, **posted.model_dump(mode="json")}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=f"posted {posted.id} on #{number}")


def _pull_json(pull: PullRequest) -> dict[str, Any]:
    return pull.model_dump(mode="json")


def _headline(pull: PullRequest) -> str:
    state = "draft" if pull.draft and pull.state == "open" else pull.state
    return f"#{pull.number}  {state}  {pull.head_branch} -> {pull.base_branch}  {one_line(pull.title)}"


def _pull_text(pull: PullRequest, comments: list[Comment]) -> str:
    parts = [
        _headline(pull),
        f"by {one_line(pull.author)}, head {pull.head}, base {pull.base}"
        + (f", closes #{pull.issue}" if pull.issue else ""),
        "",
        clean(pull.body).strip() or "(no description)",
    ]
    for one in comments:
        verdict = f" {one.review_state.replace('_', ' ')}" if one.review_state else ""
        at = one.at.astimezone().strftime("%Y-%m-%d %H:%M")
        pinned = f" on {one.commit[:12]}" if one.commit else ""
        parts += [
            "",
            f"--- {one.kind}{verdict} by {one_line(one.author)}, {at}{pinned}",
            clean(one.body).strip(),
        ]
    return "\n".join(parts)


def _checks_text(found: Checks) -> str:
    some = any(check.required for check in found.checks)
    lines = [f"{found.state.value.replace('_', ' ')} at {found.head}"]
    lines += [_check_line(check, optional=some and not check.required) for check in found.checks]
    for check in found.failing:
        tail = clean(check.tail).strip("\n")
        if tail.strip():
            lines += ["", f"--- {one_line(check.name)}, last lines:", tail]
        elif check.log_url:
            lines += ["", f"--- {one_line(check.name)}, its log: {one_line(check.log_url)}"]
    return "\n".join(lines)


def _check_line(check: Check, *, optional: bool) -> str:
    mark = " (optional)" if optional else ""
    return f"{_MARKS[check.state]:8}{one_line(check.name)}{mark}  {check.log_url}".rstrip()
