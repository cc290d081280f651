"""The moves that the rows are made of: open a gate, begin a review, give a task, want a person."""

from __future__ import annotations

from datetime import datetime

from conductor.core import messages
from conductor.core.state import WEIGHT, Gate, Pane, ReviewPass, Running, Task
from schemas.effects import Effect, Report, RunReview, SendTask, StartAgent, TaskKind, WriteResult
from schemas.pane import Attention, AttentionReason, Status

NOTICES = 10
"""A worker that is told the same kind of thing again and again must stop somewhere, like one that is reviewed."""


def numbered(pane: Pane) -> tuple[Pane, int]:
    """The pane with its serial number taken: ids are made from it, so that a replay makes the same ones."""
    serial = pane.serial + 1
    return pane.model_copy(update={"serial": serial}), serial


def want_person(
    pane: Pane, reason: AttentionReason, message: str, at: datetime, *, failing_effect: str | None = None
) -> tuple[Pane, list[Effect]]:
    """Raise attention and report it. One that is held is never covered by a lighter one.

    Lightest is what a failed effect raised: it is settled once the effect is done.
    """
    held = pane.attention
    weight = WEIGHT[reason] if failing_effect is None else 0
    if held is not None and weight < (WEIGHT[held.reason] if pane.failing_effect is None else 0):
        return pane, []
    if held is not None and (held.reason, held.message) == (reason, message):
        return pane, []
    attention = Attention(reason=reason, message=message, since=at)
    raised = pane.model_copy(update={"attention": attention, "failing_effect": failing_effect})
    return raised, [Report(pane=pane.index, level="attention", message=message, reason=reason)]


def settle(pane: Pane, *reasons: AttentionReason) -> Pane:
    """The pane without attention for one of these reasons."""
    if pane.attention is not None and pane.attention.reason in reasons:
        return pane.model_copy(update={"attention": None})
    return pane


def kept_at_approval(pane: Pane) -> Attention | None:
    """An approval settles everything but somebody else's lost commits: those a person must have seen."""
    held = pane.attention
    return held if held is not None and held.reason is AttentionReason.FOREIGN_COMMITS_LOST else None


def approved_result(pane: Pane, head: str) -> WriteResult:
    """The conductor's word in RESULT.json that this head is approved."""
    number = pane.pr_number or 0
    cycle = pane.review_cycle
    return WriteResult(pane=pane.index, status="approved", pr_number=number, review_cycle=cycle, head=head)


def open_gate(pane: Pane, head: str, base: str, at: datetime) -> Pane:
    """The CI gate for this head. Whatever was decided or running before is dropped, also for the same head; only an
    approval that was given to it is remembered."""
    pane, serial = numbered(pane)
    gate = Gate(gate_id=f"{pane.run[:4]}-{pane.index}-g{serial}", head=head, base=base, opened_at=at)
    granted = pane.granted_head if pane.granted_head == head else None
    stands = pane.review_pass is not None and (granted is not None or pane.review_pass.stage == "submitted")
    return pane.model_copy(
        update={
            "status": Status.REVIEWING,
            "gate": gate,
            "head": head,
            "base": base,
            "review": None,
            "review_pass": pane.review_pass if stands else None,
            "claim": None,
            "green_head": None,
            "approved_head": None,
            "granted_head": granted,
            "notices": 0,
        }
    )


def begin_review(pane: Pane, gate: Gate) -> tuple[Pane, list[Effect]]:
    """Start the review of the gate's head, once."""
    pane, serial = numbered(pane)
    running = Running(
        review_id=f"{pane.run}-{pane.index}-r{serial}",
        cycle=pane.review_cycle + 1,
        head=gate.head,
        base=gate.base,
    )
    number = pane.pr_number
    assert number is not None
    began = ReviewPass(review_id=running.review_id, pr_number=number, head=running.head)
    pane = pane.model_copy(
        update={"status": Status.REVIEWING, "review": running, "review_pass": began, "green_head": gate.head}
    )
    effect = RunReview(
        pane=pane.index,
        review_id=running.review_id,
        cycle=running.cycle,
        pr_number=number,
        head=running.head,
        base=running.base,
        issue=pane.issue,
        earlier=pane.reviews,
    )
    return pane, [effect]


