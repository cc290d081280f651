"""Facts that reach the rules. Time and the outside world arrive only as events.

An event names its pane and the moment it was observed. The journal keeps every one; states are a fold over them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Frozen, Moment
from schemas.config import CyclePolicy
from schemas.forge import Check, CheckState
from schemas.pane import Role
from schemas.result import Result
from schemas.review import Review


class Happened(Frozen):
    """What all events have: the pane's index and the moment in UTC."""

    pane: int = Field(ge=0)
    at: Moment


class PolicySet(Happened):
    """The limits in force from now on (pane 0: all panes). In the journal, so that a replay needs no configuration."""

    kind: Literal["policy_set"] = "policy_set"
    policy: CyclePolicy


class PaneAdded(Happened):
    """A pane joined the fleet. ``run`` is a random token that keeps ids of different journals apart."""

    kind: Literal["pane_added"] = "pane_added"
    role: Role
    agent: str
    run: str = Field(pattern=r"^[0-9a-f]{6,32}$")
    worktree: str
    branch: str | None = None
    base_branch: str = "main"
    pane_id: str | None = None


class PaneBound(Happened):
    """The pane lives under this tmux id now; an unfinished task is given again where the agent had been lost."""

    kind: Literal["pane_bound"] = "pane_bound"
    pane_id: str
    fresh: bool = Field(description="the pane was made anew, so no agent runs in it")
    request: str | None = None


class PaneRemoved(Happened):
    """The pane and its worktree are gone (cleaned up)."""

    kind: Literal["pane_removed"] = "pane_removed"
    why: str = ""


class TaskGiven(Happened):
    """A person gave the pane a task. ``title`` and ``body`` are somebody's words, cleaned of control characters."""

    kind: Literal["task_given"] = "task_given"
    issue: int | None = None
    title: str
    body: str = ""
    branch: str | None = Field(default=None, description="the branch that the worktree was turned to for it")
    request: str | None = None


class ResultSeen(Happened):
    """A readable RESULT.json. ``stamp`` identifies this writing of the file, ``digest`` its content."""

    kind: Literal["result_seen"] = "result_seen"
    result: Result
    digest: str
    stamp: str


class ResultInvalid(Happened):
    """A RESULT.json that cannot be taken: ``problem`` has the path, the place and what was expected."""

    kind: Literal["result_invalid"] = "result_invalid"
    problem: str
    stamp: str


class History(Frozen):
    """How a branch moved from ``old`` to ``new`` (review cycle page, commit hygiene)."""

    shape: Literal["same", "amended", "more_commits", "fewer_commits", "rebased", "rewritten"]
    old: str
    new: str
    commits_before: int = Field(ge=0)
    commits_after: int = Field(ge=0)
    foreign_lost: tuple[str, ...] = Field(default=(), description="one line for each lost commit of somebody else")
    range_diff: str = ""


class PrFacts(Frozen):
    """A worker's claim held against the forge, the remote and the worktree. None where a thing was not found."""

    number: int
    found: bool
    state: Literal["open", "closed", "merged"] | None = None
    head_branch: str | None = None
    head: str | None = None
    base: str | None = None
    worktree_branch: str | None = None
    worktree_head: str | None = None
    remote_head: str | None = None
    commits_ahead: int | None = None
    replies: int = Field(default=0, ge=0, description="comments by others than the conductor since its last review")
    history: History | None = None


class PrInspected(Happened):
    """What came of looking at the claim ``claim_id``."""

    kind: Literal["pr_inspected"] = "pr_inspected"
    claim_id: str
    facts: PrFacts
    lag_over: bool = Field(default=False, description="the forge's API disagreed with the remote for too long")


class CiRead(Happened):
    """The checks of ``head`` changed, or were read for the first time."""

    kind: Literal["ci_read"] = "ci_read"
    gate_id: str
    head: str
    state: CheckState
    checks: tuple[Check, ...] = ()


class CiBudgetSpent(Happened):
    """The watch budget of the gate is used up and one last refresh still saw no verdict."""

    kind: Literal["ci_budget_spent"] = "ci_budget_spent"
    gate_id: str
    state: CheckState


ReviewStageName = Literal["planning", "running", "merging", "staged"]


class ReviewStage(Happened):
    """How far a review has come. It decides nothing: it is what the reviewer loop's local state is made of.

    ``staged``: it is pending on the forge, as ``draft_id``.
    """

    kind: Literal["review_stage"] = "review_stage"
    review_id: str
    stage: ReviewStageName
    login: str | None = Field(default=None, description="who reviews")
    draft_id: str | None = None
    draft_url: str = ""


