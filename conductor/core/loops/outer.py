"""The outer loop: what one cycle writes down, and what a fresh start makes of it.

Review protocol, "Outer-loop checkpoint" and "Re-attachment contract".
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from conductor.core.loops.follow_up_loop import FollowUpState
from conductor.core.loops.reviewer_loop import ReviewerState
from schemas.errors import BadInput
from schemas.loops.checkpoint import HINT, Checkpoint
from schemas.loops.reviewer import ReviewerSnapshot
from schemas.loops.routing import Routing, RoutingInput
from schemas.text import one_line

if TYPE_CHECKING:
    from schemas.forge import Issue, PullRequest


class Resume(StrEnum):
    """What a start on a pull request does first."""

    FOLLOW_UP = "resume_follow_up"
    REVIEWER = "enter_reviewer_loop"
    ASK = "ask_for_direction"
    FRESH = "fresh_start"
    DONE = "done"


RESUMES: dict[str, Resume] = {
    "continue_wait": Resume.FOLLOW_UP,
    "reenter_copilot_loop": Resume.FOLLOW_UP,
    "reenter_reviewer_loop": Resume.REVIEWER,
    "stop": Resume.ASK,
    "done": Resume.FRESH,
}

RESUME_ACTIONS: dict[Resume, str] = {
    Resume.FOLLOW_UP: "Resume the follow-up loop where it was; this is no fresh intake.",
    Resume.REVIEWER: "Enter the reviewer loop.",
    Resume.ASK: "The loop stopped: report the reason and ask for direction.",
    Resume.FRESH: "Start as on a new pull request.",
    Resume.DONE: "Nothing is left to do.",
}


def resume(checkpoint: Checkpoint | None) -> Resume:
    """The re-attachment contract. Pure and total."""
    return Resume.FRESH if checkpoint is None else RESUMES[checkpoint.outer_action]


def check(checkpoint: Checkpoint, repo: str, number: int) -> Checkpoint:
    """The checkpoint as it is. Raises ``BadInput`` where it is of another pull request, or its states mean nothing."""
    if (checkpoint.repo, checkpoint.pr) != (repo.lower(), number):
        theirs = f"#{checkpoint.pr}" if checkpoint.repo == repo.lower() else f"{checkpoint.repo}#{checkpoint.pr}"
        raise BadInput(f"the checkpoint is of {theirs}, not of #{number}", HINT)
    for name, state, known in (
        ("copilotState", checkpoint.copilot_state, FollowUpState),
        ("reviewerState", checkpoint.reviewer_state, ReviewerState),
    ):
        if state not in {str(one) for one in known}:
            raise BadInput(f"the checkpoint's {name} is {one_line(state, 60)!r}, which is no state", HINT)
    return checkpoint


class Start(NamedTuple):
    """What a start does, and in words."""

    resume: Resume
    action: str


def start(checkpoint: Checkpoint | None, issue: Issue | None, pull: PullRequest | None, *, of_issue: bool) -> Start:
    """The re-attachment contract, for what may be over by now. Pure and total.

    ``of_issue``: it was asked about the issue, and ``pull`` is the one that says that it closes it.
    """
    over = issue is not None and issue.state == "closed"
    if pull is not None and pull.state == "open":
        again = resume(checkpoint)
        if of_issue and over and again is Resume.FRESH:
            return Start(Resume.ASK, f"{_named(issue)} is closed, and #{pull.number} of it is open: ask for direction.")
        return Start(again, RESUME_ACTIONS[again])
    if pull is not None and (not of_issue or pull.state == "merged" or over):
        left = f" {_named(issue)} is still open: close it, or ask what is left of it." if issue and not over else ""
        return Start(Resume.DONE, f"#{pull.number} is {pull.state}: nothing is left to do on it.{left}")
    if over:
        return Start(Resume.DONE, f"{_named(issue)} is closed: nothing is left to do on it.")
    number = issue.number if issue is not None else "?"
    closed = "" if pull is None else f" (#{pull.number} was closed unmerged)"
    return Start(
        Resume.FRESH,
        f"{_named(issue)} has no open pull request{closed}: start it as a draft, with `Closes #{number}`.",
    )


def _named(issue: Issue | None) -> str:
    return f"Issue #{issue.number}" if issue is not None else "The issue"


def next_checkpoint(
    previous: Checkpoint | None,
    facts: RoutingInput,
    routing: Routing,
    snapshot: ReviewerSnapshot,
    at: datetime,
) -> Checkpoint:
    """What this cycle writes. The target must be complete, ``at`` aware.

    Wait cycles add up while the loop waits for the same head, and start anew with anything else.
    """
    target = facts.target
    if target is None or target.repo is None or target.pr is None:
        raise ValueError("a checkpoint needs the pull request that it is about")
    waits = routing.outer_action == "continue_wait"
    same = previous is not None and waits and previous.head_sha == snapshot.pr_head_sha
    before = previous.wait_cycles if previous is not None and same else 0
    return Checkpoint(
        pr=target.pr,
        repo=target.repo,
        outer_action=routing.outer_action,
        copilot_state=facts.copilot_state or "",
        reviewer_state=facts.reviewer_state or "",
        reviewer_scope=snapshot.reviewer_scope,
        reviewer_login=snapshot.reviewer_login,
        reason=routing.stop_reason,
        timestamp=at.astimezone(UTC).isoformat(),
        wait_cycles=before + 1 if waits else 0,
        head_sha=snapshot.pr_head_sha,
    )
