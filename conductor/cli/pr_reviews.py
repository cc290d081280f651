"""The verbs of ``taskmaestro pr`` around reviews: request, submit, discard, threads, reply, resolve, lint, verify."""

from __future__ import annotations

from typing import Any

import click

from conductor.cli.context import Context
from conductor.cli.output import answer, note, read_options, telling_faults
from conductor.cli.pulls import body_options, moved, number_of, open_here, pull_of, read_body
from conductor.core.description import lint as lint_text
from conductor.core.draft_gate import Evidence, reasons_against
from conductor.core.loops.staging import FORGE_VERDICTS, parse_marker
from conductor.layout import Layout
from conductor.loop.detect import LoopForge, loop_forge
from conductor.ports import Forge, HeadMovedError
from schemas.errors import BadInput, NotSo
from schemas.forge import Checks, CheckState, PullRequest, Thread
from schemas.review import Verdict
from schemas.text import clean, one_line
from schemas.validation import Validation
from worker.tools.files import MissingFile, read_regular

_LARGEST = 1 << 20


def _here() -> tuple[Context, LoopForge]:
    context, forge = open_here()
    return context, loop_forge(forge)


@click.command()
@click.argument("which", required=False)
@click.option("--reviewer", "logins", metavar="LOGIN", multiple=True, required=True, help="Whom to ask; repeatable.")
@click.option("--withdraw", is_flag=True, help="Ask no longer.")
@read_options
@telling_faults
def request(
    *, which: str | None, logins: tuple[str, ...], withdraw: bool, as_json: bool, jq: str | None, silent: bool
) -> None:
    """Ask somebody to review a pull request.

    \b
    Example: taskmaestro pr request 12 --reviewer mona
    """
    context, forge = _here()
    number = number_of(context, forge, which)
    change = forge.withdraw_request if withdraw else forge.request_review
    changed = [login for login in logins if change(number, login)]
    asked = [one.login for one in forge.requested_reviewers(number)]
    value = {"number": number, "changed": changed, "requested": asked}
    text = f"#{number}: asked for a review: {', '.join(map(one_line, asked)) or 'nobody'}"
    answer(value, as_json=as_json, jq=jq, silent=silent, text=text)


@click.command()
@click.argument("which", required=False)
@click.option("-a", "--approve", is_flag=True, help="Submit it as an approval.")
@click.option("-r", "--request-changes", "changes", is_flag=True, help="Submit it as a request for changes.")
@click.option("-c", "--comment", "remark", is_flag=True, help="Submit it as a comment.")
@read_options
@telling_faults
def submit(
    *, which: str | None, approve: bool, changes: bool, remark: bool, as_json: bool, jq: str | None, silent: bool
) -> None:
    """Submit your pending review, by default with the verdict that it was staged with.

    A review of another commit than the head is stale: it is discarded instead, and the exit code is 1. One that was
    staged to ask for changes is not submitted as an approval.

    \b
    Example: taskmaestro pr submit 12
    """
    if approve + changes + remark > 1:
        raise BadInput("these verdicts contradict each other", "Give at most one of --approve, -r, --comment.")
    context, forge = _here()
    number = number_of(context, forge, which)
    pending = forge.pending_review(number)
    if pending is None:
        raise NotSo(f"#{number} has no pending review of yours", f"Stage one: taskmaestro loop stage --pr {number} ...")
    marked = parse_marker(pending.marker)
    staged = FORGE_VERDICTS[marked.verdict] if marked is not None else None
    if approve and staged is Verdict.CHANGES:
        raise BadInput(
            f"review {pending.id} was staged to ask for changes, so it is no approval",
            f"Discard it (taskmaestro pr discard {number}) and stage another one, or submit it as it is.",
        )
    if approve or changes or remark:
        verdict = Verdict.APPROVE if approve else Verdict.CHANGES if changes else None
    elif marked is None:
        raise BadInput(f"review {pending.id} was staged without a verdict", "Give --approve, -r or --comment.")
    else:
        verdict = staged
    try:
        posted = forge.submit_review(number, pending.id, verdict=verdict)
    except HeadMovedError as error:
        forge.discard_review(number, pending.id)
        raise NotSo(
            f"the review is of {pending.commit[:12]}, and the head of #{number} is {error.head[:12]}: it was discarded",
            "Review the new head; a verdict of another head is not used.",
        ) from error
    if posted.as_comment:
        note(f"#{number} is your own, so this was submitted as a comment")
    said = "comment" if verdict is None or posted.as_comment else verdict.value
    value = {"number": number, "verdict": said, "commit": pending.commit, **posted.model_dump(mode="json")}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=f"submitted {posted.id} on #{number}: {said}")


