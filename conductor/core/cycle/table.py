"""The table and the two functions over it: ``decide`` for one pane, ``apply`` for the fleet.

The whole decision is a look-up: the first row whose source states, event kind and guard fit. An event that no row
takes is kept in the journal and ignored. Neither function raises for any event.
"""

from __future__ import annotations

from dataclasses import dataclass

from conductor.core.cycle import agents, claims, gate, passes, people, reviews
from conductor.core.cycle.row import Row
from conductor.core.state import Fleet, Pane
from schemas.config import CyclePolicy
from schemas.effects import (
    CheckHistory,
    Effect,
    InspectPr,
    PostReview,
    QuarantineResult,
    Report,
    RunReview,
    SendTask,
    WriteResult,
)
from schemas.events import Event, PaneAdded, PaneBound, PaneRemoved, PolicySet, PrInspected, TaskGiven, UserDecided
from schemas.pane import Status
from schemas.review import Verdict

TABLE: tuple[Row, ...] = (*claims.ROWS, *gate.ROWS, *reviews.ROWS, *passes.ROWS, *people.ROWS, *agents.ROWS)
_BY_PLACE: dict[tuple[Status, str], tuple[Row, ...]] = {
    (status, kind): tuple(row for row in TABLE if row.kind == kind and status in row.sources)
    for status in Status
    for kind in {row.kind for row in TABLE}
}
IGNORED = "ignored"


@dataclass(frozen=True)
class Decision:
    """What became of an event: the pane after it, the effects in order, and the rule that said so."""

    pane: Pane
    effects: tuple[Effect, ...]
    rule: str


def decide(pane: Pane, event: Event, policy: CyclePolicy) -> Decision:
    """The review cycle (review protocol; review cycle page): (pane, event) -> (pane, effects). Pure and total."""
    for row in _BY_PLACE.get((pane.status, event.kind), ()):
        if row.guard(pane, event, policy):
            after, effects = row.action(pane, event, policy)
            told_only = not effects and after.model_copy(update={"review_pass": pane.review_pass}) == pane
            after, effects = _look_for_lost_commits(pane, after, effects, event)
            if effects or (after is not pane and after != pane and not told_only):
                after = after.model_copy(update={"updated_at": max(pane.updated_at, event.at), "last_rule": row.rule})
            elif after == pane:
                after = pane
            return Decision(after, tuple(effects), row.rule)
    return Decision(pane, (), IGNORED)


def _look_for_lost_commits(before: Pane, after: Pane, effects: list[Effect], event: Event) -> tuple[Pane, list[Effect]]:
    """Whenever a gate opens, the heads that the branch had before are held against the new one, whoever moved it.

    A claim that was inspected has been held against the head on record already.
    """
    gate = after.gate
    if gate is None or after.status is not Status.REVIEWING:
        return after, effects
    if before.gate is not None and before.gate.gate_id == gate.gate_id:
        return after, effects
    inspected = isinstance(event, PrInspected) and event.facts.history is not None
    heads = (*(() if inspected or before.head is None else (before.head,)), *before.seen_heads)
    old = tuple(head for head in dict.fromkeys(heads) if head != gate.head)
    after = after.model_copy(update={"seen_heads": ()})
    if not old:
        return after, effects
    return after, [CheckHistory(pane=after.index, old_heads=old, head=gate.head, base=gate.base), *effects]


def apply(fleet: Fleet, event: Event) -> tuple[Fleet, tuple[Effect, ...], str]:
    """The fleet after the event, the effects in order, and the rule that said so."""
    if isinstance(event, PolicySet):
        return fleet.model_copy(update={"policy": event.policy}), (), "policy set"
    if isinstance(event, PaneAdded):
        return _add(fleet, event)
    request = event.request if isinstance(event, UserDecided | TaskGiven | PaneBound) else None
    if request is not None:
        if request in fleet.requests:
            return fleet, (), "request taken already"
        fleet = fleet.model_copy(update={"requests": fleet.requests | {request}})
    pane = fleet.panes.get(event.pane)
    if pane is None:
        return fleet, (), IGNORED
    if isinstance(event, PaneRemoved):
        left = {index: other for index, other in fleet.panes.items() if index != event.pane}
        return fleet.model_copy(update={"panes": left}), (), "pane removed"
    decision = decide(pane, event, fleet.policy)
    if decision.pane is pane:
        return fleet, decision.effects, decision.rule
    panes = {**fleet.panes, event.pane: decision.pane}
    return fleet.model_copy(update={"panes": panes}), decision.effects, decision.rule


def settle_done(fleet: Fleet, index: int, effect: str) -> Fleet:
    """The fleet after an effect was done or dropped: what its earlier failure raised is settled."""
    pane = fleet.panes.get(index)
    after = agents.recovered(pane, effect) if pane is not None else None
    if pane is None or after is None or after is pane:
        return fleet
    return fleet.model_copy(update={"panes": {**fleet.panes, index: after}})


def _add(fleet: Fleet, event: PaneAdded) -> tuple[Fleet, tuple[Effect, ...], str]:
    known = fleet.panes.get(event.pane)
    pane = known or Pane(index=event.pane, role=event.role, run=event.run, updated_at=event.at, pane_id=event.pane_id)
    pane = pane.model_copy(
        update={
            "role": event.role,
            "agent": event.agent,
            "worktree": event.worktree,
            "branch": event.branch,
            "base_branch": event.base_branch,
        }
    )
    panes = {**fleet.panes, event.pane: pane}
    return fleet.model_copy(update={"panes": panes}), (), "pane known" if known else "pane added"


def wanted(fleet: Fleet, effect: Effect) -> bool:
    """Whether an effect that waits for its turn is still asked for; what is not is dropped, and that is recorded.

    An approval stays wanted where the pane has gone on to another pull request: it is for its head, which the forge
    compares. It does where CI failed meanwhile, too: whether it was posted is not known before it has been looked for.
    """
    pane = fleet.panes.get(effect.pane)
    if pane is None:
        return False
    if isinstance(effect, InspectPr):
        return pane.claim is not None and pane.claim.claim_id == effect.claim_id
    if isinstance(effect, RunReview):
        return pane.review is not None and pane.review.review_id == effect.review_id
    if isinstance(effect, SendTask):
        return pane.task is not None and pane.task.task_id == effect.task_id and pane.task.open
    if isinstance(effect, WriteResult):
        if effect.status == "approved":
            return pane.status is Status.APPROVED and pane.approved_head == effect.head
        return pane.status is Status.REVIEW_PENDING and pane.review_cycle == effect.review_cycle
    if isinstance(effect, PostReview) and effect.verdict is Verdict.APPROVE:
        moved_on = pane.pr_number != effect.pr_number
        return moved_on or effect.head in (pane.granted_head, pane.approved_head)
    if isinstance(effect, Report) and effect.head is not None:
        return pane.approved_head == effect.head
    if isinstance(effect, QuarantineResult):
        return pane.last_stamp == effect.stamp
    return True
