"""Rows about RESULT.json: what a worker claims, and what became of the claim when it was held against the world."""

from __future__ import annotations

from typing import Literal

from conductor.core.cycle.moves import answered, numbered, open_gate, settle, tell_worker, want_person
from conductor.core.cycle.row import EVERY, LIVE, Guard, Outcome, Row
from conductor.core.hygiene import hygiene_findings, what_is_missing
from conductor.core.state import Claim, Pane
from schemas.config import CyclePolicy
from schemas.effects import InspectPr, KeepBackup, QuarantineResult, Report
from schemas.events import PrInspected, ResultInvalid, ResultSeen
from schemas.pane import AttentionReason, Role, Status
from schemas.result import ResultStatus
from schemas.text import clean

_CLAIMING = frozenset({Status.WORKING, Status.REVIEW_ADDRESSED})


def _seen_before(pane: Pane, event: ResultSeen | ResultInvalid, _policy: CyclePolicy) -> bool:
    return event.stamp == pane.last_stamp


def _not_a_worker(pane: Pane, _event: object, _policy: CyclePolicy) -> bool:
    return pane.role is not Role.WORKER


def _marked(pane: Pane, event: ResultSeen | ResultInvalid) -> Pane:
    return pane.model_copy(update={"last_stamp": event.stamp})


