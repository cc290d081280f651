"""One pane's published state (``state/panes/N.json``) and the vocabulary around it (docs/contracts.md)."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from schemas.base import Frozen, Moment


class Role(StrEnum):
    """What a pane is for."""

    CONDUCTOR = "conductor"
    WORKER = "worker"
    REVIEWER = "reviewer"


class Status(StrEnum):
    """The six states of a pane in the review cycle (review protocol, "State Representation")."""

    WORKING = "working"
    REVIEWING = "reviewing"
    REVIEW_PENDING = "review_pending"
    REVIEW_ADDRESSED = "review_addressed"
    APPROVED = "approved"
    DONE = "done"


class AttentionReason(StrEnum):
    """Why a person is wanted. Attention never changes the status."""

    CYCLE_CAP = "cycle_cap"
    CI_FAILED_CAP = "ci_failed_cap"
    CI_TIMEOUT = "ci_timeout"
    INVALID_RESULT = "invalid_result"
    PANE_DEAD = "pane_dead"
    UNRESPONSIVE = "unresponsive"
    LEASE_REJECTED = "lease_rejected"
    FOREIGN_COMMITS_LOST = "foreign_commits_lost"
    FORGE_UNAVAILABLE = "forge_unavailable"
    REVIEW_FAILED = "review_failed"
    PR_CLOSED = "pr_closed"


class Attention(Frozen):
    """A person is wanted: the reason, the full message, and since when."""

    reason: AttentionReason
    message: str
    since: Moment


class PaneState(Frozen):
    """What other programs read of a pane."""

    index: int = Field(ge=0)
    role: Role
    status: Status
    review_cycle: int = Field(ge=0)
    pr_number: int | None = None
    issue: int | None = None
    branch: str | None = None
    head_sha: str | None = None
    pane_id: str | None = None
    agent: str | None = None
    attention: Attention | None = None
    updated_at: Moment
    awaiting: str = Field(default="", description="in a few words: what would move the pane")
    last_event: str = Field(default="", description="the rule that took the last event which concerned the pane")
