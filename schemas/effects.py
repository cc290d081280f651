"""What the rules ask of the outside, as values. Only the performer touches the outside.

Each effect of a decision has a key, ``<sequence number of its event>.<position>``: the journal holds an intent and a
result under it, so that a crash leaves nothing undone and nothing done twice.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Frozen
from schemas.pane import AttentionReason
from schemas.review import EarlierReview, Verdict

TaskKind = Literal["first", "fix", "ci", "notice"]


class PaneEffect(Frozen):
    """What all effects have: the pane they are for."""

    pane: int


class InspectPr(PaneEffect):
    """Hold a worker's claim against forge, remote and worktree."""

    kind: Literal["inspect_pr"] = "inspect_pr"
    claim_id: str
    purpose: Literal["success", "addressed"]
    pr_number: int
    old_head: str | None = None
    review_id: str | None = None


class RunReview(PaneEffect):
    """Plan, run and merge a review of exactly this head and base."""

    kind: Literal["run_review"] = "run_review"
    review_id: str
    cycle: int
    pr_number: int
    head: str
    base: str
    issue: int | None = None
    earlier: tuple[EarlierReview, ...] = ()


class PostReview(PaneEffect):
    """Post a review once; ``marker`` stands hidden in the body. An approval needs ``head`` to be the head still."""

    kind: Literal["post_review"] = "post_review"
    review_id: str
    cycle: int
    pr_number: int
    head: str
    verdict: Verdict
    body: str
    marker: str


class WriteResult(PaneEffect):
    """Replace the worktree's RESULT.json with the conductor's word; unknown fields of the worker's file are kept."""

    kind: Literal["write_result"] = "write_result"
    status: Literal["approved", "review_pending"]
    pr_number: int
    review_cycle: int
    head: str


class SendTask(PaneEffect):
    """Write TASK.md and have the agent read it: on the command line of a new agent (``start``) or by a pasted line."""

    kind: Literal["send_task"] = "send_task"
    task_id: str
    task: TaskKind
    start: bool
    line: str
    text: str


class StartAgent(PaneEffect):
    """Start the agent in its pane without a task."""

    kind: Literal["start_agent"] = "start_agent"


class TakeBackTask(PaneEffect):
    """The task is not needed any more: say so in TASK.md, and drop it where it is still queued."""

    kind: Literal["take_back_task"] = "take_back_task"
    task_id: str
    text: str


class Report(PaneEffect):
    """Tell the user. ``reason`` where a person is wanted; ``head`` where the message speaks of an approved head."""

    kind: Literal["report"] = "report"
    level: Literal["info", "attention"]
    message: str
    reason: AttentionReason | None = None
    head: str | None = None


class CheckHistory(PaneEffect):
    """Look whether somebody else's commits fell out of the branch between any of these heads and the new one."""

    kind: Literal["check_history"] = "check_history"
    old_heads: tuple[str, ...]
    head: str
    base: str


class KeepBackup(PaneEffect):
    """Keep a head under ``refs/taskmaestro/backup/``."""

    kind: Literal["keep_backup"] = "keep_backup"
    head: str
    name: str


class QuarantineResult(PaneEffect):
    """Move a stale RESULT.json to ``state/quarantine``; only the file with this stamp."""

    kind: Literal["quarantine_result"] = "quarantine_result"
    stamp: str
    why: str


Effect = Annotated[
    InspectPr
    | RunReview
    | PostReview
    | WriteResult
    | SendTask
    | StartAgent
    | TakeBackTask
    | Report
    | CheckHistory
    | KeepBackup
    | QuarantineResult,
    Field(discriminator="kind"),
]
