"""Rows about people's words: panes that join, tasks that are given, decisions that are made."""

from __future__ import annotations

from datetime import datetime

from conductor.core import messages
from conductor.core.cycle.claims import inspect_again
from conductor.core.cycle.gate import return_to_worker
from conductor.core.cycle.moves import begin_review, give_task, open_gate, resend_task, settle, taken_back
from conductor.core.cycle.reviews import approved, gate_green
from conductor.core.cycle.row import EVERY, LIVE, Guard, Outcome, Row
from conductor.core.state import Assignment, Gate, Pane
from schemas.config import CyclePolicy
from schemas.effects import Report
from schemas.events import PaneBound, TaskGiven, UserDecided
from schemas.finding import Deferral
from schemas.pane import AttentionReason, Role, Status
from schemas.review import Review, Verdict
from schemas.text import one_line


def _free(pane: Pane, _event: TaskGiven, _policy: CyclePolicy) -> bool:
    if pane.role is not Role.WORKER:
        return False
    untouched = pane.status is Status.WORKING and pane.task is None and pane.claim is None and pane.pr_number is None
    return untouched or pane.status in (Status.DONE, Status.APPROVED)


def _assign(pane: Pane, event: TaskGiven, _policy: CyclePolicy) -> Outcome:
    fresh = Pane(
        index=pane.index,
        role=pane.role,
        agent=pane.agent,
        worktree=pane.worktree,
        branch=event.branch or pane.branch,
        base_branch=pane.base_branch,
        run=pane.run,
        pane_id=pane.pane_id,
        updated_at=event.at,
        serial=pane.serial,
        last_stamp=pane.last_stamp,
        agent_state=pane.agent_state,
        issue=event.issue,
        assignment=Assignment(title=event.title, body=event.body),
    )
    middle = messages.assignment_text(Assignment(title=event.title, body=event.body), event.issue)
    return give_task(fresh, "first", middle, send=pane.pane_id is not None)


def _refuse_assignment(pane: Pane, event: TaskGiven, _policy: CyclePolicy) -> Outcome:
    message = f"Pane {pane.index} still has a task: `{one_line(event.title, 80)}` was not given to it."
    return pane, [Report(pane=pane.index, level="info", message=message)]


def _bind(pane: Pane, event: PaneBound, _policy: CyclePolicy) -> Outcome:
    unbound = pane.pane_id is None
    pane = pane.model_copy(update={"pane_id": event.pane_id})
    if pane.role is Role.CONDUCTOR:
        return pane, []
    if not event.fresh:
        return resend_task(pane, start=False) if unbound else (pane, [])
    pane = settle(pane, AttentionReason.PANE_DEAD, AttentionReason.UNRESPONSIVE)
    pane = pane.model_copy(update={"agent_state": "unknown"})
    return resend_task(pane, start=True)


def _not_asked(pane: Pane, _event: UserDecided, _policy: CyclePolicy) -> bool:
    return pane.attention is None


def _refuse(pane: Pane, why: str) -> Outcome:
    return pane, [Report(pane=pane.index, level="info", message=f"Pane {pane.index}: not done: {why}")]


def _nothing_to_decide(pane: Pane, _event: UserDecided, _policy: CyclePolicy) -> Outcome:
    return _refuse(pane, "nothing waits for a decision there.")


def _verb(verb: str, *reasons: AttentionReason) -> Guard:
    def guard(pane: Pane, event: UserDecided, _policy: CyclePolicy) -> bool:
        fits = not reasons or (pane.attention is not None and pane.attention.reason in reasons)
        return event.verb == verb and fits

    return guard


def _abandon(pane: Pane, event: UserDecided, _policy: CyclePolicy) -> Outcome:
    gone = {
        "attention": None,
        "gate": None,
        "review": None,
        "claim": None,
        "ended": "abandoned",
        "approved_head": None,
        "granted_head": None,
    }
    pane = taken_back(pane).model_copy(update={"status": Status.DONE, **gone})
    said = f"Pane {pane.index}: abandoned by {event.who}: {event.why}"
    return pane, [Report(pane=pane.index, level="info", message=said)]


