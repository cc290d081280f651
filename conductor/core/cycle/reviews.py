"""Rows about the review itself: its verdict, its failure, and its posting."""

from __future__ import annotations

from datetime import datetime

from conductor.core import messages
from conductor.core.cycle import passes
from conductor.core.cycle.gate import cap_of
from conductor.core.cycle.moves import approved_result, give_task, kept_at_approval, open_gate, settle, want_person
from conductor.core.cycle.row import EVERY, Outcome, Row
from conductor.core.messages_review import marker, review_body
from conductor.core.state import Gate, Pane
from schemas.config import CyclePolicy
from schemas.effects import Effect, PostReview, Report, WriteResult
from schemas.events import ReviewFailed, ReviewFinished, ReviewPosted
from schemas.finding import Finding
from schemas.forge import CheckState
from schemas.pane import AttentionReason, Status
from schemas.review import EarlierReview, Review, Verdict

_REVIEWING = frozenset({Status.REVIEWING})


def _other_review(pane: Pane, event: ReviewFinished | ReviewFailed, _policy: CyclePolicy) -> bool:
    review_id = event.review.review_id if isinstance(event, ReviewFinished) else event.review_id
    return pane.review is None or pane.review.review_id != review_id


def _head_changed(pane: Pane, event: ReviewFinished, _policy: CyclePolicy) -> bool:
    assert pane.review is not None
    return not (event.head_now == event.review.head == pane.review.head)


def _restart(pane: Pane, event: ReviewFinished, _policy: CyclePolicy) -> Outcome:
    return open_gate(pane, event.head_now, event.review.base, event.at), []


def gate_green(gate: Gate | None, head: str, policy: CyclePolicy) -> bool:
    """CI of this head was green when it was last read at its gate."""
    if gate is None or gate.head != head:
        return False
    return gate.state is CheckState.PASSED or (gate.state is CheckState.NONE and policy.allow_no_checks)


def _with_hygiene(pane: Pane, review: Review) -> Review:
    findings = (*review.findings, *pane.hygiene)
    return review.model_copy(update={"findings": tuple(sorted(findings, key=lambda one: one.severity.rank))})


def _approves(pane: Pane, event: ReviewFinished, policy: CyclePolicy) -> bool:
    review = event.review
    clean = not review.blocking and not any(finding.blocking for finding in pane.hygiene)
    return review.verdict is Verdict.APPROVE and clean and gate_green(pane.gate, review.head, policy)


def _gate_lost(pane: Pane, event: ReviewFinished, policy: CyclePolicy) -> bool:
    review = event.review
    clean = not review.blocking and not any(finding.blocking for finding in pane.hygiene)
    return review.verdict is Verdict.APPROVE and clean and not gate_green(pane.gate, review.head, policy)


def _ask_ci_again(pane: Pane, event: ReviewFinished, _policy: CyclePolicy) -> Outcome:
    return open_gate(pane, event.review.head, event.review.base, event.at), []


def _posting(pane: Pane, review: Review, cycle: int) -> PostReview:
    assert pane.pr_number is not None
    review = review.model_copy(update={"cycle": cycle})
    checked = pane.gate is None or pane.gate.state is not CheckState.NONE
    return PostReview(
        pane=pane.index,
        review_id=review.review_id,
        cycle=cycle,
        pr_number=pane.pr_number,
        head=review.head,
        verdict=review.verdict,
        body=review_body(review, "PASS" if checked else "PASS (this project has no checks)"),
        marker=marker(review.review_id, review.head, cycle),
    )


def _passed_gate(pane: Pane, head: str, at: datetime) -> Gate:
    """The gate of an approved head, which is watched on. At the cap none is open any more, so there it is a new one."""
    gate = pane.gate
    if gate is None or gate.head != head:
        # Without a serial number of its own: those after it stay what they are in journals that were written before.
        name = f"{pane.run[:4]}-{pane.index}-a{pane.serial}"
        gate = Gate(gate_id=name, head=head, base=pane.base or head, opened_at=at, state=CheckState.PASSED)
    return gate.model_copy(update={"returned": False, "timed_out": False})


def approved(pane: Pane, review: Review, how: str, at: datetime) -> Outcome:
    """The pane approved for exactly this head: posted, written for the worker, reported."""
    assert pane.pr_number is not None
    posting = _posting(pane, review, review.cycle)
    pane = passes.ready(pane, review)
    pane = pane.model_copy(
        update={
            "status": Status.APPROVED,
            "approved_head": review.head,
            "granted_head": review.head,
            "head": review.head,
            "gate": _passed_gate(pane, review.head, at),
            "review": None,
            "unresolved": (),
            "hygiene": (),
            "attention": kept_at_approval(pane),
            "last_review_id": review.review_id,
        }
    )
    effects: list[Effect] = [
        posting,
        approved_result(pane, review.head),
        Report(
            pane=pane.index,
            level="info",
            message=f"✅ Pane {pane.index}: #{pane.pr_number} approved{how} at {review.head[:12]}.",
            head=review.head,
        ),
    ]
    return pane, effects


