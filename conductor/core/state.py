"""What the rules remember of a pane and of the fleet: a fold over the journal's events, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from schemas.base import Frozen, Moment
from schemas.config import CyclePolicy
from schemas.effects import TaskKind
from schemas.finding import Finding
from schemas.forge import Check, CheckState
from schemas.pane import Attention, AttentionReason, PaneState, Role, Status
from schemas.review import EarlierReview, Verdict

WEIGHT = {
    AttentionReason.FORGE_UNAVAILABLE: 0,
    AttentionReason.INVALID_RESULT: 1,
    AttentionReason.UNRESPONSIVE: 1,
    AttentionReason.PANE_DEAD: 2,
    AttentionReason.REVIEW_FAILED: 3,
    AttentionReason.CI_TIMEOUT: 4,
    AttentionReason.LEASE_REJECTED: 4,
    AttentionReason.FOREIGN_COMMITS_LOST: 5,
    AttentionReason.CI_FAILED_CAP: 5,
    AttentionReason.CYCLE_CAP: 5,
    AttentionReason.PR_CLOSED: 5,
}
"""Which attention gives way to which: what passes by itself never hides what waits for a person."""


class Task(Frozen):
    """The task that the pane has, or had last. ``text`` is TASK.md, ``line`` the short prompt that points to it.

    ``words`` are what was asked for, which a notice repeats below what it is about.
    """

    task_id: str
    kind: TaskKind
    about: TaskKind
    nonce: str
    cycle: int
    line: str
    text: str
    words: str = ""
    delivery: Literal["sending", "queued", "delivered", "stranded", "answered", "taken_back"] = "sending"

    @property
    def open(self) -> bool:
        """The worker still owes an answer."""
        return self.delivery not in ("answered", "taken_back")


class Assignment(Frozen):
    """What a person asked for: somebody's words."""

    title: str
    body: str = ""


class Claim(Frozen):
    """A worker's claim that waits to be held against the world."""

    claim_id: str
    purpose: Literal["success", "addressed"]
    pr_number: int
    loss_accepted: bool = False


class Gate(Frozen):
    """The CI gate of one head, open or passed. ``returned``: its failure went back to the worker."""

    gate_id: str
    head: str
    base: str
    opened_at: Moment
    state: CheckState = CheckState.NOT_YET
    checks: tuple[Check, ...] = ()
    returned: bool = False
    timed_out: bool = False


class Running(Frozen):
    """A review that runs now."""

    review_id: str
    cycle: int
    head: str
    base: str


PassStage = Literal["requested", "planning", "running", "merging", "ready", "staged", "submitted", "failed"]


class ReviewPass(Frozen):
    """How far the review has come that runs now or ran last; decides nothing. ``since``: when it was first heard of.

    ``failed_in``: the stage in which it failed.
    """

    review_id: str
    pr_number: int
    head: str
    stage: Literal["requested", "planning", "running", "merging", "ready", "staged", "submitted", "failed"] = (
        "requested"
    )
    since: Moment | None = None
    login: str | None = None
    verdict: Verdict | None = None
    angles: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()
    draft_id: str | None = None
    draft_url: str = ""
    failed_in: Literal["planning", "running", "merging"] | None = None


class Pane(Frozen):
    """Everything that the rules know of one pane."""

    index: int
    role: Role
    status: Status = Status.WORKING
    review_cycle: int = 0
    pr_number: int | None = None
    issue: int | None = None
    branch: str | None = None
    base_branch: str = "main"
    head: str | None = None
    base: str | None = None
    pane_id: str | None = None
    agent: str = ""
    worktree: str = ""
    run: str = ""
    attention: Attention | None = None
    updated_at: Moment
    assignment: Assignment | None = None
    task: Task | None = None
    claim: Claim | None = None
    gate: Gate | None = None
    review: Running | None = None
    review_pass: ReviewPass | None = None
    reviews: tuple[EarlierReview, ...] = ()
    last_review_id: str | None = None
    unresolved: tuple[Finding, ...] = ()
    hygiene: tuple[Finding, ...] = ()
    green_head: str | None = None
    approved_head: str | None = None
    granted_head: str | None = None
    """The head whose approval is posted, or is still to be: it outlives a withdrawal because of CI, so that it is
    given once."""
    seen_heads: tuple[str, ...] = ()
    """Heads that the branch had since the one on record, while its worker was at work."""
    notices: int = 0
    """Notices in a row, without a claim that held."""
    ci_returns: int = 0
    extra_cycles: int = 0
    extra_ci_returns: int = 0
    serial: int = 0
    last_stamp: str | None = None
    ended: Literal["failure", "merged", "closed", "abandoned"] | None = None
    agent_state: str = "unknown"
    failing_effect: str | None = None
    """The kind of effect whose failure on this machine raised the attention."""
    last_rule: str = ""

    def published(self, awaiting: str) -> PaneState:
        """What other programs see of it; ``awaiting`` is what would move it."""
        return PaneState(
            index=self.index,
            role=self.role,
            status=self.status,
            review_cycle=self.review_cycle,
            pr_number=self.pr_number,
            issue=self.issue,
            branch=self.branch,
            head_sha=self.head,
            pane_id=self.pane_id,
            agent=self.agent or None,
            attention=self.attention,
            updated_at=self.updated_at,
            awaiting=awaiting,
            last_event=self.last_rule,
        )


class Fleet(Frozen):
    """All panes, the limits in force, and the requests of persons that were taken already."""

    policy: CyclePolicy = CyclePolicy()
    panes: Mapping[int, Pane] = {}
    requests: frozenset[str] = frozenset()