def _ci_green(pane: Pane, policy: CyclePolicy) -> bool:
    """CI was green for this head, and still is where its gate is open."""
    if pane.green_head is None or pane.green_head != pane.head:
        return False
    return pane.gate is None or gate_green(pane.gate, pane.head, policy)


def _approvable(pane: Pane, event: UserDecided, policy: CyclePolicy) -> bool:
    if event.verb != "approve" or pane.attention is None or pane.attention.reason is not AttentionReason.CYCLE_CAP:
        return False
    if not _ci_green(pane, policy) or not pane.reviews:
        return False
    blocking = [finding for finding in pane.unresolved if finding.blocking]
    critical = any(finding.severity.rank == 0 for finding in blocking)
    deferrable = event.follow_up_issue is not None and bool(event.why.strip())
    return not critical and (not blocking or deferrable)


def _approve(pane: Pane, event: UserDecided, _policy: CyclePolicy) -> Outcome:
    assert pane.head is not None
    findings = tuple(
        finding.model_copy(update={"deferred": Deferral(reason=event.why, follow_up_issue=event.follow_up_issue or 1)})
        if finding.blocking
        else finding
        for finding in pane.unresolved
    )
    review = Review(
        review_id=f"{pane.last_review_id}-by-person",
        cycle=pane.review_cycle,
        head=pane.head,
        base=pane.base or pane.head,
        verdict=Verdict.APPROVE,
        findings=findings,
        reviewer=event.who,
    )
    return approved(pane, review, f" by {event.who}", event.at)


def _refuse_approval(pane: Pane, _event: UserDecided, policy: CyclePolicy) -> Outcome:
    attention = pane.attention
    if attention is None or attention.reason is not AttentionReason.CYCLE_CAP:
        return _refuse(pane, "only a pull request that was reviewed up to the cap can be approved by a person.")
    if not _ci_green(pane, policy):
        return _refuse(pane, "CI is not green for the current head.")
    if any(finding.severity.rank == 0 for finding in pane.unresolved if finding.blocking):
        return _refuse(pane, "a critical finding is open; those are never deferred.")
    if not pane.reviews:
        return _refuse(pane, "no review was made yet.")
    return _refuse(pane, "high findings are open: say why and name the issue that follows them up (`--follow-up N`).")


def _review_when_green(pane: Pane, gate: Gate, at: datetime, policy: CyclePolicy) -> Outcome:
    """The review of the gate's head, at once where CI is green still."""
    if pane.green_head == gate.head and gate_green(gate, gate.head, policy):
        return begin_review(pane, gate)
    if gate.timed_out:
        return open_gate(pane, gate.head, gate.base, at), []
    return pane.model_copy(update={"green_head": None}), []


def _another_review(pane: Pane, event: UserDecided, policy: CyclePolicy) -> Outcome:
    pane = pane.model_copy(update={"extra_cycles": pane.extra_cycles + 1, "attention": None})
    if pane.status is Status.REVIEWING and pane.gate is not None:
        return _review_when_green(pane, pane.gate, event.at, policy) if pane.review is None else (pane, [])
    pane = pane.model_copy(update={"status": Status.REVIEW_PENDING})
    return give_task(pane, "fix", messages.fix_text(pane.unresolved))


def _another_ci_return(pane: Pane, _event: UserDecided, _policy: CyclePolicy) -> Outcome:
    pane = pane.model_copy(update={"extra_ci_returns": pane.extra_ci_returns + 1, "attention": None})
    return return_to_worker(pane) if pane.gate is not None else (pane, [])


def _refuse_cycle(pane: Pane, _event: UserDecided, _policy: CyclePolicy) -> Outcome:
    return _refuse(pane, "another cycle helps only at the cap of reviews or of CI returns; try retry.")


