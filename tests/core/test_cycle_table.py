"""The table, row by row and pair by pair: each row has an example, and what no row takes changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conductor.core.cycle import TABLE, decide
from conductor.core.state import Pane
from schemas.config import CyclePolicy
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
    HistoryChecked,
    LimitOver,
    LostCommits,
    PaneBound,
    PaneDied,
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
from schemas.forge import CheckState
from schemas.pane import Role, Status
from schemas.review import Review, Verdict
from tests.core.cycle_play import BASE, PR, START, A, B, C, Play, facts, finding, history, kinds, result

Last = Callable[[Play], Any]


def _say(kind: type[Event], **fields: Any) -> Last:  # type: ignore[valid-type]
    return lambda play: play.say(kind(pane=1, at=play.now, **fields))


def _task_id(kind: type[Any], **fields: Any) -> Last:
    return lambda play: play.say(kind(pane=1, at=play.now, task_id=play.pane.task.task_id, **fields))


def _start(play: Play) -> None:
    """A pane without a task."""


def _given(play: Play) -> None:
    play.task()


def _claimed(play: Play) -> None:
    play.task()
    play.writes("success", pr_number=PR)


def _red(play: Play) -> None:
    play.to_gate()
    play.ci("failed")


def _red_at_cap(play: Play) -> None:
    play.to_gate()
    for head in (B, C, A):
        play.ci("failed")
        play.writes("success", pr_number=PR)
        play.inspected(head)


def _merged(play: Play) -> None:
    play.to_approved()
    play.say(PrMerged(pane=1, at=play.now))


def _reopened_at_cap(play: Play) -> None:
    """At the cap, the pull request closed, reopened, and a person said retry: reviewing again, no review left."""
    play.to_cap()
    play.say(PrClosed(pane=1, at=play.now))
    play.decides("retry")
    play.inspected(play.pane.head or A)


def _at_its_limit(play: Play) -> None:
    """A worker that was at its task when its usage limit was reached."""
    _given(play)
    task = play.pane.task
    assert task is not None
    play.say(TaskDelivered(pane=1, at=play.now, task_id=task.task_id, evidence="receipt"))
    play.say(AgentSeen(pane=1, at=play.now, state="limit", detail="resets 5pm"))


def _seen_busy(play: Play) -> None:
    play.task()
    play.say(AgentSeen(pane=1, at=play.now, state="busy"))


LOST = LostCommits(old=B, lines=("b",))
NOTHING: list[str] = []
# rule -> how to get there, the event, the kinds of its effects in order
EXAMPLES: dict[str, tuple[Last, Last, list[str]]] = {
    "result of another role": (_start, lambda p: p.writes("success", review_result="approve"), NOTHING),
    "result seen before": (_claimed, lambda p: p.writes("success", pr_number=PR, stamp="stamp-1"), NOTHING),
    "stale result": (_given, lambda p: p.writes("success", pr_number=PR, issue=8), ["quarantine_result"]),
    "grant by a worker": (_given, lambda p: p.writes("approved"), ["send_task"]),
    "lease rejected": (_given, lambda p: p.writes("failure", reason="lease_rejected"), ["report"]),
    "worker failed": (_given, lambda p: p.writes("failure", error="no idea"), ["report"]),
    "success claimed": (_given, lambda p: p.writes("success", pr_number=PR), ["inspect_pr"]),
    "addressed after a CI return": (_red, lambda p: p.writes("review_addressed", review_cycle=0), ["inspect_pr"]),
    "addressed": (Play.to_pending, lambda p: p.writes("review_addressed", review_cycle=1), ["inspect_pr"]),
    "success instead of addressed": (Play.to_pending, lambda p: p.writes("success", pr_number=PR), ["send_task"]),
    "success without a pull request": (
        Play.task,
        lambda p: p.writes("success", review_result="approve"),
        ["report", "send_task"],
    ),
    "result that does not fit": (Play.to_pending, lambda p: p.writes("review_addressed", review_cycle=2), NOTHING),
    "invalid result of another role": (_start, lambda p: p.writes_badly(), NOTHING),
    "invalid result seen before": (_claimed, lambda p: p.writes_badly(stamp="stamp-1"), NOTHING),
    "invalid result": (_given, lambda p: p.writes_badly(), ["report", "send_task"]),
    "inspection of an old claim": (_claimed, lambda p: p.inspected(claim_id="other"), NOTHING),
    "forge lags": (_claimed, lambda p: p.inspected(remote_head=B, worktree_head=B), ["report"]),
    "claim refused": (_claimed, lambda p: p.inspected(found=False), ["report", "send_task"]),
    "nothing new": (Play.to_addressed, lambda p: p.inspected(A), ["send_task"]),
    "foreign commits lost": (
        Play.to_addressed,
        lambda p: p.inspected(B, history=history(lost=("1234567 theirs",))),
        ["keep_backup", "report"],
    ),
    "claim holds": (_claimed, lambda p: p.inspected(), NOTHING),
    "CI of another gate": (Play.to_gate, lambda p: p.ci("passed", gate_id="other"), NOTHING),
    "CI names another head": (Play.to_gate, lambda p: p.ci("passed", head=B), ["check_history"]),
    "CI passed": (Play.to_gate, lambda p: p.ci("passed"), ["run_review"]),
    "CI passed at the cap": (_reopened_at_cap, lambda p: p.ci("passed"), ["report"]),
    "CI failed": (Play.to_gate, lambda p: p.ci("failed"), ["send_task"]),
    "CI failed, returns used up": (_red_at_cap, lambda p: p.ci("failed"), ["report"]),
    "CI not decided": (Play.to_gate, lambda p: p.ci("pending"), NOTHING),
    "returned head replaced": (_red, lambda p: p.ci("pending", head=B), NOTHING),
    "CI turned green": (_red, lambda p: p.ci("passed"), ["take_back_task", "run_review"]),
    "CI turned green at the cap": (
        lambda p: (_reopened_at_cap(p), p.ci("failed")),
        lambda p: p.ci("passed"),
        ["take_back_task", "report"],
    ),
    "CI of returned work": (_red, lambda p: p.ci("pending"), NOTHING),
    "CI budget of another gate": (Play.to_gate, lambda p: p.ci_budget_spent(gate_id="other"), NOTHING),
    "CI budget spent": (Play.to_gate, lambda p: p.ci_budget_spent(), ["report"]),
    "head moved": (Play.to_approved, lambda p: p.head_moves(B), ["check_history", "report"]),
    "another head seen": (Play.to_pending, lambda p: p.head_moves(B), ["keep_backup"]),
    "commits of others lost": (
        Play.to_approved,
        _say(HistoryChecked, head=A, lost=(LostCommits(old=B, lines=("b by somebody",)),)),
        ["keep_backup", "report"],
    ),
    "approval not posted": (Play.to_withdrawn, _say(CiLost, head=A, state="failed"), NOTHING),
    "CI of the approved head failed": (Play.to_approved, lambda p: p.ci("failed"), ["report"]),
    "CI of the approved head": (Play.to_approved, lambda p: p.ci("pending"), NOTHING),
    "CI green again": (Play.to_withdrawn, lambda p: p.ci("passed"), ["write_result", "report"]),
    "CI lost before the approval was posted": (Play.to_approved, _say(CiLost, head=A, state="failed"), ["report"]),
    "given up at work": (Play.task, lambda p: p.decides("abandon"), ["report"]),
    "merge known": (_merged, _say(PrMerged), NOTHING),
    "approved and merged": (Play.to_approved, _say(PrMerged), ["report"]),
    "merged": (Play.to_review, _say(PrMerged), ["report"]),
    "closed": (Play.to_review, _say(PrClosed), ["report"]),
    "verdict of another review": (Play.to_gate, lambda p: p.reviewed(), NOTHING),
    "head moved during the review": (Play.to_review, lambda p: p.reviewed(head_now=B), ["check_history"]),
    "review approves": (Play.to_review, lambda p: p.reviewed(), ["post_review", "write_result", "report"]),
    "review approves, CI no longer green": (
        lambda p: p.to_review() and p.ci("pending"),
        lambda p: p.reviewed(),
        NOTHING,
    ),
    "review asks for changes": (
        Play.to_review,
        lambda p: p.reviewed(finding()),
        ["post_review", "write_result", "send_task"],
    ),
    "review asks for changes at the cap": (
        lambda p: (
            p.to_pending() and p.answers(B) + p.ci("passed") + p.reviewed(finding()) + p.answers(C) + p.ci("passed")
        ),
        lambda p: p.reviewed(finding()),
        ["post_review", "write_result", "report"],
    ),
    "failure of another review": (Play.to_gate, lambda p: p.review_fails(), NOTHING),
    "review failed": (Play.to_review, lambda p: p.review_fails(), ["report"]),
    "review stage": (
        Play.to_review,
        lambda p: p.say(ReviewStage(pane=1, at=p.now, review_id=p.pane.review_pass.review_id, stage="running")),
        NOTHING,
    ),
    "review posted": (Play.to_pending, _say(ReviewPosted, review_id="x"), NOTHING),
    "task given": (_start, lambda p: p.task(), ["send_task"]),
    "task not given": (_given, lambda p: p.task(), ["report"]),
    "pane bound": (_given, _say(PaneBound, pane_id="%2", fresh=True), ["send_task"]),
    "nothing to decide": (_given, lambda p: p.decides("retry"), ["report"]),
    "abandoned": (Play.to_cap, lambda p: p.decides("abandon"), ["report"]),
    "approved by a person": (
        Play.to_cap,
        lambda p: p.decides("approve", follow_up=9),
        ["post_review", "write_result", "report"],
    ),
    "approval refused": (Play.to_cap, lambda p: p.decides("approve"), ["report"]),
    "another review": (Play.to_cap, lambda p: p.decides("another-cycle"), ["send_task"]),
    "another CI return": (
        lambda p: (_red_at_cap(p), p.ci("failed")),
        lambda p: p.decides("another-cycle"),
        ["send_task"],
    ),
    "no other cycle": (
        lambda p: p.to_review() and p.review_fails(),
        lambda p: p.decides("another-cycle"),
        ["report"],
    ),
    "no retry at the cap": (Play.to_cap, lambda p: p.decides("retry"), ["report"]),
    "retried": (lambda p: p.to_review() and p.review_fails(), lambda p: p.decides("retry"), ["run_review"]),
    "delivery of another task": (_given, _say(TaskDelivered, task_id="other", evidence="x"), NOTHING),
    "task delivered": (_given, _task_id(TaskDelivered, evidence="x"), NOTHING),
    "queueing of another task": (_given, _say(TaskQueued, task_id="other", reason="x"), NOTHING),
    "task queued": (_given, _task_id(TaskQueued, reason="x"), NOTHING),
    "stranding of another task": (_given, _say(TaskStranded, task_id="other", reason="x"), NOTHING),
    "task stranded": (_given, _task_id(TaskStranded, reason="x"), ["report"]),
    "agent unchanged": (_seen_busy, _say(AgentSeen, state="busy"), NOTHING),
    "agent needs a person": (_seen_busy, _say(AgentSeen, state="permission", detail="rm?"), ["report"]),
    "agent seen": (_seen_busy, _say(AgentSeen, state="idle"), NOTHING),
    "limit over": (_at_its_limit, _say(LimitOver), ["send_task"]),
    "pane died": (_given, _say(PaneDied, detail="status 1"), ["report"]),
    "forge unreachable": (_given, _say(ForgeFailed, reason="timeout"), ["report"]),
    "forge back": (_given, _say(ForgeBack), NOTHING),
    "worktree lost": (_given, _say(EffectFailed, effect="keep_worktree", reason="its worktree is gone."), ["report"]),
    "effect failed": (_given, _say(EffectFailed, effect="write_result", reason="disk full"), ["report"]),
}
OTHER_ROLE = ("result of another role", "invalid result of another role")


def test_every_row_has_a_name_of_its_own_and_an_example() -> None:
    names = [row.rule for row in TABLE]
    assert len(names) == len(set(names))
    assert sorted(EXAMPLES) == sorted(names)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.rule)
def test_a_row_does_what_it_says(row: Any) -> None:
    way, last, effects = EXAMPLES[row.rule]
    play = Play(role=Role.REVIEWER if row.rule in OTHER_ROLE else Role.WORKER)
    way(play)
    before = play.pane
    found = last(play)
    assert play.rule == row.rule
    assert before.status in row.sources
    assert play.lines[-1].event.kind == row.kind  # type: ignore[union-attr]
    assert play.pane.status in (row.to if row.to is not None else {before.status})
    assert kinds(found) == effects
    assert all(effect.pane == 1 for effect in found)


def _panes() -> dict[Status, list[Pane]]:
    """Panes in each status, as they come about."""
    ways: dict[Status, list[Last]] = {
        Status.WORKING: [_start, _given, _claimed, _red, lambda p: p.to_withdrawn() and p.ci("failed")],
        Status.REVIEWING: [
            Play.to_gate,
            Play.to_review,
            lambda p: p.to_review() and p.review_fails(),
            _reopened_at_cap,
            Play.to_withdrawn,
        ],
        Status.REVIEW_PENDING: [Play.to_pending, Play.to_cap],
        Status.REVIEW_ADDRESSED: [Play.to_addressed],
        Status.APPROVED: [Play.to_approved, _merged, lambda p: p.to_cap() and p.decides("approve", follow_up=9)],
        Status.DONE: [Play.to_done, lambda p: p.to_gate() and p.say(PrClosed(pane=1, at=p.now))],
    }
    found: dict[Status, list[Pane]] = {}
    for status, all_ways in ways.items():
        for way in all_ways:
            play = Play()
            way(play)
            assert play.pane.status is status
            found.setdefault(status, []).append(play.pane)
    return found


PANES = _panes()


def _events(pane: Pane) -> dict[str, list[Event]]:
    """Events of each kind: some that fit this pane, some of another time."""
    base: dict[str, Any] = {"pane": 1, "at": START}
    gate_ids = ["other", *([pane.gate.gate_id] if pane.gate else [])]
    claims = ["other", *([pane.claim.claim_id] if pane.claim else [])]
    reviews = ["other", *([pane.review.review_id] if pane.review else [])]
    tasks = ["other", *([pane.task.task_id] if pane.task else [])]
    results = [
        result("success", pr_number=PR),
        result("success", review_result="approve"),
        result("failure", error="x"),
        result("error", reason="lease_rejected"),
        result("review_pending"),
        result("approved"),
        *[result("review_addressed", review_cycle=cycle) for cycle in (0, pane.review_cycle, 9)],
        result("success", pr_number=PR, issue=99),
        result("success", pr_number=PR, nonce="other"),
    ]
    made = [
        facts(pane.head or A),
        facts(B),
        facts(found=False),
        facts(B, remote_head=C, worktree_head=C),
        facts(B, history=history(lost=("theirs",))),
    ]
    verdicts = [
        Review(review_id=name, cycle=1, head=pane.head or A, base=BASE, verdict=verdict, findings=found)
        for name in reviews
        for verdict in Verdict
        for found in ((), (finding(),), (finding("critical"),))
    ]
    return {
        "result_seen": [ResultSeen(**base, result=one, digest="d", stamp="new") for one in results],
        "result_invalid": [
            ResultInvalid(**base, problem="p", stamp=stamp) for stamp in ("new", pane.last_stamp or "s")
        ],
        "pr_inspected": [PrInspected(**base, claim_id=one, facts=fact) for one in claims for fact in made],
        "ci_read": [
            CiRead(**base, gate_id=one, head=head, state=state)
            for one in gate_ids
            for head in (pane.head or A, C)
            for state in CheckState
        ],
        "ci_budget_spent": [CiBudgetSpent(**base, gate_id=one, state=CheckState.PENDING) for one in gate_ids],
        "review_stage": [
            ReviewStage(**base, review_id=one, stage=stage)
            for one in reviews
            for stage in ("planning", "running", "merging", "staged")
        ],
        "review_finished": [
            ReviewFinished(**base, review=one, head_now=now) for one in verdicts for now in (one.head, C)
        ],
        "review_failed": [ReviewFailed(**base, review_id=one, reason="x") for one in reviews],
        "review_posted": [ReviewPosted(**base, review_id=one) for one in reviews],
        "task_given": [TaskGiven(**base, title="t")],
        "task_delivered": [TaskDelivered(**base, task_id=one, evidence="x") for one in tasks],
        "task_queued": [TaskQueued(**base, task_id=one, reason="x") for one in tasks],
        "task_stranded": [TaskStranded(**base, task_id=one, reason="x") for one in tasks],
        "head_moved": [HeadMoved(**base, head=head) for head in (pane.head or A, C)],
        "pr_merged": [PrMerged(**base)],
        "pr_closed": [PrClosed(**base)],
        "user_decided": [
            UserDecided(**base, verb=verb, why=why, who="w", request="r", follow_up_issue=issue)
            for verb in ("approve", "another-cycle", "retry", "abandon")
            for why in ("", "seen")
            for issue in (None, 3)
        ],
        "pane_bound": [
            PaneBound(**base, pane_id=name, fresh=fresh) for name in ("%1", "%9") for fresh in (True, False)
        ],
        "pane_died": [PaneDied(**base, detail="x")],
        "limit_over": [LimitOver(**base)],
        "agent_seen": [AgentSeen(**base, state=state) for state in ("idle", "busy", "permission", "silent", "gone")],
        "forge_failed": [ForgeFailed(**base, reason="x")],
        "forge_back": [ForgeBack(**base)],
        "history_checked": [
            HistoryChecked(**base, head=A),
            HistoryChecked(**base, head=A, lost=(LostCommits(old=B, lines=("b",)),)),
        ],
        "ci_lost": [CiLost(**base, head=head, state="failed") for head in (A, B)],
        "effect_failed": [EffectFailed(**base, effect="post_review", reason="x")],
    }


KINDS = sorted({row.kind for row in TABLE})


def test_every_kind_of_event_is_tried() -> None:
    assert sorted(_events(PANES[Status.WORKING][0])) == KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", Status)
def test_a_pair_does_what_a_row_says_or_nothing(status: Status, kind: str) -> None:
    rows = {row.rule: row for row in TABLE if row.kind == kind and status in row.sources}
    policy = CyclePolicy()
    for pane in PANES[status]:
        frozen = pane.model_dump_json()
        for event in _events(pane)[kind]:
            decision = decide(pane, event, policy)
            if decision.rule == "ignored":
                assert decision.pane is pane
                assert decision.effects == ()
                continue
            row = rows[decision.rule]
            assert decision.pane.status in (row.to if row.to is not None else {status}), (row.rule, event)
            assert decision == decide(pane, event, policy)
        assert pane.model_dump_json() == frozen


@pytest.mark.parametrize("status", Status)
def test_what_no_row_takes_changes_nothing(status: Status) -> None:
    for pane in PANES[status]:
        for kind, events in _events(pane).items():
            if any(row.kind == kind and status in row.sources for row in TABLE):
                continue
            for event in events:
                decision = decide(pane, event, CyclePolicy())
                assert (decision.pane is pane, decision.effects, decision.rule) == (True, (), "ignored")
