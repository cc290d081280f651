"""Rows about agents, deliveries and the machine: what reached the pane, who is silent, what could not be done."""

from __future__ import annotations

from datetime import datetime

from conductor.core.cycle.claims import inspect_again
from conductor.core.cycle.moves import owes_answer, resend_task, settle, want_person
from conductor.core.cycle.row import EVERY, LIVE, Outcome, Row
from conductor.core.state import Pane
from schemas.config import CyclePolicy
from schemas.events import (
    AgentSeen,
    EffectFailed,
    ForgeBack,
    ForgeFailed,
    LimitOver,
    PaneDied,
    TaskDelivered,
    TaskQueued,
    TaskStranded,
)
from schemas.pane import AttentionReason, Status

_TROUBLE = {
    "permission": "asks for leave",
    "trust": "asks whether to trust the folder",
    "limit": "has reached its usage limit",
    "error": "shows an error",
    "silent": "has been silent for too long",
}


def _other_task(pane: Pane, event: TaskDelivered | TaskQueued | TaskStranded, _policy: CyclePolicy) -> bool:
    return pane.task is None or pane.task.task_id != event.task_id


def _delivered(pane: Pane, _event: TaskDelivered, _policy: CyclePolicy) -> Outcome:
    # An agent that has the task and asks, or failed at it, still wants a person.
    settled = pane if pane.agent_state in _TROUBLE else settle(pane, AttentionReason.UNRESPONSIVE)
    return _delivery(settled, "delivered"), []


def _queued(pane: Pane, event: TaskQueued, _policy: CyclePolicy) -> Outcome:
    pane = _delivery(pane, "queued")
    # It may have ended while nothing was asked of it: nobody was told then, and it will not take the task.
    return _dead(pane, event.reason, event.at) if pane.agent_state == "gone" else (pane, [])


def _delivery(pane: Pane, how: str) -> Pane:
    task = pane.task
    if task is None or not task.open or task.delivery == how:
        return pane
    return pane.model_copy(update={"task": task.model_copy(update={"delivery": how})})


def _stranded(pane: Pane, event: TaskStranded, _policy: CyclePolicy) -> Outcome:
    shown = f"\nThe pane shows:\n{event.screen}" if event.screen else ""
    return want_person(
        _delivery(pane, "stranded"),
        AttentionReason.UNRESPONSIVE,
        f"Pane {pane.index}: the task {event.task_id} did not reach the agent: {event.reason}{shown}\n"
        f"`taskmaestro attach` to look; `taskmaestro decide {pane.index} retry --why ...` sends it again.",
        event.at,
    )


def _same_state(pane: Pane, event: AgentSeen, _policy: CyclePolicy) -> bool:
    """Nothing that a person does not know: another question after a question is news."""
    if pane.agent_state != event.state:
        return False
    settled = event.state not in _TROUBLE or pane.status is Status.DONE or _has_stranded_task(pane)
    return settled or not _tell_trouble(pane, event)[1]


def _in_trouble(_pane: Pane, event: AgentSeen, _policy: CyclePolicy) -> bool:
    return event.state in _TROUBLE


def _trouble(pane: Pane, event: AgentSeen, _policy: CyclePolicy) -> Outcome:
    pane = pane.model_copy(update={"agent_state": event.state})
    return (pane, []) if pane.status is Status.DONE else _tell_trouble(pane, event)


def _tell_trouble(pane: Pane, event: AgentSeen) -> Outcome:
    detail = f": {event.detail}" if event.detail else ""
    return want_person(
        pane,
        AttentionReason.UNRESPONSIVE,
        f"Pane {pane.index}: the agent {_TROUBLE[event.state]}{detail}. `taskmaestro attach` to look.",
        event.at,
    )


def _has_stranded_task(pane: Pane) -> bool:
    return pane.task is not None and pane.task.delivery == "stranded"


def _seen(pane: Pane, event: AgentSeen, _policy: CyclePolicy) -> Outcome:
    was_in_trouble, was_gone = pane.agent_state in _TROUBLE, pane.agent_state == "gone"
    pane = pane.model_copy(update={"agent_state": event.state})
    if was_in_trouble and not _has_stranded_task(pane) and event.state in ("idle", "busy"):
        pane = settle(pane, AttentionReason.UNRESPONSIVE)
    if was_gone and event.state in ("idle", "busy"):
        pane = settle(pane, AttentionReason.PANE_DEAD)
        if pane.attention is None and owes_answer(pane) and _has_stranded_task(pane):
            return _still_stranded(pane, event)
    return pane, []


def _still_stranded(pane: Pane, event: AgentSeen) -> Outcome:
    assert pane.task is not None
    return want_person(
        pane,
        AttentionReason.UNRESPONSIVE,
        f"Pane {pane.index}: the agent is there again, and the task {pane.task.task_id} did not reach it.\n"
        f"`taskmaestro decide {pane.index} retry --why ...` sends it again.",
        event.at,
    )


def _limit_over(pane: Pane, _event: LimitOver, _policy: CyclePolicy) -> Outcome:
    pane = settle(pane, AttentionReason.UNRESPONSIVE).model_copy(update={"agent_state": "idle"})
    begun = pane.task is not None and pane.task.delivery in ("delivered", "stranded")
    return resend_task(pane, start=False) if begun and owes_answer(pane) else (pane, [])


