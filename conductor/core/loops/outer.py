"""The outer loop: what one cycle writes down, and what a fresh start makes of it.

Review protocol, "Outer-loop checkpoint" and "Re-attachment contract".
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from schemas.loops.checkpoint import Checkpoint
from schemas.loops.reviewer import ReviewerSnapshot
from schemas.loops.routing import Routing, RoutingInput


class Resume(StrEnum):
    """What a start on a pull request does first."""

    FOLLOW_UP = "resume_follow_up"
    REVIEWER = "enter_reviewer_loop"
    ASK = "ask_for_direction"
    FRESH = "fresh_start"


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
}


def resume(checkpoint: Checkpoint | None) -> Resume:
    """The re-attachment contract. Pure and total."""
    return Resume.FRESH if checkpoint is None else RESUMES[checkpoint.outer_action]


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