@click.command()
@click.argument("which", required=False)
@read_options
@telling_faults
def discard(*, which: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Discard your pending review.

    \b
    Example: taskmaestro pr discard 12
    """
    context, forge = _here()
    number = number_of(context, forge, which)
    pending = forge.pending_review(number)
    if pending is None:
        raise NotSo(f"#{number} has no pending review of yours", "There is nothing to discard.")
    gone = forge.discard_review(number, pending.id)
    value = {"number": number, "id": pending.id, "discarded": gone}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=f"discarded {pending.id} on #{number}")


@click.command()
@click.argument("which", required=False)
@click.option("--unresolved-only", is_flag=True, help="Leave the resolved ones out.")
@read_options
@telling_faults
def threads(*, which: str | None, unresolved_only: bool, as_json: bool, jq: str | None, silent: bool) -> None:
    """List the review threads of a pull request.

    \b
    Example: taskmaestro pr threads 12 --unresolved-only
    """
    context, forge = _here()
    number = number_of(context, forge, which)
    found = [one for one in forge.threads(number) if not (unresolved_only and one.resolved)]
    if not found and not (as_json or jq is not None or silent):
        note(f"#{number} has no {'unresolved ' if unresolved_only else ''}review threads")
    value = [one.model_dump(mode="json") for one in found]
    answer(value, as_json=as_json, jq=jq, silent=silent, text=lambda: "\n".join(map(_thread_text, found)))


def _thread_text(thread: Thread) -> str:
    place = f"{one_line(thread.path)}:{thread.line or '?'}"
    lines = [f"{thread.id}  {'resolved' if thread.resolved else 'open'}  {place}"]
    for one in thread.comments:
        lines += [f"    {one_line(one.author)}: {line}" for line in clean(one.body).splitlines()]
    return "\n".join(lines)


@click.command()
@click.argument("which")
@click.option("--thread", metavar="ID", required=True, help="The thread, as pr threads lists it.")
@click.option("--resolve", "done", is_flag=True, help="Mark it resolved, too.")
@body_options
@read_options
@telling_faults
def reply(
    *,
    which: str,
    thread: str,
    done: bool,
    body: str | None,
    body_file: str | None,
    as_json: bool,
    jq: str | None,
    silent: bool,
) -> None:
    """Answer in a review thread.

    \b
    Example: taskmaestro pr reply 12 --thread 3 --body "Fixed in the last commit" --resolve
    """
    context, forge = _here()
    number = number_of(context, forge, which)
    posted = forge.reply(number, thread, read_body(body, body_file) or "")
    if done:
        forge.resolve(number, thread)
    value = {"number": number, "thread": thread, "resolved": done, **posted.model_dump(mode="json")}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=f"answered in thread {one_line(thread)} of #{number}")


@click.command()
@click.argument("which")
@click.option("--thread", metavar="ID", required=True, help="The thread, as pr threads lists it.")
@read_options
@telling_faults
def resolve(*, which: str, thread: str, as_json: bool, jq: str | None, silent: bool) -> None:
    """Mark a review thread resolved.

    \b
    Example: taskmaestro pr resolve 12 --thread 3
    """
    context, forge = _here()
    number = number_of(context, forge, which)
    changed = forge.resolve(number, thread)
    value = {"number": number, "thread": thread, "changed": changed}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=f"thread {one_line(thread)} of #{number} is resolved")


@click.command()
@click.argument("which", required=False)
@click.option("-F", "--body-file", metavar="FILE", help="Look at this text instead; - is stdin.")
@read_options
@telling_faults
def lint(*, which: str | None, body_file: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Hold a pull request's description against the contract; each fault with its line. Exit 1: there are some.

    \b
    Example: taskmaestro pr lint 12
             taskmaestro pr lint --body-file pr.md
    """
    if body_file is not None and which is not None:
        raise BadInput("a pull request and --body-file exclude each other", "Give one of them.")
    if body_file is not None:
        name, body = one_line(body_file), read_body(None, body_file) or ""
    else:
        context, forge = open_here()
        pull = pull_of(context, forge, which)
        name, body = f"#{pull.number}", pull.body
    flaws = lint_text(body)
    value = {"clean": not flaws, "faults": [flaw._asdict() for flaw in flaws]}
    text = "\n".join(f"{name}:{flaw.line}: {flaw.message}" for flaw in flaws) or f"{name}: nothing to say"
    answer(value, as_json=as_json, jq=jq, silent=silent, text=text)
    if flaws:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("which", required=False)
@read_options
@telling_faults
def verify(*, which: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Run the battery on the checked-out head of a pull request and keep that it passed, for the draft gate.

    \b
    Example: taskmaestro pr verify 12
    """
    from worker.battery import failure, run_battery
    from worker.tools.git import changed_files, exclude_private, head, is_dirty
    from worker.validation import record

    context, forge = open_here()
    pull = pull_of(context, forge, which)
    exclude_private(context.root)
    here = head(context.worktree) or "no commit"
    if here != pull.head:
        raise NotSo(
            f"{context.worktree} is at {here[:12]}, and the head of #{pull.number} is {pull.head[:12]}",
            "Check that commit out, then verify it.",
        )
    own = changed_files(context.worktree)
    if own:
        names = ", ".join(map(one_line, own[:5])) + (f" and {len(own) - 5} more" if len(own) > 5 else "")
        raise NotSo(
            f"{context.worktree} is not exactly {pull.head[:12]}: {names} changed or new",
            "Commit, remove or ignore that (new files count too), then verify it.",
        )
    stages = run_battery(context.worktree, context.config.battery, context.root, told=note)
    fault = failure(stages)
    if fault is not None:
        raise fault
    if not stages:
        raise NotSo("there is no battery to run", "Set [battery] in .taskmaestro/config.toml.")
    if is_dirty(context.worktree):
        raise NotSo("the battery changed files, so it did not pass for this very commit", "Commit what it changed.")
    made = record(context.root, pull.head, stages)
    value = {"number": pull.number, **made.model_dump(mode="json")}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=f"the battery passed for {pull.head[:12]}")


# --- the draft gate ---


def check_draft_gate(context: Context, forge: Forge, pull: PullRequest) -> None:
    """Raises ``NotSo`` with every reason why this draft may not be made ready yet."""
    full = loop_forge(forge)
    reasons = reasons_against(gather(context, full, pull))
    if full.pull_request(pull.number).head != pull.head:
        raise moved(pull.number, full.pull_request(pull.number).head)
    if reasons:
        listed = "\n".join(f"- {reason}" for reason in reasons)
        raise NotSo(f"#{pull.number} stays a draft at {pull.head[:12]}:\n{listed}", "Mend that, then try again.")


def gather(context: Context, forge: LoopForge, pull: PullRequest) -> Evidence:
    """What is known of this pull request at this head."""
    return Evidence(
        pull=pull,
        flaws=lint_text(pull.body),
        checks=forge.checks([pull.number]).get(pull.number) or Checks(head="", state=CheckState.NONE),
        submitted=forge.submitted_reviews(pull.number),
        threads=forge.threads(pull.number),
        validated=_validated(context, pull.head),
        credible=context.config.ci.allow_no_checks,
    )


def _validated(context: Context, head: str) -> bool:
    path = Layout(context.root).validation(head)
    try:
        raw: Any = read_regular(path, _LARGEST)
    except MissingFile:
        return False
    try:
        return Validation.model_validate_json(raw).head == head
    except ValueError:
        raise BadInput(f"{path} is no record of a battery", "Move it away, then run `taskmaestro pr verify`.") from None


VERBS = (request, submit, discard, threads, reply, resolve, lint, verify)
