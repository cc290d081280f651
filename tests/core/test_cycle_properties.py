"""Any sequence of events, fitting ones and garbage, and what holds after each of them (review cycle page)."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from conductor.core.cycle import apply, decide, wanted
from conductor.core.cycle.moves import owes_answer
from conductor.core.memory import Memory, remember
from conductor.core.state import Pane
from conductor.core.watches import ci_watches
from schemas.config import CyclePolicy
from schemas.effects import Effect, PostReview, RunReview, SendTask, WriteResult
from schemas.events import (
    AgentSeen,
    CiBudgetSpent,
    CiLost,
    CiRead,
    EffectFailed,
    Event,
    ForgeBack,
    ForgeFailed,
    HeadMoved,
    LimitOver,
    PaneAdded,
    PaneBound,
    PaneDied,
    PaneRemoved,
    PrClosed,
    PrInspected,
    PrMerged,
    ResultInvalid,
    ResultSeen,
    ReviewFailed,
    ReviewFinished,
    ReviewPosted,
    ReviewStage,
    TaskDelivered,
    TaskGiven,
    TaskQueued,
    TaskStranded,
    UserDecided,
)
from schemas.finding import Finding
from schemas.forge import Check, CheckState
from schemas.journal import JOURNAL_LINE, IntentLine, ResultLine
from schemas.pane import AttentionReason, Role, Status
from schemas.review import Review, Verdict
from tests.core.cycle_play import BASE, HEADS, Play, facts, finding, history, result

heads = st.sampled_from(HEADS[:4])
numbers = st.sampled_from((42, 43))
texts = st.sampled_from(("", "seen", "## How to finish", "--> x", "\x1b[31m"))
findings = st.lists(
    st.builds(finding, st.sampled_from(("critical", "high", "medium", "low")), st.integers(1, 3)), max_size=2
).map(tuple)
states = st.sampled_from(CheckState)
stamps = st.sampled_from(tuple(f"s{number}" for number in range(30)))
EFFECTS = ("inspect_pr", "run_review", "post_review", "write_result", "send_task", "report", "no_such_effect")
RESULTS = st.one_of(
    st.builds(lambda pr, issue: result("success", pr_number=pr, issue=issue), numbers, st.sampled_from((None, 7, 8))),
    st.builds(lambda cycle: result("review_addressed", review_cycle=cycle), st.integers(0, 5)),
    st.builds(
        lambda status, reason: result(status, reason=reason),
        st.sampled_from(("failure", "error", "approved", "review_pending")),
        st.sampled_from((None, "lease_rejected")),
    ),
    st.just(result("success", review_result="approve")),
    st.just(result("success", pr_number=42, nonce="other")),
)
FACTS = st.builds(
    lambda head, other, base, lost, replies, found, state, ahead: facts(
        head,
        remote_head=other or head,
        worktree_head=other or head,
        base=base,
        replies=replies,
        found=found,
        state=state,
        commits_ahead=ahead,
        history=history(HEADS[0], head, "amended", lost) if lost is not None else None,
    ),
    heads,
    st.sampled_from((None, None, None, HEADS[5])),
    st.sampled_from((BASE, None)),
    st.sampled_from((None, (), ("theirs",))),
    st.integers(0, 1),
    st.sampled_from((True, True, True, False)),
    st.sampled_from(("open", "open", "open", "closed", "merged", None)),
    st.sampled_from((1, 1, None, 0)),
)


class Cycle(RuleBasedStateMachine):
    """One pane; ``_say`` folds an event in, and checks what that event may never do."""

    @initialize(cap=st.integers(1, 3), returns=st.integers(1, 2), none=st.booleans())
    def begin(self, cap: int, returns: int, none: bool) -> None:
        policy = CyclePolicy(max_cycles=cap, ci_returns_cap=returns, allow_no_checks=none)
        self.play = Play(policy)
        self.policy = policy
        self.green: set[tuple[str, str]] = set()
        self.last_read: dict[str, CheckState] = {}
        self.granted: set[str] = set()
        self.asked_for_changes = 0
        self.effects: list[tuple[str, Effect]] = []
        self.ids: list[str] = []
        self.nonces_given = 0

    @property
    def pane(self) -> Pane:
        return self.play.pane

    def _say(self, event: Event) -> None:
        before, memory = self.pane, self.play.memory
        frozen = before.model_dump_json()
        first = apply(memory.fleet, event)
        assert apply(memory.fleet, event) == first
        assert before.model_dump_json() == frozen
        if isinstance(event, CiRead) and before.gate is not None and before.gate.gate_id == event.gate_id:
            self._remember_ci(event, before)
        effects = self.play.say(event)
        assert effects == list(first[1])
        keys = [key for key in memory.outstanding if key.startswith(f"{memory.last_seq}.")]
        self.effects += zip(keys, effects, strict=True)
        self._check_effects(before, event, effects)
        self._check_step(before, event)

    def _remember_ci(self, event: CiRead, before: Pane) -> None:
        assert before.gate is not None
        self.last_read[event.head] = event.state
        passed = event.state is CheckState.PASSED
        if passed or (event.state is CheckState.NONE and self.policy.allow_no_checks):
            self.green.add((before.gate.gate_id, event.head))
        else:
            self.green.discard((before.gate.gate_id, event.head))

    def _check_effects(self, before: Pane, event: Event, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, PostReview) and effect.verdict is Verdict.APPROVE:
                assert any(head == effect.head for _, head in self.green), "approved without a green gate"
                assert self.pane.approved_head == effect.head
                assert before.granted_head != effect.head, "approved twice"
                self.granted.add(effect.head)
            if isinstance(effect, PostReview):
                assert effect.marker in effect.body
                by_person = isinstance(event, UserDecided)  # at the cap, over the last review
                assert effect.cycle == before.review_cycle + (0 if by_person else 1)
            if isinstance(effect, PostReview) and effect.verdict is Verdict.CHANGES:
                self.asked_for_changes += 1
                assert self.asked_for_changes <= self.policy.max_cycles + self.pane.extra_cycles
            if isinstance(effect, RunReview):
                assert self.pane.gate is not None
                assert (self.pane.gate.gate_id, effect.head) in self.green, "reviewed before CI was green"
                assert self.pane.granted_head != effect.head, "reviewed although it was approved"
                self.ids.append(effect.review_id)
            if isinstance(effect, SendTask):
                self.ids.append(effect.task_id)
                assert "\n" not in effect.line
                assert effect.text.startswith("<!-- taskmaestro ")
                assert "\x1b" not in effect.text
            if isinstance(effect, WriteResult) and effect.status == "approved":
                assert self.pane.status is Status.APPROVED

    def _check_step(self, before: Pane, event: Event) -> None:
        after = self.pane
        new_task = isinstance(event, TaskGiven) and after.assignment is not before.assignment
        if new_task:
            self.asked_for_changes = 0
        else:
            assert after.review_cycle >= before.review_cycle
            assert after.review_cycle - before.review_cycle in (0, 1)
        if after.status is Status.APPROVED and before.status is not Status.APPROVED:
            self._check_approval(before, event)
        if isinstance(event, ForgeFailed | EffectFailed | PaneDied | AgentSeen | TaskStranded | CiBudgetSpent):
            assert after.status is before.status
        assert after.updated_at >= before.updated_at
        assert after.serial >= before.serial

    def _check_approval(self, before: Pane, event: Event) -> None:
        if isinstance(event, ReviewFinished):
            found = (*event.review.findings, *before.hygiene)
            assert not any(one.blocking for one in found)
            assert event.review.verdict is Verdict.APPROVE
            assert event.head_now == event.review.head == self.pane.approved_head
            assert before.gate is not None
            assert (before.gate.gate_id, event.review.head) in self.green
        elif isinstance(event, CiRead):
            assert before.gate is not None
            assert (before.gate.gate_id, event.head) in self.green
            assert before.granted_head == event.head == before.head == self.pane.approved_head
            assert event.head in self.granted
        else:
            assert isinstance(event, UserDecided)
            assert event.verb == "approve"
            assert before.attention is not None
            assert before.attention.reason is AttentionReason.CYCLE_CAP
            blocking = [one for one in before.unresolved if one.blocking]
            assert all(one.severity == "high" for one in blocking)
            assert not blocking or (event.follow_up_issue is not None and event.why.strip())
            assert before.green_head == before.head == self.pane.approved_head

    # --- what fits the state: the cycle goes on ---

    @precondition(lambda self: self.pane.task is None or self.pane.status in (Status.DONE, Status.APPROVED))
    @rule(body=texts, issue=st.sampled_from((None, 7)))
    def a_task_is_given(self, body: str, issue: int | None) -> None:
        self._say(TaskGiven(pane=1, at=self.play.now, issue=issue, title="Do it", body=body))

    @precondition(lambda self: self.pane.status in (Status.WORKING, Status.REVIEW_PENDING))
    @rule()
    def the_worker_reports(self) -> None:
        pending = self.pane.status is Status.REVIEW_PENDING
        said = (
            result("review_addressed", review_cycle=self.pane.review_cycle)
            if pending
            else result("success", pr_number=self.pane.pr_number or 42)
        )
        stamp = f"fit-{self.play.seconds}"
        self._say(ResultSeen(pane=1, at=self.play.now, result=said, digest=stamp, stamp=stamp))

    @precondition(lambda self: self.pane.claim is not None)
    @rule(head=heads, made=FACTS, holds=st.sampled_from((True, True, False)))
    def the_claim_is_looked_at(self, head: str, made: Any, holds: bool) -> None:
        assert self.pane.claim is not None
        seen = facts(head, history=history(self.pane.head or HEADS[0], head), replies=1) if holds else made
        self._say(PrInspected(pane=1, at=self.play.now, claim_id=self.pane.claim.claim_id, facts=seen))

    @precondition(lambda self: self.pane.gate is not None)
    @rule(state=st.sampled_from((CheckState.PASSED, CheckState.PASSED, CheckState.FAILED, *CheckState)))
    def ci_says(self, state: CheckState) -> None:
        assert self.pane.gate is not None
        failed = (Check(name="unit", state=CheckState.FAILED),) if state is CheckState.FAILED else ()
        gate = self.pane.gate
        self._say(CiRead(pane=1, at=self.play.now, gate_id=gate.gate_id, head=gate.head, state=state, checks=failed))

    @precondition(lambda self: self.pane.review is not None)
    @rule(found=findings, verdict=st.sampled_from(Verdict), moved=st.sampled_from((None, None, None, HEADS[4])))
    def the_review_ends(self, found: tuple[Finding, ...], verdict: Verdict, moved: str | None) -> None:
        running = self.pane.review
        assert running is not None
        review = Review(
            review_id=running.review_id,
            cycle=running.cycle,
            head=running.head,
            base=running.base,
            verdict=verdict,
            findings=found,
        )
        self._say(ReviewFinished(pane=1, at=self.play.now, review=review, head_now=moved or running.head))

    @precondition(lambda self: self.pane.attention is not None)
    @rule(
        verb=st.sampled_from(("approve", "another-cycle", "retry", "retry", "abandon")),
        why=texts,
        issue=st.sampled_from((None, 5)),
    )
    def a_person_decides(self, verb: Any, why: str, issue: int | None) -> None:
        request = f"r{self.play.seconds}"
        self._say(
            UserDecided(pane=1, at=self.play.now, verb=verb, why=why, who="w", request=request, follow_up_issue=issue)
        )

    # --- anything at any time ---

    @rule(said=RESULTS, stamp=stamps)
    def any_result(self, said: Any, stamp: str) -> None:
        self._say(ResultSeen(pane=1, at=self.play.now, result=said, digest=stamp, stamp=stamp))

    @rule(stamp=stamps, problem=texts)
    def any_bad_result(self, stamp: str, problem: str) -> None:
        self._say(ResultInvalid(pane=1, at=self.play.now, problem=problem, stamp=stamp))

    @rule(made=FACTS, fits=st.booleans())
    def any_facts(self, made: Any, fits: bool) -> None:
        claim = self.pane.claim.claim_id if fits and self.pane.claim else "x"
        self._say(PrInspected(pane=1, at=self.play.now, claim_id=claim, facts=made))

    @rule(head=heads, state=states, fits=st.booleans())
    def any_ci(self, head: str, state: CheckState, fits: bool) -> None:
        gate = self.pane.gate.gate_id if fits and self.pane.gate else "x"
        self._say(CiRead(pane=1, at=self.play.now, gate_id=gate, head=head, state=state))

    @rule(state=states, fits=st.booleans())
    def any_budget(self, state: CheckState, fits: bool) -> None:
        gate = self.pane.gate.gate_id if fits and self.pane.gate else "x"
        self._say(CiBudgetSpent(pane=1, at=self.play.now, gate_id=gate, state=state))

    @rule(head=heads, state=states)
    def ci_is_lost(self, head: str, state: CheckState) -> None:
        self._say(CiLost(pane=1, at=self.play.now, head=head, state=state))

    @rule(found=findings, head=heads, verdict=st.sampled_from(Verdict), fits=st.booleans())
    def any_review(self, found: tuple[Finding, ...], head: str, verdict: Verdict, fits: bool) -> None:
        name = self.pane.review.review_id if fits and self.pane.review else "x"
        review = Review(review_id=name, cycle=1, head=head, base=BASE, verdict=verdict, findings=found)
        self._say(ReviewFinished(pane=1, at=self.play.now, review=review, head_now=head))

    @rule(fits=st.booleans())
    def any_review_failure(self, fits: bool) -> None:
        name = self.pane.review.review_id if fits and self.pane.review else "x"
        self._say(ReviewFailed(pane=1, at=self.play.now, review_id=name, reason="x"))

    @rule(head=heads)
    def a_head_moves(self, head: str) -> None:
        self._say(HeadMoved(pane=1, at=self.play.now, head=head))

    @rule(effect=st.sampled_from(EFFECTS))
    def an_effect_fails(self, effect: str) -> None:
        self._say(EffectFailed(pane=1, at=self.play.now, effect=effect, reason="x"))

    @rule(
        kind=st.sampled_from(
            (
                PrMerged,
                PrClosed,
                ForgeBack,
                LimitOver,
                ReviewPosted,
                ReviewStage,
                ForgeFailed,
                PaneDied,
                TaskDelivered,
                TaskQueued,
                TaskStranded,
            )
        ),
        fits=st.booleans(),
    )
    def anything_else(self, kind: Any, fits: bool) -> None:
        task = self.pane.task.task_id if fits and self.pane.task else "x"
        review = self.pane.review_pass.review_id if fits and self.pane.review_pass else "x"
        more: dict[Any, dict[str, str]] = {
            ReviewPosted: {"review_id": "x"},
            ReviewStage: {"review_id": review, "stage": "running" if self.pane.review else "staged"},
            ForgeFailed: {"reason": "x"},
            PaneDied: {"detail": "x"},
            TaskDelivered: {"task_id": task, "evidence": "x"},
            TaskQueued: {"task_id": task, "reason": "x"},
            TaskStranded: {"task_id": task, "reason": "x"},
        }
        self._say(kind(pane=1, at=self.play.now, **more.get(kind, {})))

    @rule(state=st.sampled_from(("starting", "idle", "busy", "permission", "limit", "gone", "silent")))
    def an_agent_is_seen(self, state: Any) -> None:
        self._say(AgentSeen(pane=1, at=self.play.now, state=state))

    @rule(name=st.sampled_from(("%1", "%2")), fresh=st.booleans())
    def a_pane_is_bound(self, name: str, fresh: bool) -> None:
        self._say(PaneBound(pane=1, at=self.play.now, pane_id=name, fresh=fresh))

    @rule(pane=st.sampled_from((0, 2, 9)))
    def somebody_elses_event(self, pane: int) -> None:
        before = self.pane
        self.play.say(PrMerged(pane=pane, at=self.play.now))
        self.play.say(PaneRemoved(pane=pane, at=self.play.now))
        assert self.pane is before

    @precondition(lambda self: bool(self.play.memory.outstanding))
    @rule(data=st.data(), outcome=st.sampled_from(("done", "failed", "dropped", "intent")))
    def an_effect_goes_on(self, data: st.DataObject, outcome: Any) -> None:
        """Intents and results of effects are lines too; what they leave is the same in a replay."""
        memory = self.play.memory
        held = memory.outstanding[data.draw(st.sampled_from(sorted(memory.outstanding)))]
        common: dict[str, Any] = {
            "seq": memory.last_seq + 1,
            "at": self.play.now,
            "host": "here",
            "key": held.key,
            "effect": held.effect.kind,
            "pane": 1,
        }
        line = IntentLine(**common) if outcome == "intent" else ResultLine(**common, outcome=outcome)
        self.play.lines.append(line)
        memory.take(line)
        assert (held.key in memory.outstanding) == (outcome == "intent")

    # --- what always holds ---

    @invariant()
    def what_is_approved_has_a_head_and_nothing_running(self) -> None:
        pane = self.pane
        if pane.status is Status.APPROVED:
            assert pane.approved_head is not None
            assert pane.approved_head == pane.head
            assert pane.review is None
        else:
            assert pane.approved_head is None or pane.ended == "merged"

    @invariant()
    def what_is_approved_is_not_red(self) -> None:
        """And it is watched, so that it will be seen."""
        pane = self.pane
        if pane.status is Status.APPROVED and pane.ended is None:
            assert pane.gate is not None
            assert pane.gate.head == pane.approved_head == pane.granted_head
            assert self.last_read[pane.gate.head] is not CheckState.FAILED
            (watch,) = ci_watches(self.play.memory.fleet)
            assert (watch.head, watch.deadline) == (pane.approved_head, None)

    @invariant()
    def a_review_runs_only_at_an_open_gate(self) -> None:
        pane = self.pane
        if pane.review is not None:
            assert pane.status is Status.REVIEWING
            assert pane.gate is not None
            assert pane.gate.head == pane.review.head == pane.head
        if pane.status is Status.REVIEWING:
            assert pane.gate is not None
            assert pane.pr_number is not None

    @invariant()
    def somebody_or_something_is_awaited(self) -> None:
        """No pane stands still with nobody asked: a claim, a gate, a review, an open task or a person."""
        pane = self.pane
        if pane.status is Status.REVIEWING:
            watched = pane.gate is not None and pane.green_head != pane.gate.head and not pane.gate.timed_out
            assert watched or pane.review is not None or pane.attention is not None
        if pane.status is Status.REVIEW_ADDRESSED:
            assert pane.claim is not None
        if pane.status is Status.REVIEW_PENDING or (pane.status is Status.WORKING and pane.task is not None):
            owed = pane.task is not None and pane.task.open
            assert owed or pane.claim is not None or pane.attention is not None

    @invariant()
    def a_stranded_task_is_a_persons_matter(self) -> None:
        """Until it is sent again: nobody else can know of it."""
        pane = self.pane
        if owes_answer(pane) and pane.task is not None and pane.task.delivery == "stranded":
            assert pane.attention is not None or pane.claim is not None

    @invariant()
    def ids_are_given_once(self) -> None:
        assert len(self.ids) == len(set(self.ids))

    @invariant()
    def only_obsolete_effects_are_dropped(self) -> None:
        fleet, pane = self.play.memory.fleet, self.pane
        for held in self.play.memory.outstanding.values():
            effect = held.effect
            if isinstance(effect, RunReview):
                now = pane.review is not None and pane.review.review_id == effect.review_id
            elif isinstance(effect, SendTask):
                now = pane.task is not None and pane.task.task_id == effect.task_id and pane.task.open
            elif isinstance(effect, PostReview) and effect.verdict is Verdict.APPROVE:
                decided = pane.granted_head == effect.head or pane.approved_head == effect.head
                now = decided or pane.pr_number != effect.pr_number
            elif effect.kind in ("post_review", "keep_backup", "take_back_task", "start_agent"):
                now = True
            else:
                continue
            assert wanted(fleet, effect) == now, effect

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        lines = self.play.lines
        again = remember(lines)
        read = remember(JOURNAL_LINE.validate_json(JOURNAL_LINE.dump_json(line)) for line in lines)
        for other in (again, read):
            assert other.fleet == self.play.memory.fleet
            assert other.outstanding == self.play.memory.outstanding
        seen: list[tuple[str, Effect]] = []
        fresh = Memory()
        for line in lines:
            seen += [(key, fresh.outstanding[key].effect) for key in fresh.take(line).keys]
        kept = dict(seen)
        assert all(kept[key] == effect for key, effect in self.effects)
        assert len(kept) == len(seen)


Cycle.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestCycle = Cycle.TestCase


def test_a_decision_never_raises_for_a_pane_that_no_event_made() -> None:
    """A bare pane of each role meets events of every kind that were meant for others."""
    for role in Role:
        play = Play(role=role)
        for event in (
            HeadMoved(pane=1, at=play.now, head=""),
            PaneAdded(pane=1, at=play.now, role=role, agent="", run="abcdef", worktree=""),
            PrMerged(pane=1, at=play.now),
            PrClosed(pane=1, at=play.now),
        ):
            decide(play.pane, event, CyclePolicy())
