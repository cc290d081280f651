"""What is awaited, read off the state: after a crash the same things are watched, with nothing else remembered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from conductor.core.state import Fleet, Pane
from schemas.forge import CheckState
from schemas.pane import AttentionReason, Role, Status

_HEAD_MATTERS = (Status.REVIEWING, Status.APPROVED)


@dataclass(frozen=True)
class CiWatch:
    """The checks of this head are awaited until ``deadline``; None where the wait has no end of its own."""

    pane: int
    pr_number: int
    gate_id: str
    head: str
    deadline: datetime | None
    known: CheckState


@dataclass(frozen=True)
class PrWatch:
    """A pull request whose head, merge or closing matters."""

    pane: int
    pr_number: int
    head: str | None
    seen: tuple[str, ...] = ()
    """Heads that are known already; only another one is an event."""


def ci_watches(fleet: Fleet) -> tuple[CiWatch, ...]:
    """The gates of heads under review (CI may be run again meanwhile), returned ones that may turn green, and those of
    approved heads that may turn red. Only the first have a deadline, and only where CI has not failed for good: what a
    person has to decide then, a green run answers too.
    """
    found = []
    for pane in fleet.panes.values():
        gate = pane.gate
        failed_for_good = pane.attention is not None and pane.attention.reason is AttentionReason.CI_FAILED_CAP
        if gate is None or pane.pr_number is None or (gate.timed_out and not failed_for_good):
            continue
        undecided = pane.status is Status.REVIEWING
        returned = gate.returned and pane.status in (Status.WORKING, Status.REVIEW_PENDING)
        approved = pane.status is Status.APPROVED and pane.ended is None
        if undecided or returned or approved:
            limited = undecided and not gate.timed_out
            deadline = gate.opened_at + timedelta(seconds=fleet.policy.ci_budget) if limited else None
            found.append(CiWatch(pane.index, pane.pr_number, gate.gate_id, gate.head, deadline, gate.state))
    return tuple(found)


def pr_watches(fleet: Fleet) -> tuple[PrWatch, ...]:
    """Every live pull request of a worker."""
    return tuple(
        PrWatch(
            pane.index,
            pane.pr_number,
            pane.head,
            seen=() if pane.status in _HEAD_MATTERS else pane.seen_heads,
        )
        for pane in fleet.panes.values()
        if pane.role is Role.WORKER
        and pane.pr_number is not None
        and pane.status is not Status.DONE
        and pane.ended is None
    )


def awaited(pane: Pane) -> str:
    """In a few words: what would move this pane."""
    if pane.attention is not None and pane.attention.reason not in (
        AttentionReason.UNRESPONSIVE,
        AttentionReason.FORGE_UNAVAILABLE,
    ):
        return "a person's decision"
    if pane.claim is not None:
        return f"a look at #{pane.claim.pr_number}"
    if pane.status is Status.REVIEWING:
        return "the review" if pane.review is not None else "CI"
    if pane.status in (Status.WORKING, Status.REVIEW_PENDING):
        return _from_worker(pane)
    if pane.status is Status.APPROVED:
        if pane.ended == "merged":
            return "nothing"
        runs = pane.gate is not None and pane.gate.state is CheckState.PENDING
        return "the merge; CI runs again" if runs else "the merge"
    return "nothing"


def _from_worker(pane: Pane) -> str:
    if pane.task is None:
        return "a task"
    where = {"sending": "delivery of", "queued": "the agent to take", "stranded": "a person to deliver"}
    if pane.task.delivery in where:
        return f"{where[pane.task.delivery]} task {pane.task.task_id}"
    return {"first": "the pull request", "fix": "the fix", "ci": "green CI", "notice": "the worker's report"}[
        pane.task.kind
    ]