def _approve(pane: Pane, event: ReviewFinished, _policy: CyclePolicy) -> Outcome:
    return approved(pane, _with_hygiene(pane, event.review), "", event.at)


def _asked_changes(pane: Pane, review: Review) -> tuple[Pane, list[Effect], tuple[Finding, ...]]:
    review = _with_hygiene(pane, review).model_copy(update={"verdict": Verdict.CHANGES})
    assert pane.pr_number is not None
    cycle = pane.review_cycle + 1
    posting = _posting(pane, review, cycle)
    pane = passes.ready(pane, review)
    earlier = EarlierReview(cycle=cycle, head=review.head, findings=review.findings)
    pane = settle(pane, AttentionReason.FORGE_UNAVAILABLE, AttentionReason.REVIEW_FAILED).model_copy(
        update={
            "status": Status.REVIEW_PENDING,
            "review_cycle": cycle,
            "head": review.head,
            "reviews": (*pane.reviews, earlier),
            "last_review_id": review.review_id,
            "unresolved": review.findings,
            "hygiene": (),
            "gate": None,
            "review": None,
        }
    )
    written = WriteResult(
        pane=pane.index,
        status="review_pending",
        pr_number=pane.pr_number or 0,
        review_cycle=cycle,
        head=review.head,
    )
    return pane, [posting, written], review.findings


def _below_cap(pane: Pane, _event: ReviewFinished, policy: CyclePolicy) -> bool:
    return pane.review_cycle + 1 < cap_of(pane, policy)


def _send_back(pane: Pane, event: ReviewFinished, _policy: CyclePolicy) -> Outcome:
    pane, effects, findings = _asked_changes(pane, event.review)
    pane, task = give_task(pane, "fix", messages.fix_text(findings))
    return pane, [*effects, *task]


def _stop(pane: Pane, event: ReviewFinished, _policy: CyclePolicy) -> Outcome:
    pane, effects, findings = _asked_changes(pane, event.review)
    message = messages.cap_message(pane, pane.review_cycle, findings)
    pane, report = want_person(pane, AttentionReason.CYCLE_CAP, message, event.at)
    return pane, [*effects, *report]


def _failed(pane: Pane, event: ReviewFailed, _policy: CyclePolicy) -> Outcome:
    pane = passes.failed(pane, event.review_id).model_copy(update={"review": None})
    return want_person(
        pane,
        AttentionReason.REVIEW_FAILED,
        f"Pane {pane.index}: the review of #{pane.pr_number} could not be made: {event.reason}\n"
        f"Nothing was approved. `taskmaestro decide {pane.index} retry --why ...` reviews again.",
        event.at,
    )


def _posted(pane: Pane, event: ReviewPosted, _policy: CyclePolicy) -> Outcome:
    return settle(passes.submitted(pane, event.review_id), AttentionReason.FORGE_UNAVAILABLE), []


ROWS: tuple[Row, ...] = (
    Row(
        "verdict of another review",
        EVERY,
        "review_finished",
        None,
        "that review was dropped",
        guard=_other_review,
    ),
    Row(
        "head moved during the review",
        _REVIEWING,
        "review_finished",
        frozenset({Status.REVIEWING}),
        "the verdict is for another head: dropped, the gate opens for the new one",
        _restart,
        _head_changed,
    ),
    Row(
        "review approves",
        _REVIEWING,
        "review_finished",
        frozenset({Status.APPROVED}),
        "green, nothing blocking, head unchanged: approved for exactly this head",
        _approve,
        _approves,
    ),
    Row(
        "review approves, CI no longer green",
        _REVIEWING,
        "review_finished",
        frozenset({Status.REVIEWING}),
        "CI was run again meanwhile: no approval and no cycle counted, the gate opens for the same head",
        _ask_ci_again,
        _gate_lost,
    ),
    Row(
        "review asks for changes",
        _REVIEWING,
        "review_finished",
        frozenset({Status.REVIEW_PENDING}),
        "posted, counted, and sent to the worker",
        _send_back,
        _below_cap,
    ),
    Row(
        "review asks for changes at the cap",
        _REVIEWING,
        "review_finished",
        frozenset({Status.REVIEW_PENDING}),
        "posted and counted; nothing is dispatched: a person decides",
        _stop,
    ),
    Row(
        "failure of another review",
        EVERY,
        "review_failed",
        None,
        "that review was dropped",
        guard=_other_review,
    ),
    Row(
        "review failed",
        _REVIEWING,
        "review_failed",
        None,
        "never taken for no findings: a person is told",
        _failed,
    ),
    Row("review posted", EVERY, "review_posted", None, "on the pull request", _posted),
)
