"""What would move a pane: events that can come next, and decisions that a person can make, tried on the rules.

Nothing here knows a rule: each event is given to ``decide``, which is pure, and what it would do is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from conductor.core.cycle import decide
from conductor.core.state import Pane
from conductor.dashboard.words import RULES
from schemas import events as ev
from schemas.config import CyclePolicy
from schemas.effects import Report
from schemas.finding import Finding, Severity
from schemas.forge import CheckState
from schemas.pane import Role
from schemas.result import Result, ResultStatus
from schemas.review import Review, Verdict

VerbName = Literal["approve", "another-cycle", "retry", "abandon"]
REFUSALS = frozenset(
    {"nothing to decide", "approval refused", "no other cycle", "no retry at the cap", "task not given"}
)
"""Rules by which a person's word is not done; the reason is in the report."""

_HEADS = ("e" * 40, "f" * 40)
_ANY = "-"


class Move(NamedTuple):
    """One event that can come next, the rule that would take it, and where the pane would be then."""

    when: str
    rule: str
    means: str
    status: str
    review_cycle: int
    attention: str | None


class Choice(NamedTuple):
    """A decision as it would be taken now. ``needs``: an option that it needs. ``why_not``: empty where it is taken."""

    verb: str
    rule: str
    means: str
    needs: str
    why_not: str


def moves(pane: Pane, policy: CyclePolicy) -> list[Move]:
    """What can come next and would change the pane. Decisions are told apart, by ``choices``."""
    if pane.role is not Role.WORKER:
        return []
    found = []
    for when, event in samples(pane):
        decision = decide(pane, event, policy)
        after = decision.pane
        if after is pane or decision.rule in REFUSALS or decision.rule == "result that does not fit":
            continue
        reason = after.attention.reason if after.attention is not None else None
        found.append(Move(when, decision.rule, RULES[decision.rule], after.status, after.review_cycle, reason))
    return found


def samples(pane: Pane) -> Iterator[tuple[str, ev.Event]]:
    """One sample of each event that the pane has the subject for."""
    index, at = pane.index, pane.updated_at
    yield from _results(pane)
    if pane.claim is not None:
        yield from _inspections(pane)
    if pane.gate is not None:
        gate = pane.gate
        for when, state in (("CI passes", CheckState.PASSED), ("CI fails", CheckState.FAILED)):
            yield when, ev.CiRead(pane=index, at=at, gate_id=gate.gate_id, head=gate.head, state=state)
        spent = ev.CiBudgetSpent(pane=index, at=at, gate_id=gate.gate_id, state=CheckState.PENDING)
        yield "CI says nothing until its budget is used up", spent
    yield from _verdicts(pane)
    if pane.pr_number is not None:
        yield "the pull request gets another head", ev.HeadMoved(pane=index, at=at, head=_new_head(pane))
        yield "the pull request is merged", ev.PrMerged(pane=index, at=at)
        yield "the pull request is closed", ev.PrClosed(pane=index, at=at)
    if pane.task is not None and pane.task.delivery in ("sending", "queued", "stranded"):
        delivered = ev.TaskDelivered(pane=index, at=at, task_id=pane.task.task_id, evidence=_ANY)
        yield "the task reaches the agent", delivered
    yield "a task is given to it", ev.TaskGiven(pane=index, at=at, title=_ANY)
    yield "the agent's program ends", ev.PaneDied(pane=index, at=at, detail=_ANY)


def _new_head(pane: Pane) -> str:
    return next(head for head in _HEADS if head != pane.head)


def _results(pane: Pane) -> Iterator[tuple[str, ev.Event]]:
    samples = [
        ("the worker reports its pull request", Result(status=ResultStatus.SUCCESS, pr_number=pane.pr_number or 1)),
        ("the worker reports that it failed", Result(status=ResultStatus.FAILURE, error=_ANY)),
    ]
    if pane.pr_number is not None:
        addressed = Result(status=ResultStatus.REVIEW_ADDRESSED, review_cycle=pane.review_cycle)
        samples.append(("the worker reports that it answered", addressed))
    for when, result in samples:
        yield (
            when,
            ev.ResultSeen(pane=pane.index, at=pane.updated_at, result=result, digest=_ANY, stamp=f"{pane.last_stamp}+"),
        )


def _inspections(pane: Pane) -> Iterator[tuple[str, ev.Event]]:
    claim = pane.claim
    if claim is None:
        return
    head = _new_head(pane)
    holds = ev.PrFacts(
        number=claim.pr_number,
        found=True,
        state="open",
        head_branch=pane.branch,
        head=head,
        base=pane.base or head,
        worktree_branch=pane.branch,
        worktree_head=head,
        remote_head=head,
        commits_ahead=1,
        replies=1,
    )
    missing = ev.PrFacts(number=claim.pr_number, found=False)
    found = [("the claim holds", holds), ("the claim does not hold", missing)]
    if pane.head is not None:
        same = holds.model_copy(
            update={"head": pane.head, "remote_head": pane.head, "worktree_head": pane.head, "replies": 0}
        )
        found.append(("nothing is new on the pull request", same))
    for when, facts in found:
        inspected = ev.PrInspected(pane=pane.index, at=pane.updated_at, claim_id=claim.claim_id, facts=facts)
        yield when, inspected


def _verdicts(pane: Pane) -> Iterator[tuple[str, ev.Event]]:
    running = pane.review
    if running is None:
        return
    wrong = Finding(path=_ANY, line=1, severity=Severity.HIGH, message=_ANY, impact=_ANY, rule=_ANY)
    for when, verdict, findings in (
        ("the review approves", Verdict.APPROVE, ()),
        ("the review asks for changes", Verdict.CHANGES, (wrong,)),
    ):
        review = Review(
            review_id=running.review_id,
            cycle=running.cycle,
            head=running.head,
            base=running.base,
            verdict=verdict,
            findings=findings,
        )
        yield when, ev.ReviewFinished(pane=pane.index, at=pane.updated_at, review=review, head_now=running.head)
    failed = ev.ReviewFailed(pane=pane.index, at=pane.updated_at, review_id=running.review_id, reason=_ANY)
    yield "the review cannot be made", failed


def choices(pane: Pane, policy: CyclePolicy) -> list[Choice]:
    """Each decision with what the rules would make of it now; none where nothing waits for a person."""
    if pane.attention is None:
        return []
    return [_choice(pane, policy, verb) for verb in get_args(VerbName)]


def _choice(pane: Pane, policy: CyclePolicy, verb: VerbName) -> Choice:
    plain = _tried(pane, policy, verb, None)
    if plain.why_not and verb == "approve":
        with_issue = _tried(pane, policy, verb, 1)
        return with_issue._replace(needs="--follow-up ISSUE") if not with_issue.why_not else plain
    return plain


def _tried(pane: Pane, policy: CyclePolicy, verb: VerbName, issue: int | None) -> Choice:
    event = ev.UserDecided(
        pane=pane.index, at=pane.updated_at, verb=verb, why=_ANY, who=_ANY, request=_ANY, follow_up_issue=issue
    )
    decision = decide(pane, event, policy)
    said = next((effect.message for effect in decision.effects if isinstance(effect, Report)), decision.rule)
    why_not = said.rpartition("not done: ")[2] if decision.rule in REFUSALS else ""
    return Choice(verb, decision.rule, RULES[decision.rule], "", why_not)