def _died(pane: Pane, event: PaneDied, _policy: CyclePolicy) -> Outcome:
    pane = pane.model_copy(update={"agent_state": "gone"})
    return (pane, []) if pane.status in (Status.APPROVED, Status.DONE) else _dead(pane, event.detail, event.at)


def _dead(pane: Pane, detail: str, at: datetime) -> Outcome:
    return want_person(
        pane,
        AttentionReason.PANE_DEAD,
        f"Pane {pane.index}: the agent's program ended ({detail}). Its worktree and its task are kept."
        f" `taskmaestro decide {pane.index} retry --why ...` starts it again, `taskmaestro up` where tmux is gone.",
        at,
    )


def _forge_down(pane: Pane, event: ForgeFailed, _policy: CyclePolicy) -> Outcome:
    if pane.attention is not None and pane.attention.reason is AttentionReason.FORGE_UNAVAILABLE:
        return pane, []
    return want_person(
        pane,
        AttentionReason.FORGE_UNAVAILABLE,
        f"Pane {pane.index}: the forge cannot be reached: {event.reason} It is asked again; nothing is lost.",
        event.at,
    )


def _forge_up(pane: Pane, _event: ForgeBack, _policy: CyclePolicy) -> Outcome:
    if pane.attention is None or pane.attention.reason is not AttentionReason.FORGE_UNAVAILABLE:
        return pane, []
    pane = settle(pane, AttentionReason.FORGE_UNAVAILABLE)
    return inspect_again(pane) if pane.claim is not None else (pane, [])


KEEP_WORKTREE = "keep_worktree"
"""What failed where a worktree vanished without a clean-up."""
_FAILED_EFFECT = {
    "send_task": AttentionReason.UNRESPONSIVE,
    "take_back_task": AttentionReason.UNRESPONSIVE,
    "inspect_pr": AttentionReason.FORGE_UNAVAILABLE,
}


def _effect_failed(pane: Pane, event: EffectFailed, _policy: CyclePolicy) -> Outcome:
    reason = _FAILED_EFFECT.get(event.effect, AttentionReason.REVIEW_FAILED)
    what = event.effect.replace("_", " ")
    return want_person(
        pane,
        reason,
        f"Pane {pane.index}: {what} failed on this machine: {event.reason} It is tried again; the other panes go on.",
        event.at,
        failing_effect=event.effect,
    )


def _of_worktree(_pane: Pane, event: EffectFailed, _policy: CyclePolicy) -> bool:
    return event.effect == KEEP_WORKTREE


def _worktree_lost(pane: Pane, event: EffectFailed, _policy: CyclePolicy) -> Outcome:
    return want_person(
        pane,
        AttentionReason.PANE_DEAD,
        f"Pane {pane.index}: {event.reason} `taskmaestro up` makes the worktree again on the branch {pane.branch}"
        " and gives the open task again; commits that are on no branch it first keeps under"
        f" refs/taskmaestro/recovery/wt-{pane.index}/. What was not committed is lost.",
        event.at,
    )


def recovered(pane: Pane, effect: str) -> Pane:
    """The pane after this kind of effect was done: what its failure raised is settled."""
    if pane.attention is None or pane.failing_effect != effect:
        return pane
    return pane.model_copy(update={"attention": None, "failing_effect": None})


ROWS: tuple[Row, ...] = (
    Row("delivery of another task", EVERY, "task_delivered", None, "that task was replaced", guard=_other_task),
    Row("task delivered", EVERY, "task_delivered", None, "the agent has it", _delivered),
    Row("queueing of another task", EVERY, "task_queued", None, "that task was replaced", guard=_other_task),
    Row("task queued", EVERY, "task_queued", None, "it waits for the agent", _queued),
    Row("stranding of another task", EVERY, "task_stranded", None, "that task was replaced", guard=_other_task),
    Row("task stranded", LIVE, "task_stranded", None, "a person is told, with what the pane shows", _stranded),
    Row("agent unchanged", EVERY, "agent_seen", None, "nothing new", guard=_same_state),
    Row(
        "agent needs a person",
        EVERY,
        "agent_seen",
        None,
        "a dialog, a limit, an error, or silence",
        _trouble,
        _in_trouble,
    ),
    Row("agent seen", EVERY, "agent_seen", None, "idle, busy or starting", _seen),
    Row("limit over", LIVE, "limit_over", None, "what it interrupted is asked for again", _limit_over),
    Row(
        "pane died",
        EVERY,
        "pane_died",
        None,
        "its program ended: a person is told, where something is still asked of it",
        _died,
    ),
    Row("forge unreachable", LIVE, "forge_failed", None, "a person is told; it is asked again", _forge_down),
    Row("forge back", EVERY, "forge_back", None, "answers again", _forge_up),
    Row(
        "worktree lost",
        LIVE,
        "effect_failed",
        None,
        "somebody removed it: a person is told, the branch is kept",
        _worktree_lost,
        _of_worktree,
    ),
    Row(
        "effect failed",
        LIVE,
        "effect_failed",
        None,
        "this machine refused: a person is told, the others go on",
        _effect_failed,
    ),
)
