"""``taskmaestro loop stage`` and ``loop notify``: a merged review becomes a pending one, and its link is passed on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from conductor.cli.loops.live import Target, read_local, say
from conductor.cli.loops.reading import loop_options, read_file, target_options
from conductor.core.diff import shown_lines
from conductor.core.loops.draft import make_draft
from conductor.core.loops.staging import marker, on_the_diff, parse_marker
from conductor.loop.detect import LoopForge
from schemas.errors import BadInput, NotSo
from schemas.forge import DraftComment, PendingReview, PullRequest
from schemas.loops.local_state import LocalState, write_local_state
from schemas.loops.review import MergedReview, read_merged
from worker.tools.files import replace_file


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
    target = Target.find(repo, number)
    forge, merged = target.forge, read_merged(read_file(review_file))
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
    replace_file(Path(local_state_output), json.dumps(write_local_state(state), indent=2) + "\n")
    say(_answer(number, merged, staged, local_state_output), jq=jq, silent=silent)


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
        draft_review_id=int(staged.id) if staged.id.isdigit() else None,
        draft_review_url=staged.url or None,
        draft_review_commit_sha=staged.commit,
    )


def _answer(number: int, merged: MergedReview, staged: PendingReview, output: str) -> dict[str, Any]:
    return {
        "ok": True,
        "pr": number,
        "draftReviewId": staged.id,
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

    \b
    Example: taskmaestro loop notify --pr 12 --local-state draft.json
    """
    target = Target.find(repo, number)
    state, pending = read_local(local_state, number), target.forge.pending_review(number)
    if pending is None:
        raise NotSo(f"#{number} has no pending review of yours", f"Stage one: taskmaestro loop stage --pr {number} ...")
    if str(state.draft_review_id) != pending.id:
        raise NotSo(f"{local_state} is of another review than the pending one, {pending.id}", "Stage it again.")
    state = state._replace(draft_review_notification_status="notified")
    replace_file(Path(local_state), json.dumps(write_local_state(state), indent=2) + "\n")
    value = {
        "ok": True,
        "pr": number,
        "draftReviewId": pending.id,
        "draftReviewUrl": pending.url or None,
        "submitWith": f"taskmaestro pr submit {number}",
    }
    say(value, jq=jq, silent=silent)
