"""``taskmaestro loop stage`` and ``loop notify``: a merged review becomes a pending one, and its link is passed on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from conductor.cli.files import check_output, write_output
from conductor.cli.loops.live import Target, read_local, say
from conductor.cli.loops.reading import loop_options, read_file, target_options
from conductor.core.diff import shown_lines
from conductor.core.loops.draft import make_draft
from conductor.core.loops.facts import review_number
from conductor.core.loops.merge import check_fits
from conductor.core.loops.staging import marker, on_the_diff, parse_marker
from conductor.loop.detect import LoopForge
from schemas.errors import BadInput, NotSo
from schemas.forge import DraftComment, PendingReview, PullRequest
from schemas.loops.local_state import LocalState, write_local_state
from schemas.loops.review import MergedReview, read_merged


@click.command()
@target_options()
@click.option("--review-file", metavar="FILE", required=True, help="The merged review, as loop merge answers it.")
@click.option("--local-state-output", metavar="FILE", required=True, help="Where to write what is known of the draft.")
@loop_options
def stage(
    *,
    repo: str | None,
    number: int,
    review_file: str,
    local_state_output: str,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Stage a merged review as a pending one, pinned to the head. Nothing is submitted.

    The same review is staged once. A pending one that was staged before for something else is replaced.

    \b
    Example: taskmaestro loop stage --pr 12 --review-file merged.json --local-state-output draft.json
    """
    output = check_output(local_state_output)
    merged = _approvable(check_fits(read_merged(read_file(review_file))))
    target = Target.find(repo, number)
    forge = target.forge
    pull = forge.pull_request(number)
    _refuse(pull, merged)
    merged = on_the_diff(merged, shown_lines(forge.diff(number)))
    staged = _stage(forge, pull, merged)
    if staged.submitted:
        raise NotSo(f"this very review of #{number} was submitted already", "A new head gets a new review.")
    if forge.pull_request(number).head != pull.head:
        forge.discard_review(number, staged.id)
        raise NotSo(
            f"the head of #{number} moved while the review was staged; it was discarded", "Review the new head."
        )
    state = _state(number, merged, staged)
    if _told_before(output, state):
        state = state._replace(draft_review_notification_status="notified")
    _write(output, state)
    say(_answer(number, merged, staged, local_state_output), jq=jq, silent=silent)


def _approvable(merged: MergedReview) -> MergedReview:
    """Merging the results of no run approves, since nothing was found; nobody has reviewed anything then."""
    if merged.verdict == "APPROVE" and merged.runs_merged == 0:
        raise BadInput("the review approves, and its runsMerged is 0: nobody reviewed", "Merge the results of runs.")
    return merged


def _told_before(output: Path, state: LocalState) -> bool:
    """Whether the file says that the link of this very draft was passed on: staging again does not take that back."""
    try:
        there = read_local(str(output), state.pr_number or 0)
    except BadInput:  # whatever else is there is replaced
        return False
    same = (there.draft_review_id, there.draft_review_commit_sha) == (state.draft_review_id, state.head_sha)
    return same and there.draft_review_notification_status == "notified"


def _write(path: Path, state: LocalState) -> None:
    write_output(path, json.dumps(write_local_state(state), indent=2) + "\n")


def _refuse(pull: PullRequest, merged: MergedReview) -> None:
    if pull.state != "open" or pull.draft:
        state = "a draft" if pull.state == "open" else pull.state
        raise NotSo(f"#{pull.number} is {state}, so it is not reviewed", "Wait until it is open and ready.")
    if merged.head_sha is None:
        raise BadInput("the review does not say which commit it is of", "Give its headSha.")
    if merged.head_sha != pull.head:
        raise NotSo(
            f"the review is of {merged.head_sha[:12]}, and the head of #{pull.number} is {pull.head[:12]}",
            "A verdict of another head is not used: review this one.",
        )


def _stage(forge: LoopForge, pull: PullRequest, merged: MergedReview) -> PendingReview:
    payload = make_draft(merged)
    comments = [DraftComment(path=one["path"], line=one["line"], body=one["body"]) for one in payload["comments"]]
    content = json.dumps([payload, merged.verdict], sort_keys=True).encode("utf-8", "replace")
    name = marker(hashlib.sha256(content).hexdigest()[:16], pull.head, merged.verdict)
    there = forge.pending_review(pull.number)
    if there is not None and there.marker != name and parse_marker(there.marker) is not None:
        forge.discard_review(pull.number, there.id)
    return forge.stage_review(pull.number, commit=pull.head, body=payload["body"], marker=name, comments=comments)


def _state(number: int, merged: MergedReview, staged: PendingReview) -> LocalState:
    return LocalState(
        pr_number=number,
        head_sha=staged.commit,
        reviewer_login=staged.author,
        verdict=merged.verdict,
        limitations=list(merged.limitations),
        local_planning_status="complete",
        local_review_runs_status="completed",
        local_merge_status="ready",
        draft_review_prepared=True,
        draft_review_posted=True,
        draft_review_id=review_number(staged),
        draft_review_url=staged.url or None,
        draft_review_commit_sha=staged.commit,
    )


def _answer(number: int, merged: MergedReview, staged: PendingReview, output: str) -> dict[str, Any]:
    return {
        "ok": True,
        "pr": number,
        "draftReviewId": review_number(staged),
        "draftReviewUrl": staged.url or None,
        "draftReviewCommitSha": staged.commit,
        "verdict": merged.verdict,
        "inlineComments": staged.comments,
        "already": staged.already,
        "localState": output,
    }


@click.command()
@target_options()
@click.option("--local-state", metavar="FILE", required=True, help="The file that loop stage wrote.")
@loop_options
def notify(
    *,
    repo: str | None,
    number: int,
    local_state: str,
    as_json: bool,  # noqa: ARG001  # JSON always
    jq: str | None,
    silent: bool,
) -> None:
    """Print where the pending review is and how it is submitted, and note that this was passed on.

    A review of another commit than the head, or of a pull request that is not open, is stale: exit 1, nothing noted.

    \b
    Example: taskmaestro loop notify --pr 12 --local-state draft.json
    """
    path = check_output(local_state)
    target = Target.find(repo, number)
    state, pending = read_local(local_state, number), target.forge.pending_review(number)
    if pending is None:
        raise NotSo(f"#{number} has no pending review of yours", f"Stage one: taskmaestro loop stage --pr {number} ...")
    if (state.draft_review_id, state.draft_review_commit_sha) != (review_number(pending), pending.commit):
        raise NotSo(f"{local_state} is of another review than the pending one, {pending.id}", "Stage it again.")
    _refuse_stale(target.forge.pull_request(number), pending)
    state = state._replace(draft_review_notification_status="notified")
    _write(path, state)
    value = {
        "ok": True,
        "pr": number,
        "draftReviewId": review_number(pending),
        "draftReviewUrl": pending.url or None,
        "submitWith": f"taskmaestro pr submit {number}",
    }
    say(value, jq=jq, silent=silent)


def _refuse_stale(pull: PullRequest, pending: PendingReview) -> None:
    next_step = f"taskmaestro pr discard {pull.number}"
    if pull.state != "open":
        raise NotSo(f"#{pull.number} is {pull.state}, so its pending review is stale", f"Discard it: {next_step}")
    if pending.commit != pull.head:
        raise NotSo(
            f"the pending review is stale: it is of {pending.commit[:12]}, and the head of #{pull.number} is "
            f"{pull.head[:12]}",
            f"Discard it, then review the new head: {next_step}",
        )