def _stale(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    result = event.result
    other_issue = None not in (result.issue, pane.issue) and result.issue != pane.issue
    other_nonce = result.nonce is not None and pane.task is not None and result.nonce != pane.task.nonce
    return other_issue or other_nonce


def _quarantine(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    result = event.result
    if None not in (result.issue, pane.issue) and result.issue != pane.issue:
        why = f"it names issue #{result.issue}, the pane has #{pane.issue}"
    else:
        why = "its nonce belongs to another task"
    pane = settle(_marked(pane, event), AttentionReason.INVALID_RESULT)
    return pane, [QuarantineResult(pane=pane.index, stamp=event.stamp, why=why)]


def _granted_by_worker(_pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    return event.result.status in (ResultStatus.APPROVED, ResultStatus.REVIEW_PENDING)


def _refuse_grant(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    return tell_worker(
        settle(_marked(pane, event), AttentionReason.INVALID_RESULT),
        f'RESULT.json says "{event.result.status}". Only the conductor grants that; report `success` or'
        " `review_addressed` when the work is done.",
    )


def _status_is(*statuses: ResultStatus) -> Guard:
    def guard(_pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
        return event.result.status in statuses

    return guard


def _lease_rejected(_pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    extra = event.result.model_extra or {}
    failed = event.result.status in (ResultStatus.FAILURE, ResultStatus.ERROR)
    return failed and extra.get("reason") == "lease_rejected"


def _report_lease(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    what = clean(event.result.error or "the remote branch was moved by somebody else")
    return want_person(
        _marked(pane, event),
        AttentionReason.LEASE_REJECTED,
        f"Pane {pane.index}: the push was refused, nothing was overwritten: {what}\n"
        f"Look at the branch {pane.branch} on the remote, then `taskmaestro decide {pane.index} retry --why ...`.",
        event.at,
    )


def _at_cap(pane: Pane) -> bool:
    return pane.attention is not None and pane.attention.reason is AttentionReason.CYCLE_CAP


def _gave_up(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    """At the cap nothing is asked of the worker, so its word ends nothing: a person decides."""
    return event.result.status in (ResultStatus.FAILURE, ResultStatus.ERROR) and not _at_cap(pane)


def _worker_failed(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    error = clean(event.result.error or "no reason was given")
    pane = answered(_marked(pane, event))
    pane = settle(pane, AttentionReason.INVALID_RESULT, AttentionReason.UNRESPONSIVE)
    pane = pane.model_copy(update={"status": Status.DONE, "ended": "failure", "claim": None, "gate": None})
    return pane, [Report(pane=pane.index, level="info", message=f"Pane {pane.index} could not finish: {error}")]


def _success_allowed(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    if event.result.status is not ResultStatus.SUCCESS or event.result.pr is None:
        return False
    return pane.status is Status.WORKING or (pane.status is Status.DONE and pane.ended == "failure")


def _addressed_after_ci_return(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    result = event.result
    return (
        result.status is ResultStatus.REVIEW_ADDRESSED
        and pane.gate is not None
        and pane.gate.returned
        and result.review_cycle == pane.review_cycle
        and pane.pr_number is not None
    )


def _claim_success(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    number = event.result.pr or pane.pr_number
    assert number is not None
    pane = _marked(pane, event).model_copy(update={"status": Status.WORKING, "ended": None})
    return _inspect(pane, number, "success")


def _inspect(
    pane: Pane, number: int, purpose: Literal["success", "addressed"], *, loss_accepted: bool = False
) -> Outcome:
    pane, serial = numbered(pane)
    claim = Claim(
        claim_id=f"{pane.run[:4]}-{pane.index}-c{serial}",
        purpose=purpose,
        pr_number=number,
        loss_accepted=loss_accepted,
    )
    pane = pane.model_copy(update={"claim": claim})
    return pane, [
        InspectPr(
            pane=pane.index,
            claim_id=claim.claim_id,
            purpose=claim.purpose,
            pr_number=number,
            old_head=pane.head if number == pane.pr_number else None,
            review_id=pane.last_review_id,
        )
    ]


def inspect_again(pane: Pane, *, loss_accepted: bool = False) -> Outcome:
    """Hold the claim against the world once more (a person said retry)."""
    claim = pane.claim
    if claim is not None:
        accepted = loss_accepted or claim.loss_accepted
        return _inspect(pane, claim.pr_number, claim.purpose, loss_accepted=accepted)
    if pane.pr_number is None:
        return pane, []
    return _inspect(pane, pane.pr_number, "success" if pane.status is Status.WORKING else "addressed")


def _fits_cycle(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    result = event.result
    return (
        result.status is ResultStatus.REVIEW_ADDRESSED
        and result.review_cycle == pane.review_cycle
        and pane.pr_number is not None
        and not _at_cap(pane)
    )


def _claim_addressed(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    assert pane.pr_number is not None
    pane, effects = _inspect(_marked(pane, event), pane.pr_number, "addressed")
    return pane.model_copy(update={"status": Status.REVIEW_ADDRESSED}), effects


def _names_nothing(_pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    return event.result.status is ResultStatus.SUCCESS and event.result.pr is None


def _nameless(pane: Pane, event: ResultSeen, policy: CyclePolicy) -> Outcome:
    problem = 'RESULT.json says "success" and names no pull request: it needs `pr_number` or `pr_url`.'
    return _invalid(pane, ResultInvalid(pane=pane.index, at=event.at, problem=problem, stamp=event.stamp), policy)


def _success_awaiting_answer(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> bool:
    return event.result.status is ResultStatus.SUCCESS and not _at_cap(pane)


def _success_instead(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    return tell_worker(
        _marked(pane, event),
        'RESULT.json says "success", but a review waits for its answer: write'
        f' {{"status": "review_addressed", "review_cycle": {pane.review_cycle}}} when it is answered'
        " (`taskmaestro report addressed`).",
    )


def _ignore_marked(pane: Pane, event: ResultSeen, _policy: CyclePolicy) -> Outcome:
    return settle(_marked(pane, event), AttentionReason.INVALID_RESULT), []


def _invalid(pane: Pane, event: ResultInvalid, _policy: CyclePolicy) -> Outcome:
    pane = _marked(pane, event)
    pane, told = tell_worker(pane, event.problem)
    pane, effects = want_person(
        pane, AttentionReason.INVALID_RESULT, f"Pane {pane.index}: invalid result. {event.problem}", event.at
    )
    return pane, [*effects, *told]


def _other_claim(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> bool:
    return pane.claim is None or pane.claim.claim_id != event.claim_id


def _claim_refused(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> bool:
    assert pane.claim is not None
    problem = what_is_missing(event.facts, pane.claim.purpose)
    return problem is not None and problem.kind not in ("lagging", "nothing_new")


def _lagging(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> bool:
    assert pane.claim is not None
    problem = what_is_missing(event.facts, pane.claim.purpose)
    return problem is not None and problem.kind == "lagging"


def _back(pane: Pane) -> Pane:
    status = Status.REVIEW_PENDING if pane.status is Status.REVIEW_ADDRESSED else pane.status
    return pane.model_copy(update={"status": status, "claim": None})


def _refuse_claim(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> Outcome:
    assert pane.claim is not None
    problem = what_is_missing(event.facts, pane.claim.purpose)
    assert problem is not None
    pane, told = tell_worker(settle(_back(pane), AttentionReason.FORGE_UNAVAILABLE), problem.message)
    pane, effects = want_person(pane, AttentionReason.INVALID_RESULT, f"Pane {pane.index}: {problem.message}", event.at)
    return pane, [*effects, *told]


def _wait_for_forge(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> Outcome:
    return want_person(
        pane,
        AttentionReason.FORGE_UNAVAILABLE,
        f"Pane {pane.index}: the forge still shows an old head of #{event.facts.number}; the remote has"
        f" {(event.facts.remote_head or '')[:12]}. `taskmaestro decide {pane.index} retry --why ...` asks again.",
        event.at,
    )


def _nothing_new(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> bool:
    gate = pane.gate
    if gate is not None and gate.returned and event.facts.head == gate.head:
        return True
    if pane.claim is None or pane.claim.purpose != "addressed":
        return False
    return event.facts.head == pane.head and event.facts.replies == 0


def _tell_nothing_new(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> Outcome:
    head = (event.facts.head or "")[:12]
    if pane.gate is not None and pane.gate.returned:
        missing = f"CI of {head} failed, and the pull request still has that head: push a fix first."
    else:
        missing = (
            f"Nothing changed since the review: the head is still {head}, and nobody answered on the pull request."
        )
    return tell_worker(settle(_back(pane), AttentionReason.FORGE_UNAVAILABLE), missing)


def _foreign_lost(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> bool:
    accepted = pane.claim is not None and pane.claim.loss_accepted
    return not accepted and event.facts.history is not None and bool(event.facts.history.foreign_lost)


def _stop_for_foreign(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> Outcome:
    history = event.facts.history
    assert history is not None
    lost = "\n".join(f"  {line}" for line in history.foreign_lost)
    name = f"pr-{event.facts.number}-{history.old[:12]}"
    pane = answered(pane)
    pane, effects = want_person(
        pane,
        AttentionReason.FOREIGN_COMMITS_LOST,
        f"Pane {pane.index}: commits of somebody else are gone from #{event.facts.number}:\n{lost}\n"
        f"The old head is kept as refs/taskmaestro/backup/{name}. Bring them back, or go on without them:"
        f" `taskmaestro decide {pane.index} retry --why ...`.",
        event.at,
    )
    return pane, [KeepBackup(pane=pane.index, head=history.old, name=name), *effects]


def _split_asked(pane: Pane) -> bool:
    """The last review asked for more than one commit (review protocol, "Commit Hygiene", exception)."""
    words = [finding.message.casefold() for finding in pane.unresolved]
    return any("commit" in text and ("split" in text or "own commit" in text or "separate" in text) for text in words)


def _accept(pane: Pane, event: PrInspected, _policy: CyclePolicy) -> Outcome:
    facts = event.facts
    assert facts.head is not None
    pane = settle(answered(pane), *_ANSWERED)
    found = hygiene_findings(facts.history, split_asked=_split_asked(pane), committed_files=())
    pane = pane.model_copy(update={"pr_number": facts.number, "hygiene": found})
    return open_gate(pane, facts.head, facts.base or pane.base or facts.head, event.at), []


_ANSWERED = (
    AttentionReason.INVALID_RESULT,
    AttentionReason.UNRESPONSIVE,
    AttentionReason.FORGE_UNAVAILABLE,
    AttentionReason.FOREIGN_COMMITS_LOST,
)
"""What a claim that holds answers: the forge was read, and no commit is missing or a person let it go."""

ROWS: tuple[Row, ...] = (
    Row("result of another role", EVERY, "result_seen", None, "only workers report here", guard=_not_a_worker),
    Row(
        "result seen before",
        EVERY,
        "result_seen",
        None,
        "this writing of the file was taken already",
        guard=_seen_before,
    ),
    Row(
        "stale result",
        EVERY,
        "result_seen",
        None,
        "issue or nonce of another task: moved to quarantine",
        _quarantine,
        _stale,
    ),
    Row(
        "grant by a worker",
        EVERY,
        "result_seen",
        None,
        "only the conductor grants approved and review_pending",
        _refuse_grant,
        _granted_by_worker,
    ),
    Row(
        "lease rejected",
        LIVE,
        "result_seen",
        None,
        "the push was refused: a person looks",
        _report_lease,
        _lease_rejected,
    ),
    Row(
        "worker failed",
        frozenset({Status.WORKING, Status.REVIEW_PENDING}),
        "result_seen",
        frozenset({Status.DONE}),
        "failure or error: reported, no review",
        _worker_failed,
        _gave_up,
    ),
    Row(
        "success claimed",
        frozenset({Status.WORKING, Status.DONE}),
        "result_seen",
        frozenset({Status.WORKING}),
        "success with a pull request: held against forge, remote and worktree",
        _claim_success,
        _success_allowed,
    ),
    Row(
        "addressed after a CI return",
        frozenset({Status.WORKING}),
        "result_seen",
        frozenset({Status.WORKING}),
        "the answer to a CI return, under its other name",
        _claim_success,
        _addressed_after_ci_return,
    ),
    Row(
        "addressed",
        frozenset({Status.REVIEW_PENDING, Status.REVIEW_ADDRESSED}),
        "result_seen",
        frozenset({Status.REVIEW_ADDRESSED}),
        "the fix answers the current cycle: held against the pull request",
        _claim_addressed,
        _fits_cycle,
    ),
    Row(
        "success instead of addressed",
        frozenset({Status.REVIEW_PENDING}),
        "result_seen",
        None,
        "a review waits for its answer: the worker is told how to give it",
        _success_instead,
        _success_awaiting_answer,
    ),
    Row(
        "success without a pull request",
        frozenset({Status.WORKING}),
        "result_seen",
        None,
        "neither pr_number nor pr_url: shown, and told to the worker once",
        _nameless,
        _names_nothing,
    ),
    Row("result that does not fit", EVERY, "result_seen", None, "journalled and ignored", _ignore_marked),
    Row(
        "invalid result of another role",
        EVERY,
        "result_invalid",
        None,
        "only workers report here",
        guard=_not_a_worker,
    ),
    Row("invalid result seen before", EVERY, "result_invalid", None, "told already", guard=_seen_before),
    Row("invalid result", LIVE, "result_invalid", None, "shown, and told to the worker once", _invalid),
    Row(
        "inspection of an old claim",
        EVERY,
        "pr_inspected",
        None,
        "another claim took its place",
        guard=_other_claim,
    ),
    Row(
        "forge lags",
        _CLAIMING,
        "pr_inspected",
        None,
        "the remote is ahead of the forge for too long",
        _wait_for_forge,
        _lagging,
    ),
    Row(
        "claim refused",
        _CLAIMING,
        "pr_inspected",
        frozenset({Status.WORKING, Status.REVIEW_PENDING}),
        "the claim does not hold: shown, and the worker is told",
        _refuse_claim,
        _claim_refused,
    ),
    Row(
        "nothing new",
        _CLAIMING,
        "pr_inspected",
        frozenset({Status.WORKING, Status.REVIEW_PENDING}),
        "neither a new head nor an answer: not reviewed again",
        _tell_nothing_new,
        _nothing_new,
    ),
    Row(
        "foreign commits lost",
        _CLAIMING,
        "pr_inspected",
        None,
        "somebody else's commit is gone: kept under a backup ref, a person looks",
        _stop_for_foreign,
        _foreign_lost,
    ),
    Row(
        "claim holds",
        _CLAIMING,
        "pr_inspected",
        frozenset({Status.REVIEWING}),
        "pull request, remote and worktree agree: the CI gate opens",
        _accept,
    ),
)
