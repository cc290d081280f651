"""Journals of whole runs: real events, folded by the real rules, written by the real journal.

``Run`` plays a conductor without an outside: each event is journalled, each effect gets its intent and its result.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from conductor.core.memory import Memory
from conductor.core.state import Pane
from conductor.journal import Journal
from conductor.layout import Layout
from conductor.loop.snapshots import write_all
from schemas.config import CyclePolicy
from schemas.events import (
    CiRead,
    Event,
    PaneAdded,
    PaneBound,
    PolicySet,
    PrFacts,
    PrInspected,
    ResultSeen,
    ReviewFinished,
    TaskDelivered,
    TaskGiven,
)
from schemas.finding import Finding, Severity
from schemas.forge import Check, CheckState
from schemas.journal import EventLine, IntentLine, NoteLine, ResultLine
from schemas.pane import Role
from schemas.result import Result, ResultStatus
from schemas.review import Review, Verdict

BEGIN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
BASE = "b" * 40


def sha(character: str) -> str:
    """A commit's name made of one hexadecimal digit."""
    return character * 40


def finding(severity: Severity = Severity.HIGH, message: str = "An empty list raises IndexError") -> Finding:
    """A finding of a review."""
    return Finding(
        path="src/dates.py", line=12, severity=severity, message=message, impact="Callers crash.", rule="tests:edge"
    )