def give_task(
    pane: Pane,
    kind: TaskKind,
    middle: str,
    *,
    about: TaskKind | None = None,
    words: str | None = None,
    start: bool = False,
    send: bool = True,
) -> tuple[Pane, list[Effect]]:
    """A new task for the worker, in place of the one before. A notice keeps the nonce of the task that it is about."""
    pane, serial = numbered(pane)
    task_id = f"{pane.run[:4]}-{pane.index}-{serial}"
    about = about or kind
    keep = kind == "notice" and pane.task is not None
    nonce = pane.task.nonce if keep and pane.task is not None else f"{pane.run}-{pane.index}-{serial}"
    text = messages.task_text(
        pane, task_id=task_id, kind=kind, about=about, nonce=nonce, lease=pane.head, middle=middle
    )
    task = Task(
        task_id=task_id,
        kind=kind,
        about=about,
        nonce=nonce,
        cycle=pane.review_cycle,
        line=messages.pointer(task_id),
        text=text,
        words=middle if words is None else words,
    )
    pane = pane.model_copy(update={"task": task})
    return pane, [_sending(pane, task, start=start)] if send else []


def owes_answer(pane: Pane) -> bool:
    """The worker has an open task that its status still waits for."""
    return pane.task is not None and pane.task.open and pane.status in (Status.WORKING, Status.REVIEW_PENDING)


def resend_task(pane: Pane, *, start: bool) -> tuple[Pane, list[Effect]]:
    """The open task again under a new message id, with the same nonce; where none is open, only the agent's start."""
    task = pane.task
    if task is None or not owes_answer(pane):
        return pane, [StartAgent(pane=pane.index)] if start else []
    pane, serial = numbered(pane)
    task_id = f"{pane.run[:4]}-{pane.index}-{serial}"
    again = task.model_copy(
        update={
            "task_id": task_id,
            "line": messages.pointer(task_id),
            "text": task.text.replace(task.task_id, task_id),
            "delivery": "sending",
        }
    )
    pane = pane.model_copy(update={"task": again})
    return pane, [_sending(pane, again, start=start)]


def _sending(pane: Pane, task: Task, *, start: bool) -> SendTask:
    return SendTask(pane=pane.index, task_id=task.task_id, task=task.kind, start=start, line=task.line, text=task.text)


def original_words(pane: Pane) -> str:
    """What the task asks for that a notice is about, so that a notice never hides it."""
    if pane.task is None:
        return messages.assignment_text(pane.assignment, pane.issue) if pane.assignment else ""
    return pane.task.words


def tell_worker(pane: Pane, problem: str) -> tuple[Pane, list[Effect]]:
    """Tell the worker what is missing, once, with the task as it was; after ``NOTICES`` in a row only people."""
    if pane.notices >= NOTICES:
        return pane, []
    pane = pane.model_copy(update={"notices": pane.notices + 1})
    about: TaskKind = pane.task.about if pane.task else "first"
    words = original_words(pane)
    return give_task(pane, "notice", messages.notice_text(problem, words), about=about, words=words)


def answered(pane: Pane) -> Pane:
    """The worker answered its task."""
    if pane.task is None or not pane.task.open:
        return pane
    return pane.model_copy(update={"task": pane.task.model_copy(update={"delivery": "answered"})})


def taken_back(pane: Pane) -> Pane:
    """The task that is still open is not asked for any more: what waits for its delivery is dropped."""
    if pane.task is None or not pane.task.open:
        return pane
    return pane.model_copy(update={"task": pane.task.model_copy(update={"delivery": "taken_back"})})