def _retry(pane: Pane, event: UserDecided, policy: CyclePolicy) -> Outcome:
    assert pane.attention is not None
    reason = pane.attention.reason
    pane = pane.model_copy(update={"attention": None, "notices": 0})
    gate = pane.gate
    if gate is not None and pane.status is Status.REVIEWING and gate.timed_out:
        return open_gate(pane, gate.head, gate.base, event.at), []  # whatever else went wrong meanwhile
    if reason is AttentionReason.REVIEW_FAILED and gate is not None and pane.status is Status.REVIEWING:
        return _review_when_green(pane, gate, event.at, policy) if pane.review is None else (pane, [])
    if reason is AttentionReason.FOREIGN_COMMITS_LOST:
        return inspect_again(pane, loss_accepted=True) if pane.claim is not None else (pane, [])
    if reason is AttentionReason.FORGE_UNAVAILABLE:
        return inspect_again(pane) if pane.claim is not None else (pane, [])
    if reason is AttentionReason.PR_CLOSED:
        return inspect_again(pane.model_copy(update={"status": Status.WORKING, "ended": None}))
    return resend_task(pane, start=reason is AttentionReason.PANE_DEAD or pane.agent_state == "gone")


def _retry_at_cap(pane: Pane, _event: UserDecided, _policy: CyclePolicy) -> Outcome:
    return _refuse(pane, "the cap of reviews is reached: approve, another-cycle or abandon.")


_CAP = AttentionReason.CYCLE_CAP

ROWS: tuple[Row, ...] = (
    Row("task given", EVERY, "task_given", frozenset({Status.WORKING}), "a free pane takes it", _assign, _free),
    Row("task not given", EVERY, "task_given", None, "the pane is not free: reported", _refuse_assignment),
    Row("pane bound", EVERY, "pane_bound", None, "a new pane gets its agent, and the open task again", _bind),
    Row(
        "given up at work",
        LIVE - {Status.APPROVED},
        "user_decided",
        frozenset({Status.DONE}),
        "a person gives a task up that nobody asked about",
        _abandon,
        lambda pane, event, _policy: pane.attention is None and event.verb == "abandon",
    ),
    Row(
        "nothing to decide",
        EVERY,
        "user_decided",
        None,
        "no attention: reported",
        _nothing_to_decide,
        _not_asked,
    ),
    Row(
        "abandoned",
        EVERY,
        "user_decided",
        frozenset({Status.DONE}),
        "given up by a person",
        _abandon,
        _verb("abandon"),
    ),
    Row(
        "approved by a person",
        frozenset({Status.REVIEW_PENDING, Status.REVIEWING}),
        "user_decided",
        frozenset({Status.APPROVED}),
        "green head, nothing critical, high findings deferred to an issue",
        _approve,
        _approvable,
    ),
    Row(
        "approval refused",
        EVERY,
        "user_decided",
        None,
        "says what stands in the way",
        _refuse_approval,
        _verb("approve"),
    ),
    Row(
        "another review",
        frozenset({Status.REVIEW_PENDING, Status.REVIEWING}),
        "user_decided",
        frozenset({Status.REVIEW_PENDING, Status.REVIEWING}),
        "one more cycle",
        _another_review,
        _verb("another-cycle", _CAP),
    ),
    Row(
        "another CI return",
        frozenset({Status.REVIEWING}),
        "user_decided",
        frozenset({Status.WORKING, Status.REVIEW_PENDING}),
        "one more return to the worker",
        _another_ci_return,
        _verb("another-cycle", AttentionReason.CI_FAILED_CAP),
    ),
    Row(
        "no other cycle",
        EVERY,
        "user_decided",
        None,
        "it would not help: reported",
        _refuse_cycle,
        _verb("another-cycle"),
    ),
    Row(
        "no retry at the cap",
        EVERY,
        "user_decided",
        None,
        "the cap is never passed silently",
        _retry_at_cap,
        _verb("retry", _CAP),
    ),
    Row(
        "retried",
        EVERY,
        "user_decided",
        frozenset({Status.REVIEWING, Status.WORKING}) | frozenset(Status),
        "what failed is tried again",
        _retry,
        _verb("retry"),
    ),
)