class Run:
    """A journal that grows by events; ``settle`` also writes the state files."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.journal = Journal(self.layout.journal)
        lines, _torn = self.journal.open()
        self.memory = Memory()
        for line in lines:
            self.memory.take(line)
        self.now = BEGIN + timedelta(minutes=self.memory.last_seq)
        self._stamps = 0

    def close(self) -> None:
        self.journal.close()

    def pane(self, index: int) -> Pane:
        """The pane as it is now."""
        return self.memory.fleet.panes[index]

    def tick(self, seconds: float = 20) -> datetime:
        """The next moment."""
        self.now += timedelta(seconds=seconds)
        return self.now

    def event(self, event: Event, *, perform: bool = True) -> str:
        """Journal one event; ``perform``: its effects are carried out and said to be done. Answers the rule."""
        line = EventLine(**self.journal.stamp(event.at), event=event)
        step = self.memory.take(line)
        self.journal.append([line])
        if perform:
            for key in step.keys:
                self.perform(key)
        return step.rule

    def perform(self, key: str, outcome: str = "done", detail: str = "") -> None:
        """Intent and result of one effect."""
        effect = self.memory.outstanding[key].effect
        intent = IntentLine(**self.journal.stamp(self.now), key=key, effect=effect.kind, pane=effect.pane)
        event: Event | None = None
        if effect.kind == "send_task" and outcome == "done":
            event = TaskDelivered(pane=effect.pane, at=self.now, task_id=effect.task_id, evidence="receipt")
        result = ResultLine.model_validate(
            {
                **self.journal.stamp(self.now),
                "key": key,
                "effect": effect.kind,
                "pane": effect.pane,
                "outcome": outcome,
                "detail": detail,
                "event": event,
            }
        )
        for line in (intent, result):
            self.memory.take(line)
        self.journal.append([intent, result])

    def note(self, text: str) -> None:
        """A line for people."""
        line = NoteLine(**self.journal.stamp(self.tick()), text=text)
        self.memory.take(line)
        self.journal.append([line])

    def settle(self) -> None:
        """Write the state files, as the conductor does."""
        write_all(self.layout, self.memory.fleet)

    # --- what happens to a pane ---

    def limits(self, cap: int = 3) -> None:
        self.event(PolicySet(pane=0, at=self.tick(), policy=CyclePolicy(max_cycles=cap)))

    def add(self, index: int, *, role: Role = Role.WORKER, agent: str = "scripted") -> None:
        worktree = str(self.layout.worktree(index))
        self.event(
            PaneAdded(
                pane=index,
                at=self.tick(),
                role=role,
                agent=agent,
                run="abcdef012345",
                worktree=worktree,
                branch=f"taskmaestro/{index}",
            )
        )
        self.event(PaneBound(pane=index, at=self.tick(1), pane_id=f"%{index}", fresh=True))

    def give(self, index: int, title: str = "Parse dates", issue: int | None = 12) -> None:
        self.event(TaskGiven(pane=index, at=self.tick(), issue=issue, title=title, body="As ISO 8601."))

    def result(self, index: int, status: ResultStatus, **fields: object) -> str:
        """The worker writes RESULT.json. Answers the rule."""
        self._stamps += 1
        result = Result.model_validate({"status": status, **fields})
        return self.event(
            ResultSeen(pane=index, at=self.tick(), result=result, digest=f"d{self._stamps}", stamp=f"s{self._stamps}")
        )

    def claim_holds(self, index: int, number: int, head: str, *, replies: int = 0) -> str:
        """The claim is held against the world, which agrees. Answers the rule."""
        claim = self.pane(index).claim
        assert claim is not None
        facts = PrFacts(
            number=number,
            found=True,
            state="open",
            head_branch=f"taskmaestro/{index}",
            head=head,
            base=BASE,
            worktree_branch=f"taskmaestro/{index}",
            worktree_head=head,
            remote_head=head,
            commits_ahead=1,
            replies=replies,
        )
        return self.event(PrInspected(pane=index, at=self.tick(3), claim_id=claim.claim_id, facts=facts))

    def ci(self, index: int, state: Literal[CheckState.PASSED, CheckState.FAILED] = CheckState.PASSED) -> str:
        """CI of the gate's head is read. Answers the rule."""
        gate = self.pane(index).gate
        assert gate is not None
        check = Check(name="tests", state=state, log_url="file:///tmp/log")
        return self.event(
            CiRead(pane=index, at=self.tick(40), gate_id=gate.gate_id, head=gate.head, state=state, checks=(check,))
        )

    def review(self, index: int, *findings: Finding, perform: bool = True) -> str:
        """The running review comes to its verdict. Answers the rule."""
        running = self.pane(index).review
        assert running is not None
        blocking = any(one.blocking for one in findings)
        review = Review(
            review_id=running.review_id,
            cycle=running.cycle,
            head=running.head,
            base=running.base,
            verdict=Verdict.CHANGES if blocking else Verdict.APPROVE,
            findings=findings,
        )
        finished = ReviewFinished(pane=index, at=self.tick(55), review=review, head_now=running.head)
        return self.event(finished, perform=perform)

    def event_left_open(self, index: int, *findings: Finding) -> None:
        """A review that asks for changes: its first effect fails, the second is begun, the third is still to do."""
        before = set(self.memory.outstanding)
        self.review(index, *findings, perform=False)
        first, second, *_ = [key for key in self.memory.outstanding if key not in before]
        self.perform(first, "failed", "no such pull request")
        effect = self.memory.outstanding[second].effect
        begun = IntentLine(**self.journal.stamp(self.now), key=second, effect=effect.kind, pane=index)
        self.memory.take(begun)
        self.journal.append([begun])

    # --- whole stretches ---

    def open_pull_request(self, index: int, number: int, head: str) -> None:
        """From a new pane to a pull request in review."""
        self.add(index)
        self.give(index)
        assert self.result(index, ResultStatus.SUCCESS, pr_number=number) == "success claimed"
        assert self.claim_holds(index, number, head) == "claim holds"
        assert self.ci(index) == "CI passed"

    def answer_review(self, index: int, head: str) -> None:
        """The worker answers the current review with a new head, and CI passes."""
        pane = self.pane(index)
        assert pane.pr_number is not None
        assert self.result(index, ResultStatus.REVIEW_ADDRESSED, review_cycle=pane.review_cycle) == "addressed"
        assert self.claim_holds(index, pane.pr_number, head) == "claim holds"
        assert self.ci(index) == "CI passed"

    def to_the_cap(self, index: int, number: int) -> None:
        """Three reviews that ask for changes."""
        self.open_pull_request(index, number, sha("1"))
        assert self.review(index, finding()) == "review asks for changes"
        self.answer_review(index, sha("2"))
        assert self.review(index, finding()) == "review asks for changes"
        self.answer_review(index, sha("3"))
        assert self.review(index, finding()) == "review asks for changes at the cap"


def tell_it_all(root: Path) -> Run:
    """Four panes: approved, in its second review round, at the cap, and waiting for CI after a failure."""
    run = Run(root)
    run.note("conductor started (pid 4711)")
    run.limits()
    run.open_pull_request(1, 21, sha("a"))
    assert run.review(1) == "review approves"
    run.open_pull_request(2, 22, sha("c"))
    assert run.review(2, finding(), finding(Severity.LOW, "A comment repeats the code")) == "review asks for changes"
    run.to_the_cap(3, 23)
    run.add(4)
    run.give(4, "Say hello in French", issue=None)
    assert run.result(4, ResultStatus.SUCCESS, pr_number=24) == "success claimed"
    assert run.claim_holds(4, 24, sha("d")) == "claim holds"
    assert run.ci(4, CheckState.FAILED) == "CI failed"
    run.settle()
    return run
