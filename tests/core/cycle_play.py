"""One pane played through the rules: every event goes through journal lines and the fold, as in a real run.

``Play`` answers the effects of each event. Ids of gates, claims and reviews are read off the state, so that a test
says only what happens.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from conductor.core.memory import Memory
from conductor.core.state import Pane
from schemas.config import CyclePolicy
from schemas.effects import Effect
from schemas.events import (
    CiBudgetSpent,
    CiRead,
    Event,
    HeadMoved,
    History,
    PaneAdded,
    PolicySet,
    PrFacts,
    PrInspected,
    ResultInvalid,
    ResultSeen,
    ReviewFailed,
    ReviewFinished,
    TaskGiven,
    UserDecided,
)
from schemas.finding import Finding, Severity
from schemas.forge import Check, CheckState
from schemas.journal import EventLine, JournalLine
from schemas.pane import Role
from schemas.result import Result
from schemas.review import Review, Verdict

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADS = tuple(sign * 40 for sign in "abcdef")
A, B, C, D = HEADS[:4]
BASE = "0" * 40
PR = 42


def finding(severity: str = "high", line: int = 1, message: str = "unhandled error") -> Finding:
    return Finding(
        path="src/app.py", line=line, severity=Severity(severity), message=message, impact="it breaks", rule="test:rule"
    )


def history(old: str = A, new: str = B, shape: Any = "amended", lost: tuple[str, ...] = ()) -> History:
    return History(shape=shape, old=old, new=new, commits_before=1, commits_after=1, foreign_lost=lost)


def facts(head: str = A, **changes: Any) -> PrFacts:
    good: dict[str, Any] = {
        "number": PR,
        "found": True,
        "state": "open",
        "head_branch": "wt-1",
        "head": head,
        "base": BASE,
        "worktree_branch": "wt-1",
        "worktree_head": head,
        "remote_head": head,
        "commits_ahead": 1,
    }
    return PrFacts(**{**good, **changes})


def result(status: str, **fields: Any) -> Result:
    return Result.model_validate({"status": status, **fields})


class Play:
    """Pane 1 of a fleet, and what became of each event."""

    def __init__(self, policy: CyclePolicy | None = None, *, role: Role = Role.WORKER) -> None:
        self.memory = Memory()
        self.lines: list[JournalLine] = []
        self.rules: list[str] = []
        self.seconds = 0
        self.writings = 0
        if policy is not None:
            self.say(PolicySet(pane=0, at=self.now, policy=policy))
        self.say(
            PaneAdded(
                pane=1,
                at=self.now,
                role=role,
                agent="scripted",
                run="beef01",
                worktree="wt-1",
                branch="wt-1",
                pane_id="%1",
            )
        )

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    @property
    def pane(self) -> Pane:
        return self.memory.fleet.panes[1]

    @property
    def reason(self) -> str | None:
        return str(self.pane.attention.reason) if self.pane.attention else None

    @property
    def rule(self) -> str:
        return self.rules[-1]

    def say(self, event: Event) -> list[Effect]:
        """Fold the event in and answer its effects."""
        self.seconds += 1
        line = EventLine(seq=self.memory.last_seq + 1, at=self.now, host="here", event=event)
        self.lines.append(line)
        step = self.memory.take(line)
        self.rules.append(step.rule)
        return [self.memory.outstanding[key].effect for key in step.keys]

    # --- what happens to a pane ---

    def task(self, issue: int | None = 7, title: str = "Do it", body: str = "") -> list[Effect]:
        return self.say(TaskGiven(pane=1, at=self.now, issue=issue, title=title, body=body))

    def writes(self, status: str, *, stamp: str | None = None, **fields: Any) -> list[Effect]:
        """The worker writes RESULT.json."""
        self.writings += 1
        name = stamp or f"stamp-{self.writings}"
        return self.say(ResultSeen(pane=1, at=self.now, result=result(status, **fields), digest=name, stamp=name))

    def writes_badly(self, problem: str = "line 1 column 1: expected JSON", stamp: str | None = None) -> list[Effect]:
        self.writings += 1
        return self.say(ResultInvalid(pane=1, at=self.now, problem=problem, stamp=stamp or f"stamp-{self.writings}"))

    def inspected(self, head: str = A, *, claim_id: str | None = None, **changes: Any) -> list[Effect]:
        held = claim_id or (self.pane.claim.claim_id if self.pane.claim else "none")
        return self.say(PrInspected(pane=1, at=self.now, claim_id=held, facts=facts(head, **changes)))

    def ci(self, state: str, *, head: str | None = None, gate_id: str | None = None) -> list[Effect]:
        gate = self.pane.gate
        checks = (Check(name="unit", state=CheckState.FAILED, log_url="http://ci/1"),) if state == "failed" else ()
        return self.say(
            CiRead(
                pane=1,
                at=self.now,
                gate_id=gate_id or (gate.gate_id if gate else "none"),
                head=head or (gate.head if gate else A),
                state=CheckState(state),
                checks=checks,
            )
        )

    def ci_budget_spent(self, state: str = "pending", gate_id: str | None = None) -> list[Effect]:
        gate = self.pane.gate
        held = gate_id or (gate.gate_id if gate else "none")
        return self.say(CiBudgetSpent(pane=1, at=self.now, gate_id=held, state=CheckState(state)))

    def reviewed(self, *findings: Finding, verdict: str | None = None, head_now: str | None = None) -> list[Effect]:
        running = self.pane.review
        asked = verdict or ("changes_requested" if findings else "approve")
        head = running.head if running else A
        review = Review(
            review_id=running.review_id if running else "none",
            cycle=running.cycle if running else 1,
            head=head,
            base=BASE,
            verdict=Verdict(asked),
            findings=findings,
        )
        return self.say(ReviewFinished(pane=1, at=self.now, review=review, head_now=head_now or head))

    def review_fails(
        self, reason: str = "the reviewer's answer did not parse", review_id: str | None = None
    ) -> list[Effect]:
        running = self.pane.review
        held = review_id or (running.review_id if running else "none")
        return self.say(ReviewFailed(pane=1, at=self.now, review_id=held, reason=reason))

    def head_moves(self, head: str = B) -> list[Effect]:
        return self.say(HeadMoved(pane=1, at=self.now, head=head, base=BASE))

    def decides(
        self,
        verb: Literal["approve", "another-cycle", "retry", "abandon"],
        *,
        why: str = "seen",
        follow_up: int | None = None,
        request: str | None = None,
    ) -> list[Effect]:
        return self.say(
            UserDecided(
                pane=1,
                at=self.now,
                verb=verb,
                why=why,
                who="somebody",
                request=request or f"request-{self.memory.last_seq}",
                follow_up_issue=follow_up,
            )
        )

    # --- the way to where a test begins ---

    def to_gate(self, head: str = A) -> Play:
        """A task, a pull request that holds, and its CI gate."""
        self.task()
        self.writes("success", pr_number=PR)
        self.inspected(head)
        return self

    def to_review(self, head: str = A) -> Play:
        self.to_gate(head)
        self.ci("passed")
        return self

    def to_pending(self, head: str = A, *findings: Finding) -> Play:
        """Changes were asked for."""
        self.to_review(head)
        self.reviewed(*(findings or (finding(),)))
        return self

    def answers(self, head: str) -> list[Effect]:
        """The worker pushes a fix and says so; the claim holds."""
        before = self.pane.head
        self.writes("review_addressed", review_cycle=self.pane.review_cycle)
        return self.inspected(head, history=history(before or A, head))

    def to_cap(self, *findings: Finding) -> Play:
        """As many reviews as the cap has asked for changes."""
        self.to_pending(A, *findings)
        number = 1
        while self.reason != "cycle_cap":
            self.answers(HEADS[number % len(HEADS)])
            self.ci("passed")
            self.reviewed(*(findings or (finding(),)))
            number += 1
        return self

    def to_approved(self, head: str = A) -> Play:
        self.to_review(head)
        self.reviewed()
        return self

    def to_withdrawn(self, head: str = A) -> Play:
        """Approved, and then CI of the very head failed."""
        self.to_approved(head)
        self.ci("failed")
        return self

    def to_done(self) -> Play:
        self.task()
        self.writes("failure", error="no idea")
        return self

    def to_addressed(self, head: str = B) -> Play:
        self.to_pending()
        self.writes("review_addressed", review_cycle=1)
        return self


def kinds(effects: list[Effect]) -> list[str]:
    return [effect.kind for effect in effects]