class ReviewFinished(Happened):
    """A review came to a verdict. ``head_now`` is the pull request's head when it ended."""

    kind: Literal["review_finished"] = "review_finished"
    review: Review
    head_now: str


class ReviewFailed(Happened):
    """A review could not be made. It is never taken for "no findings"."""

    kind: Literal["review_failed"] = "review_failed"
    review_id: str
    reason: str


class ReviewPosted(Happened):
    """The review or approval stands on the pull request (or stood there already: ``already``)."""

    kind: Literal["review_posted"] = "review_posted"
    review_id: str
    url: str = ""
    already: bool = False
    as_comment: bool = False


class TaskDelivered(Happened):
    """The agent has the task; ``evidence`` says how that is known (receipt, screen, command line)."""

    kind: Literal["task_delivered"] = "task_delivered"
    task_id: str
    evidence: str


class TaskQueued(Happened):
    """The task waits until the agent can take it."""

    kind: Literal["task_queued"] = "task_queued"
    task_id: str
    reason: str


class TaskStranded(Happened):
    """The task could not be delivered; ``screen`` has the last lines that the pane showed."""

    kind: Literal["task_stranded"] = "task_stranded"
    task_id: str
    reason: str
    screen: str = ""


class LostCommits(Frozen):
    """Commits of somebody else that ``old`` had and the new head does not; one line for a person each."""

    old: str
    lines: tuple[str, ...]


class HistoryChecked(Happened):
    """What fell out of the branch when it came to ``head``. Empty where nothing of somebody else did."""

    kind: Literal["history_checked"] = "history_checked"
    head: str
    lost: tuple[LostCommits, ...] = ()


class CiLost(Happened):
    """An approval was about to be posted, and CI of ``head`` was not green any more."""

    kind: Literal["ci_lost"] = "ci_lost"
    head: str
    state: CheckState


class HeadMoved(Happened):
    """The pull request has another head now (read from the remote)."""

    kind: Literal["head_moved"] = "head_moved"
    head: str
    base: str | None = None


class PrMerged(Happened):
    """The pull request was merged."""

    kind: Literal["pr_merged"] = "pr_merged"


class PrClosed(Happened):
    """The pull request was closed without a merge."""

    kind: Literal["pr_closed"] = "pr_closed"


class UserDecided(Happened):
    """A person's decision: who, what, why. ``request`` makes taking it twice impossible."""

    kind: Literal["user_decided"] = "user_decided"
    verb: Literal["approve", "another-cycle", "retry", "abandon"]
    why: str
    who: str
    request: str
    follow_up_issue: int | None = Field(default=None, ge=1)


class PaneDied(Happened):
    """The pane's program ended or the pane is gone."""

    kind: Literal["pane_died"] = "pane_died"
    detail: str


class AgentSeen(Happened):
    """The agent's state changed. ``detail`` is what a person needs to see (the dialog, the reset time)."""

    kind: Literal["agent_seen"] = "agent_seen"
    state: Literal["starting", "idle", "busy", "permission", "trust", "limit", "error", "gone", "silent"]
    detail: str = ""


class LimitOver(Happened):
    """The usage limit that the agent showed is over, by its own words."""

    kind: Literal["limit_over"] = "limit_over"


class ForgeFailed(Happened):
    """The forge could not be reached or answered with an error, again and again."""

    kind: Literal["forge_failed"] = "forge_failed"
    reason: str


class ForgeBack(Happened):
    """The forge answers again."""

    kind: Literal["forge_back"] = "forge_back"


class EffectFailed(Happened):
    """An effect could not be carried out on this machine (disk full, folder not readable, ...)."""

    kind: Literal["effect_failed"] = "effect_failed"
    effect: str
    reason: str


Event = Annotated[
    PolicySet
    | PaneAdded
    | PaneBound
    | PaneRemoved
    | TaskGiven
    | ResultSeen
    | ResultInvalid
    | PrInspected
    | CiRead
    | CiBudgetSpent
    | ReviewStage
    | ReviewFinished
    | ReviewFailed
    | ReviewPosted
    | TaskDelivered
    | TaskQueued
    | TaskStranded
    | HistoryChecked
    | CiLost
    | HeadMoved
    | PrMerged
    | PrClosed
    | UserDecided
    | PaneDied
    | AgentSeen
    | LimitOver
    | ForgeFailed
    | ForgeBack
    | EffectFailed,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
