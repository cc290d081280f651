"""The transitions of the review cycle page, each by its name."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.cycle import wanted
from conductor.core.cycle.moves import NOTICES
from conductor.core.watches import ci_watches
from schemas.config import CyclePolicy
from schemas.effects import CheckHistory, KeepBackup, PostReview, Report, RunReview, SendTask, TakeBackTask
from schemas.events import (
    AgentSeen,
    CiLost,
    EffectFailed,
    ForgeBack,
    ForgeFailed,
    HistoryChecked,
    LimitOver,
    LostCommits,
    PaneBound,
    PaneDied,
    PolicySet,
    PrClosed,
    PrMerged,
    ReviewPosted,
    TaskDelivered,
    TaskQueued,
    TaskStranded,
)
from schemas.journal import ResultLine
from schemas.pane import Status
from tests.core.cycle_play import PR, A, B, C, D, Play, finding, history, kinds

CAP_MESSAGE = """\
⚠️ Pane 1: unresolved issues after 3 review cycles.
PR: #42
Unresolved: [critical] secret in source — src/app.py:9; [high] unhandled error — src/app.py:1
User decision required."""


def one(effects: list[Any], kind: type[Any]) -> Any:
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def reopened_at_cap() -> Play:
    """At the cap, closed and opened again: its gate is open, and no review is left."""
    play = Play().to_cap()
    play.say(PrClosed(pane=1, at=play.now))
    play.decides("retry")
    play.inspected(play.pane.head or A)
    return play


# --- the run ---


def test_three_cycles_end_at_a_person_and_not_in_an_approval() -> None:
    play = Play().to_review()
    found = [finding("high"), finding("critical", 9, "secret in source"), finding("low", 3, "wording")]
    for cycle, head in ((1, B), (2, C)):
        effects = play.reviewed(*found)
        assert kinds(effects) == ["post_review", "write_result", "send_task"]
        assert one(effects, PostReview).cycle == cycle
        assert (play.pane.status, play.pane.review_cycle) == (Status.REVIEW_PENDING, cycle)
        play.answers(head)
        assert play.pane.status is Status.REVIEWING
        assert [review.cycle for review in one(play.ci("passed"), RunReview).earlier] == list(range(1, cycle + 1))
    effects = play.reviewed(*found)
    assert kinds(effects) == ["post_review", "write_result", "report"]
    assert one(effects, Report).message == CAP_MESSAGE
    assert (play.pane.status, play.pane.review_cycle, play.reason) == (Status.REVIEW_PENDING, 3, "cycle_cap")
    assert play.pane.attention is not None
    assert play.pane.attention.message == CAP_MESSAGE


def test_at_the_cap_the_worker_moves_nothing() -> None:
    play = Play().to_cap()
    for write in (
        lambda: play.writes("review_addressed", review_cycle=3),
        lambda: play.writes("failure", error="enough"),
        lambda: play.ci("passed"),
    ):
        assert write() == []
        assert (play.pane.status, play.reason) == (Status.REVIEW_PENDING, "cycle_cap")


@pytest.mark.parametrize("reason", ["lease_rejected", "effect"])
def test_nothing_hides_the_cap(reason: str) -> None:
    play = Play().to_cap()
    if reason == "effect":
        play.say(EffectFailed(pane=1, at=play.now, effect="write_result", reason="disk full"))
    else:
        play.writes("failure", reason=reason)
    play.say(PaneDied(pane=1, at=play.now, detail="x"))
    play.say(ForgeFailed(pane=1, at=play.now, reason="x"))
    play.say(ForgeBack(pane=1, at=play.now))
    assert play.reason == "cycle_cap"


def test_a_failed_worker_is_reported_with_its_words_and_not_reviewed() -> None:
    play = Play()
    play.task()
    report = one(play.writes("error", error="no \x1b[31mdisk\x1b[0m"), Report)
    assert "no [31mdisk[0m" in report.message
    assert (play.pane.status, report.level) == (Status.DONE, "info")


def test_an_approval_is_posted_written_and_reported_for_exactly_this_head() -> None:
    play = Play().to_review()
    effects = play.reviewed()
    assert kinds(effects) == ["post_review", "write_result", "report"]
    posting = one(effects, PostReview)
    assert (posting.head, posting.verdict) == (A, "approve")
    assert posting.marker in posting.body
    assert (play.pane.status, play.pane.approved_head, play.pane.review_cycle) == (Status.APPROVED, A, 0)


def test_each_posting_has_its_marker_in_its_body() -> None:
    play = Play().to_review()
    postings = [one(play.reviewed(finding()), PostReview)]
    play.answers(B)
    play.ci("passed")
    postings.append(one(play.reviewed(finding()), PostReview))
    play.answers(C)
    play.ci("passed")
    postings.append(one(play.reviewed(finding()), PostReview))
    postings.append(one(play.decides("approve", follow_up=3), PostReview))
    assert all(posting.marker in posting.body for posting in postings)
    assert len({posting.marker for posting in postings}) == len(postings)


def test_an_answer_without_a_push_is_reviewed_again_after_ci_is_asked_again() -> None:
    play = Play().to_pending()
    play.writes("review_addressed", review_cycle=1)
    play.inspected(A, replies=1)
    assert play.pane.status is Status.REVIEWING
    assert play.pane.green_head is None
    assert kinds(play.ci("passed")) == ["run_review"]


def test_a_blocking_finding_outweighs_the_word_approve() -> None:
    play = Play().to_review()
    play.reviewed(finding("critical"), verdict="approve")
    assert play.pane.status is Status.REVIEW_PENDING


def test_more_commits_than_before_are_a_finding_of_the_next_review() -> None:
    play = Play().to_pending()
    play.writes("review_addressed", review_cycle=1)
    play.inspected(B, history=history(shape="more_commits").model_copy(update={"commits_after": 3}))
    play.ci("passed")
    posting = one(play.reviewed(), PostReview)
    assert "commit" in posting.body
    assert play.pane.status is Status.APPROVED


def test_a_split_that_the_review_asked_for_is_none() -> None:
    play = Play().to_pending(A, finding(message="Move this refactor to its own commit"))
    play.writes("review_addressed", review_cycle=1)
    play.inspected(B, history=history(shape="more_commits"))
    assert play.pane.hygiene == ()


# --- CI ---


def test_red_ci_before_a_review_goes_back_to_a_worker_that_is_working() -> None:
    play = Play().to_gate()
    task = one(play.ci("failed"), SendTask)
    assert (task.task, play.pane.status, play.pane.review_cycle) == ("ci", Status.WORKING, 0)
    assert "unit" in task.text
    assert "http://ci/1" in task.text


def test_red_ci_after_a_review_goes_back_to_a_worker_whose_review_is_pending() -> None:
    play = Play().to_pending()
    play.answers(B)
    task = one(play.ci("failed"), SendTask)
    assert (task.task, play.pane.status, play.pane.review_cycle) == ("ci", Status.REVIEW_PENDING, 1)


def test_red_ci_during_a_review_drops_it() -> None:
    play = Play().to_review()
    review = play.pane.review
    play.ci("failed")
    assert play.pane.review is None
    assert review is not None
    effect = next(o.effect for o in play.memory.outstanding.values() if isinstance(o.effect, RunReview))
    assert not wanted(play.memory.fleet, effect)


def test_after_a_ci_return_the_same_head_is_not_taken() -> None:
    play = Play().to_gate()
    play.ci("failed")
    play.writes("success", pr_number=PR)
    task = one(play.inspected(A), SendTask)
    assert task.task == "notice"
    assert "still has that head" in task.text
    assert (play.pane.status, play.pane.ci_returns) == (Status.WORKING, 1)


def test_ci_returns_have_a_cap_of_their_own() -> None:
    play = Play(CyclePolicy(ci_returns_cap=2)).to_gate()
    for head in (B, C):
        assert kinds(play.ci("failed")) == ["send_task"]
        play.writes("success", pr_number=PR)
        play.inspected(head)
    report = one(play.ci("failed"), Report)
    assert (play.pane.status, play.reason, play.pane.review_cycle) == (Status.REVIEWING, "ci_failed_cap", 0)
    assert "still fails (unit) after 2 returns" in report.message


def test_the_same_head_run_again_and_green_takes_the_task_back() -> None:
    play = Play().to_gate()
    task = one(play.ci("failed"), SendTask)
    play.ci("pending")
    effects = play.ci("passed")
    assert kinds(effects) == ["take_back_task", "run_review"]
    assert one(effects, TakeBackTask).task_id == task.task_id
    assert "Nothing to do" in one(effects, TakeBackTask).text
    assert play.pane.status is Status.REVIEWING
    assert not wanted(play.memory.fleet, task)


def test_no_checks_are_green_only_where_that_is_configured() -> None:
    play = Play().to_gate()
    assert play.ci("none") == []
    play = Play(CyclePolicy(allow_no_checks=True)).to_gate()
    assert kinds(play.ci("none")) == ["run_review"]
    assert "no checks" in one(play.reviewed(), PostReview).body


def test_a_spent_budget_asks_a_person_and_retry_waits_again() -> None:
    play = Play().to_gate()
    report = one(play.ci_budget_spent("not_yet"), Report)
    assert report.message.startswith("watch timeout — PR #42 needs manual attention")
    assert "allow_no_checks" in report.message
    assert (play.pane.status, play.reason) == (Status.REVIEWING, "ci_timeout")
    old = play.pane.gate
    play.decides("retry")
    assert play.pane.gate is not None
    assert old is not None
    assert (play.pane.gate.head, play.reason) == (old.head, None)
    assert play.pane.gate.gate_id != old.gate_id


def test_ci_started_again_during_an_approving_review_costs_no_cycle() -> None:
    play = Play().to_review()
    play.ci("pending")
    assert play.reviewed() == []
    assert (play.pane.status, play.pane.review_cycle) == (Status.REVIEWING, 0)
    assert kinds(play.ci("passed")) == ["run_review"]


def test_a_push_that_turns_green_answers_the_cap_of_ci_returns() -> None:
    play = Play(CyclePolicy(ci_returns_cap=1)).to_gate()
    play.ci("failed")
    play.writes("success", pr_number=PR)
    play.inspected(B)
    play.ci("failed")
    assert play.reason == "ci_failed_cap"
    play.head_moves(C)
    play.ci("passed")
    assert play.reason is None


def test_a_retry_waits_again_whatever_was_raised_after_the_budget() -> None:
    play = Play().to_gate()
    play.ci_budget_spent()
    play.writes("failure", reason="lease_rejected")
    assert play.reason == "lease_rejected"
    play.decides("retry")
    assert play.pane.gate is not None
    assert not play.pane.gate.timed_out


# --- heads ---


def test_a_head_that_moved_during_the_review_starts_again_at_the_gate() -> None:
    play = Play().to_review()
    play.head_moves(B)
    assert (play.pane.status, play.pane.review) == (Status.REVIEWING, None)
    assert play.pane.gate is not None
    assert play.pane.gate.head == B


def test_a_verdict_for_a_head_that_moved_is_dropped() -> None:
    play = Play().to_review()
    assert kinds(play.reviewed(head_now=B)) == ["check_history"]
    assert (play.pane.status, play.pane.review_cycle, play.pane.head) == (Status.REVIEWING, 0, B)


def test_a_head_that_shows_up_while_the_worker_is_at_work_is_kept_and_later_compared() -> None:
    play = Play().to_pending()
    kept = play.head_moves(B)
    assert [(effect.kind, effect.head) for effect in kept if isinstance(effect, KeepBackup)] == [("keep_backup", B)]
    assert play.head_moves(B) == []
    assert play.pane.status is Status.REVIEW_PENDING
    play.writes("review_addressed", review_cycle=1)
    compared = [effect for effect in play.inspected(D) if isinstance(effect, CheckHistory)]
    assert [(effect.old_heads[-1], effect.head) for effect in compared] == [(B, D)]
    assert play.pane.seen_heads == ()


def test_lost_commits_of_others_outlive_an_approval() -> None:
    play = Play().to_review()
    lost = LostCommits(old=B, lines=("b by somebody",))
    assert kinds(play.say(HistoryChecked(pane=1, at=play.now, head=A, lost=(lost,)))) == ["keep_backup", "report"]
    play.reviewed()
    assert (play.pane.status, play.reason) == (Status.APPROVED, "foreign_commits_lost")
    play.decides("retry")
    assert (play.pane.status, play.reason) == (Status.APPROVED, None)


def test_ci_that_fails_during_a_review_ends_it() -> None:
    play = Play().to_review()
    assert kinds(play.ci("failed")) == ["send_task"]
    assert (play.pane.status, play.pane.review) == (Status.WORKING, None)
    assert play.reviewed() == []


def test_an_approval_is_withheld_where_ci_is_not_green_when_it_is_posted() -> None:
    play = Play().to_approved()
    play.say(CiLost(pane=1, at=play.now, head=A, state="failed"))
    assert (play.pane.status, play.pane.approved_head) == (Status.REVIEWING, None)
    assert kinds(play.ci("failed")) == ["send_task"]
    assert kinds(play.ci("passed")) == ["take_back_task", "run_review"]


def test_a_forge_that_did_not_answer_at_the_deadline_is_not_taken_for_one_without_checks() -> None:
    play = Play(CyclePolicy(allow_no_checks=True)).to_review()
    play.ci("pending")
    play.ci_budget_spent("none")
    play.reviewed()
    assert play.pane.status is Status.REVIEWING


def test_a_review_that_is_retried_waits_for_ci_that_runs_again() -> None:
    play = Play().to_review()
    play.review_fails()
    play.ci("pending")
    assert play.decides("retry") == []
    assert kinds(play.ci("passed")) == ["run_review"]


def test_another_review_is_begun_when_ci_is_green_again_and_waits_for_a_gate_that_timed_out() -> None:
    play = reopened_at_cap()
    play.ci("passed")
    play.ci("pending")
    play.ci_budget_spent()
    old = play.pane.gate
    assert play.decides("another-cycle") == []
    assert old is not None
    assert play.pane.gate is not None
    assert (play.pane.gate.timed_out, play.pane.gate.gate_id != old.gate_id) == (False, True)
    assert kinds(play.ci("passed")) == ["run_review"]


def test_a_person_approves_nothing_whose_ci_runs_again() -> None:
    play = reopened_at_cap()
    play.ci("passed")
    play.ci("pending")
    assert "CI is not green" in one(play.decides("approve", follow_up=9), Report).message
    play.ci("passed")
    assert kinds(play.decides("approve", follow_up=9)) == ["post_review", "write_result", "report"]


# --- CI after the approval ---


def test_ci_that_fails_after_the_approval_withdraws_it_and_returns_to_the_worker() -> None:
    play = Play().to_approved()
    gate = play.pane.gate
    (report,) = play.ci("failed")
    assert isinstance(report, Report)
    assert report.message == f"Pane 1: the approval of #42 is withdrawn: CI of {A[:12]} turned red (unit)."
    assert (play.pane.status, play.pane.approved_head, play.reason) == (Status.REVIEWING, None, None)
    assert gate is not None
    assert play.pane.gate is not None
    assert (play.pane.gate.head, play.pane.gate.gate_id != gate.gate_id) == (A, True)
    assert kinds(play.ci("failed")) == ["send_task"]
    assert (play.pane.status, play.pane.ci_returns) == (Status.WORKING, 1)


@pytest.mark.parametrize("state", ["pending", "not_yet", "none", "passed"])
def test_checks_that_only_run_again_withdraw_nothing(state: str) -> None:
    play = Play().to_approved()
    assert play.ci(state) == []
    assert play.pane.status is Status.APPROVED


@pytest.mark.parametrize("returned", [False, True])
def test_a_head_that_is_green_again_is_approved_again_and_neither_reviewed_nor_posted_twice(returned: bool) -> None:
    play = Play().to_withdrawn()
    before = play.pane
    task = one(play.ci("failed"), SendTask) if returned else None
    play.ci("pending")
    effects = play.ci("passed")
    assert kinds(effects) == [*(["take_back_task"] if returned else []), "write_result", "report"]
    assert (play.pane.status, play.pane.approved_head) == (Status.APPROVED, A)
    assert play.pane.last_review_id == before.last_review_id
    written, report = effects[-2:]
    assert (written.status, written.head) == ("approved", A)
    assert report.message.endswith(f"CI of {A[:12]} is green again, the approval of #42 stands.")
    if task is not None:
        taken = one(effects, TakeBackTask)
        assert (taken.task_id, "the approval of this commit stands" in taken.text) == (task.task_id, True)
        assert not wanted(play.memory.fleet, task)
    assert kinds(play.ci("failed")) == ["report"]  # and so on


def test_a_claim_that_is_looked_at_when_ci_turns_green_again_is_dropped() -> None:
    play = Play().to_withdrawn()
    play.ci("failed")
    (look,) = play.writes("success", pr_number=PR)
    play.ci("passed")
    assert play.pane.status is Status.APPROVED
    assert not wanted(play.memory.fleet, look)


def test_a_persons_approval_stands_again_at_the_cap() -> None:
    play = Play().to_cap()
    play.decides("approve", follow_up=9)
    head = play.pane.head
    play.ci("failed")
    play.ci("failed")
    assert play.pane.status is Status.REVIEW_PENDING
    play.ci("passed")
    assert (play.pane.status, play.pane.approved_head, play.reason) == (Status.APPROVED, head, None)


def test_a_persons_approval_that_ci_kept_from_being_posted_is_theirs_to_give_again() -> None:
    play = Play().to_cap()
    play.decides("approve", follow_up=9)
    play.say(CiLost(pane=1, at=play.now, head=play.pane.head, state="failed"))
    play.ci("failed")
    assert kinds(play.ci("passed")) == ["take_back_task", "report"]
    assert (play.pane.status, play.reason) == (Status.REVIEWING, "cycle_cap")
    assert kinds(play.decides("approve", follow_up=9)) == ["post_review", "write_result", "report"]


def test_returns_that_are_used_up_hold_after_an_approval_too_and_a_retry_finds_it_standing() -> None:
    play = Play(CyclePolicy(ci_returns_cap=1)).to_gate()
    play.ci("failed")
    play.ci("passed")
    play.reviewed()
    play.ci("failed")
    play.ci("failed")
    assert (play.pane.status, play.reason) == (Status.REVIEWING, "ci_failed_cap")
    play.decides("retry")
    assert kinds(play.ci("passed")) == ["write_result", "report"]


@pytest.mark.parametrize("status", [Status.REVIEWING, Status.WORKING])
def test_a_head_that_moved_after_the_withdrawal_is_reviewed_also_when_it_comes_back(status: Status) -> None:
    play = Play().to_withdrawn()
    if status is Status.WORKING:
        play.ci("failed")
    assert play.pane.status is status
    play.head_moves(B)
    if status is Status.WORKING:
        play.writes("success", pr_number=PR)
        play.inspected(B)
    play.head_moves(A)
    assert kinds(play.ci("passed")) == ["run_review"]


def test_a_head_that_was_seen_to_move_and_came_back_unreported_is_reviewed() -> None:
    play = Play().to_withdrawn()
    play.ci("failed")
    play.head_moves(B)
    assert kinds(play.ci("passed")) == ["take_back_task", "run_review"]


def test_a_persons_approval_looks_for_no_lost_commits_since_no_head_moved() -> None:
    play = Play().to_cap()
    play.head_moves(D)
    assert kinds(play.decides("approve", follow_up=9)) == ["post_review", "write_result", "report"]


def test_a_returned_head_whose_checks_name_another_one_is_reviewed_when_it_comes_back() -> None:
    play = Play().to_withdrawn()
    play.ci("failed")
    play.ci("pending", head=B)
    assert play.pane.granted_head is None


def test_a_request_that_was_closed_and_opened_again_is_reviewed_anew() -> None:
    play = Play().to_withdrawn()
    play.say(PrClosed(pane=1, at=play.now))
    play.decides("retry")
    play.inspected(A)
    assert kinds(play.ci("passed")) == ["run_review"]


def test_ci_of_a_merged_request_is_not_followed() -> None:
    play = Play().to_approved()
    gate = play.pane.gate
    assert gate is not None
    play.say(PrMerged(pane=1, at=play.now))
    assert play.ci("failed", gate_id=gate.gate_id) == []
    assert (play.pane.status, play.pane.ended) == (Status.APPROVED, "merged")


def test_whether_an_approval_was_posted_is_looked_for_after_it_was_withdrawn() -> None:
    """The conductor was killed while it posted: only the forge knows."""
    play = Play().to_review()
    posting = one(play.reviewed(), PostReview)
    play.ci("failed")
    play.ci("failed")
    assert wanted(play.memory.fleet, posting)
    play.say(ReviewPosted(pane=1, at=play.now, review_id=posting.review_id, already=True))
    assert play.pane.review_pass is not None
    assert play.pane.review_pass.stage == "submitted"
    assert kinds(play.ci("passed")) == ["take_back_task", "write_result", "report"]
    assert wanted(play.memory.fleet, posting)


def test_an_approval_that_was_withdrawn_and_not_posted_is_reviewed_anew() -> None:
    play = Play().to_review()
    posting = one(play.reviewed(), PostReview)
    play.ci("failed")
    play.ci("failed")
    play.say(CiLost(pane=1, at=play.now, head=A, state="failed"))
    assert not wanted(play.memory.fleet, posting)
    assert kinds(play.ci("passed")) == ["take_back_task", "run_review"]


@pytest.mark.parametrize("end", [PrMerged, PrClosed])
def test_a_withdrawn_approval_is_not_posted_on_a_request_that_ended(end: type[PrMerged] | type[PrClosed]) -> None:
    play = Play().to_review()
    posting = one(play.reviewed(), PostReview)
    play.ci("failed")
    play.say(end(pane=1, at=play.now))
    assert not wanted(play.memory.fleet, posting)


def test_a_worker_that_claims_the_same_falsehood_again_and_again_is_not_told_without_end() -> None:
    play = Play()
    play.task()
    told = 0
    for _ in range(20):
        told += "send_task" in kinds(play.writes("approved"))
    assert told == NOTICES
    play.writes("success", pr_number=PR)
    play.inspected()
    assert play.pane.notices == 0


def test_a_person_gives_a_task_up_without_being_asked() -> None:
    play = Play()
    play.task()
    play.decides("abandon")
    assert (play.pane.status, play.pane.ended) == (Status.DONE, "abandoned")


def test_an_approval_does_not_outlive_a_push() -> None:
    play = Play().to_review()
    posting, written, report = play.reviewed()
    play.head_moves(B)
    assert (play.pane.status, play.pane.approved_head) == (Status.REVIEWING, None)
    assert not any(wanted(play.memory.fleet, effect) for effect in (posting, written, report))


def test_a_branch_that_moved_back_is_asked_for_ci_again() -> None:
    play = Play().to_approved()
    play.head_moves(B)
    play.head_moves(A)
    assert play.pane.green_head is None
    assert kinds(play.ci("passed")) == ["run_review"]


def test_an_approval_that_waits_for_the_forge_stays_wanted_after_the_next_task() -> None:
    play = Play().to_review()
    posting, written, report = play.reviewed()
    play.task(issue=8)
    assert [wanted(play.memory.fleet, effect) for effect in (posting, written, report)] == [True, False, False]


# --- the pull request's end ---


def test_a_merge_ends_an_approved_pane_as_approved_and_another_as_done() -> None:
    play = Play().to_approved()
    assert "merged" in one(play.say(PrMerged(pane=1, at=play.now)), Report).message
    assert play.pane.status is Status.APPROVED
    play = Play().to_pending()
    task = play.pane.task
    play.say(PrMerged(pane=1, at=play.now))
    assert play.pane.status is Status.DONE
    assert task is not None
    assert task.open
    assert play.pane.task is not None
    assert not play.pane.task.open


@pytest.mark.parametrize("end", [PrMerged, PrClosed])
def test_a_pane_without_a_request_is_not_ended_by_one(end: type[PrMerged] | type[PrClosed]) -> None:
    play = Play()
    play.task()
    assert play.say(end(pane=1, at=play.now)) == []
    assert play.pane.status is Status.WORKING


def test_a_close_is_told_and_a_retry_looks_again() -> None:
    play = Play().to_review()
    play.say(PrClosed(pane=1, at=play.now))
    assert (play.pane.status, play.reason) == (Status.DONE, "pr_closed")
    assert kinds(play.decides("retry")) == ["inspect_pr"]
    play.inspected()
    assert (play.pane.status, play.reason) == (Status.REVIEWING, None)


# --- a worker's claims ---


def test_a_result_of_another_issue_or_task_goes_to_quarantine() -> None:
    play = Play()
    play.task(issue=7)
    assert play.pane.task is not None
    nonce = play.pane.task.nonce
    for fields in ({"issue": 8}, {"nonce": "old"}):
        assert kinds(play.writes("success", pr_number=PR, **fields)) == ["quarantine_result"]
        assert play.pane.status is Status.WORKING
    assert kinds(play.writes("success", pr_number=PR, issue="#7", nonce=nonce)) == ["inspect_pr"]


@pytest.mark.parametrize("word", ["approved", "review_pending"])
def test_a_worker_grants_nothing(word: str) -> None:
    play = Play().to_gate()
    before = play.pane.status
    task = one(play.writes(word), SendTask)
    assert "Only the conductor grants that" in task.text
    assert (play.pane.status, play.pane.approved_head) == (before, None)


def test_a_notice_is_told_once_for_each_writing_of_the_file() -> None:
    play = Play()
    play.task()
    assert kinds(play.writes_badly(stamp="one")) == ["report", "send_task"]
    assert play.writes_badly(stamp="one") == []
    assert kinds(play.writes_badly(stamp="two")) == ["send_task"]  # the person knows this problem already


def test_a_notice_keeps_the_task_and_its_nonce() -> None:
    body = "Do this.\n\n## How to finish\n\nNot here.\n\n## The task, as before\n\nNor here."
    play = Play()
    first = one(play.task(body=body), SendTask)
    assert play.pane.task is not None
    nonce = play.pane.task.nonce
    for number in range(2):
        text = one(play.writes_badly(f"problem {number}"), SendTask).text
        assert f"problem {number}" in text
        assert f"problem {1 - number}" not in text
        assert "Nor here." in text
        assert text.count("```") % 2 == 0
        assert text.split("## How to finish\n\n1.")[1] == first.text.split("## How to finish\n\n1.")[1]
    assert play.pane.task.nonce == nonce


def test_nothing_new_is_not_reviewed_again() -> None:
    play = Play().to_addressed()
    task = one(play.inspected(A), SendTask)
    assert "Nothing changed since the review" in task.text
    assert play.pane.status is Status.REVIEW_PENDING


def test_an_answer_to_another_cycle_is_ignored() -> None:
    play = Play().to_pending()
    assert play.writes("review_addressed", review_cycle=2) == []
    assert play.rule == "result that does not fit"
    assert play.pane.status is Status.REVIEW_PENDING


def test_lost_commits_of_somebody_else_are_kept_and_a_person_lets_them_go() -> None:
    play = Play().to_addressed()
    lost = history(A, B, "rewritten", ("1234567 fix by a colleague",))
    backup, report = play.inspected(B, history=lost)
    assert (backup.kind, backup.head, backup.name) == ("keep_backup", A, f"pr-42-{A[:12]}")  # type: ignore[union-attr]
    assert "1234567 fix by a colleague" in one([report], Report).message
    assert (play.pane.status, play.reason) == (Status.REVIEW_ADDRESSED, "foreign_commits_lost")
    assert kinds(play.decides("retry")) == ["inspect_pr"]
    play.inspected(B, history=lost)
    assert (play.pane.status, play.reason) == (Status.REVIEWING, None)


def test_lost_commits_that_came_back_need_no_decision_any_more() -> None:
    play = Play().to_addressed()
    play.inspected(B, history=history(A, B, "rewritten", ("theirs",)))
    play.writes("review_addressed", review_cycle=1)
    play.inspected(C, history=history(A, C))
    assert (play.pane.status, play.reason) == (Status.REVIEWING, None)


def test_commits_are_compared_after_a_ci_return_before_any_review_too() -> None:
    play = Play().to_gate()
    play.ci("failed")
    (inspect,) = play.writes("success", pr_number=PR)
    assert inspect.old_head == A  # type: ignore[union-attr]
    (other,) = play.writes("success", pr_number=PR + 1)
    assert other.old_head is None  # type: ignore[union-attr]


def test_a_refused_push_asks_a_person_and_retry_gives_the_task_again() -> None:
    play = Play().to_pending()
    report = one(play.writes("failure", error="stale info", reason="lease_rejected"), Report)
    assert "nothing was overwritten: stale info" in report.message
    assert (play.pane.status, play.reason) == (Status.REVIEW_PENDING, "lease_rejected")
    old = play.pane.task
    assert kinds(play.decides("retry")) == ["send_task"]
    assert old is not None
    assert play.pane.task is not None
    assert play.pane.task.task_id != old.task_id
    assert play.pane.task.nonce == old.nonce


def test_a_forge_that_lags_is_asked_again_when_it_is_back() -> None:
    play = Play()
    play.task()
    play.writes("success", pr_number=PR)
    play.inspected(A, remote_head=B, worktree_head=B)
    assert play.reason == "forge_unavailable"
    assert kinds(play.say(ForgeBack(pane=1, at=play.now))) == ["inspect_pr"]


def test_a_claim_without_a_base_is_no_error() -> None:
    play = Play()
    play.task()
    play.writes("success", pr_number=PR)
    play.inspected(A, base=None)
    assert play.pane.status is Status.REVIEWING


# --- a person's decisions, for every attention reason ---


def _cycle_cap(play: Play) -> None:
    play.to_cap()


def _ci_failed_cap(play: Play) -> None:
    play.to_gate()
    for head in (B, C, D):
        play.ci("failed")
        play.writes("success", pr_number=PR)
        play.inspected(head)
    play.ci("failed")


def _ci_timeout(play: Play) -> None:
    play.to_gate()
    play.ci_budget_spent()


def _invalid_result(play: Play) -> None:
    play.task()
    play.writes_badly()


def _pane_dead(play: Play) -> None:
    play.task()
    play.say(PaneDied(pane=1, at=play.now, detail="status 1"))


def _unresponsive(play: Play) -> None:
    play.task()
    assert play.pane.task is not None
    play.say(TaskStranded(pane=1, at=play.now, task_id=play.pane.task.task_id, reason="a draft stood there"))


def _lease_rejected(play: Play) -> None:
    play.to_pending()
    play.writes("failure", reason="lease_rejected")


def _foreign(play: Play) -> None:
    play.to_addressed()
    play.inspected(B, history=history(lost=("theirs",)))


def _forge_unavailable(play: Play) -> None:
    play.task()
    play.writes("success", pr_number=PR)
    play.say(ForgeFailed(pane=1, at=play.now, reason="timeout"))


def _review_failed(play: Play) -> None:
    play.to_review()
    play.review_fails()


def _pr_closed(play: Play) -> None:
    play.to_review()
    play.say(PrClosed(pane=1, at=play.now))


REASONS = {
    "cycle_cap": (_cycle_cap, ["report"], ["send_task"]),
    "ci_failed_cap": (_ci_failed_cap, [], ["send_task"]),
    "ci_timeout": (_ci_timeout, [], ["report"]),
    "invalid_result": (_invalid_result, ["send_task"], ["report"]),
    "pane_dead": (_pane_dead, ["send_task"], ["report"]),
    "unresponsive": (_unresponsive, ["send_task"], ["report"]),
    "lease_rejected": (_lease_rejected, ["send_task"], ["report"]),
    "foreign_commits_lost": (_foreign, ["inspect_pr"], ["report"]),
    "forge_unavailable": (_forge_unavailable, ["inspect_pr"], ["report"]),
    "review_failed": (_review_failed, ["run_review"], ["report"]),
    "pr_closed": (_pr_closed, ["inspect_pr"], ["report"]),
}
"""reason: how it comes about, the effects of ``retry``, those of ``another-cycle``."""


def _asking(reason: str) -> Play:
    play = Play()
    REASONS[reason][0](play)
    assert play.reason == reason
    return play


def test_every_reason_is_tried() -> None:
    from schemas.pane import AttentionReason

    assert sorted(REASONS) == sorted(AttentionReason)


@pytest.mark.parametrize("reason", REASONS)
def test_retry(reason: str) -> None:
    play = _asking(reason)
    assert kinds(play.decides("retry")) == REASONS[reason][1]
    assert play.reason == ("cycle_cap" if reason == "cycle_cap" else None)


@pytest.mark.parametrize("reason", REASONS)
def test_another_cycle(reason: str) -> None:
    play = _asking(reason)
    effects = play.decides("another-cycle")
    assert kinds(effects) == REASONS[reason][2]
    helps = reason in ("cycle_cap", "ci_failed_cap")
    assert play.reason == (None if helps else reason)


@pytest.mark.parametrize("reason", REASONS)
def test_abandon(reason: str) -> None:
    play = _asking(reason)
    assert kinds(play.decides("abandon", why="no use")) == ["report"]
    assert (play.pane.status, play.reason) == (Status.DONE, None)
    assert play.pane.task is None or not play.pane.task.open
    assert not any(
        wanted(play.memory.fleet, held.effect)
        for held in play.memory.outstanding.values()
        if held.effect.kind in ("send_task", "run_review", "inspect_pr")
    )


@pytest.mark.parametrize("reason", REASONS)
def test_approve(reason: str) -> None:
    play = _asking(reason)
    effects = play.decides("approve", follow_up=9)
    granted = reason == "cycle_cap"
    assert kinds(effects) == (["post_review", "write_result", "report"] if granted else ["report"])
    assert (play.pane.status is Status.APPROVED) == granted


def test_a_person_never_approves_a_critical_finding_away() -> None:
    play = Play().to_cap(finding("critical"))
    assert "never deferred" in one(play.decides("approve", follow_up=9), Report).message
    assert (play.pane.status, play.reason) == (Status.REVIEW_PENDING, "cycle_cap")


@pytest.mark.parametrize(("why", "follow_up"), [("", 9), ("  ", 9), ("later", None)])
def test_a_high_finding_is_deferred_only_with_a_reason_and_an_issue(why: str, follow_up: int | None) -> None:
    play = Play().to_cap(finding("high"))
    assert "high findings are open" in one(play.decides("approve", why=why, follow_up=follow_up), Report).message
    assert play.pane.status is Status.REVIEW_PENDING
    posting = one(play.decides("approve", why="after the release", follow_up=9), PostReview)
    assert "deferred to #9: after the release" in posting.body


def test_a_person_approves_the_head_that_is_there() -> None:
    play = Play().to_cap()
    play.say(PrClosed(pane=1, at=play.now))
    play.decides("retry")
    play.inspected(D)
    assert "not green" not in (play.reason or "")
    play.ci("passed")
    assert (play.pane.status, play.reason) == (Status.REVIEWING, "cycle_cap")
    posting = one(play.decides("approve", follow_up=9), PostReview)
    assert (posting.head, play.pane.approved_head) == (D, D)


def test_another_cycle_at_the_cap_gives_one_more_review() -> None:
    play = Play().to_cap()
    assert one(play.decides("another-cycle"), SendTask).task == "fix"
    play.answers(A)
    assert kinds(play.ci("passed")) == ["run_review"]
    play.reviewed(finding())
    assert (play.pane.review_cycle, play.reason) == (4, "cycle_cap")


def test_another_cycle_while_ci_is_not_decided_lets_the_gate_go_on() -> None:
    play = Play().to_cap()
    play.say(PrClosed(pane=1, at=play.now))
    play.decides("retry")
    play.inspected(D)
    play.ci("passed")
    play.head_moves(A)
    assert play.decides("another-cycle") == []
    assert play.pane.status is Status.REVIEWING
    assert kinds(play.ci("passed")) == ["run_review"]


def test_a_decision_is_taken_once() -> None:
    play = Play().to_cap()
    play.decides("another-cycle", request="r1")
    assert play.decides("another-cycle", request="r1") == []
    assert play.rule == "request taken already"
    assert play.pane.extra_cycles == 1


def test_retry_starts_an_agent_that_is_gone_whatever_the_attention_says() -> None:
    play = Play()
    play.task()
    play.say(PaneDied(pane=1, at=play.now, detail="x"))
    play.say(AgentSeen(pane=1, at=play.now, state="gone"))
    play.decides("retry")
    play.writes_badly()
    assert one(play.decides("retry"), SendTask).start


# --- tasks and panes ---


def test_a_task_is_refused_where_the_pane_has_one() -> None:
    play = Play()
    play.task()
    before = play.pane
    assert "still has a task" in one(play.task(title="Another"), Report).message
    assert play.pane.task == before.task


def test_a_new_pane_gets_the_open_task_again_and_an_answered_one_not() -> None:
    play = Play()
    play.task()
    task = one(play.say(PaneBound(pane=1, at=play.now, pane_id="%7", fresh=True)), SendTask)
    assert task.start
    assert play.pane.task is not None
    assert play.pane.task.task_id == task.task_id
    play = Play().to_gate()
    assert kinds(play.say(PaneBound(pane=1, at=play.now, pane_id="%7", fresh=True))) == ["start_agent"]


def test_deliveries_are_noted_and_a_stranded_one_is_told_until_it_is_delivered() -> None:
    play = Play()
    play.task()
    assert play.pane.task is not None
    task = play.pane.task.task_id
    play.say(TaskQueued(pane=1, at=play.now, task_id=task, reason="busy"))
    before = play.pane
    play.say(TaskQueued(pane=1, at=play.now, task_id=task, reason="busy"))
    assert play.pane is before
    play.say(TaskStranded(pane=1, at=play.now, task_id=task, reason="a draft", screen="> draft"))
    assert play.reason == "unresponsive"
    play.say(TaskDelivered(pane=1, at=play.now, task_id=task, evidence="hook"))
    assert play.reason is None


def test_a_forge_that_words_each_failure_differently_is_reported_once() -> None:
    play = Play().to_gate()
    assert kinds(play.say(ForgeFailed(pane=1, at=play.now, reason="request 1"))) == ["report"]
    assert play.say(ForgeFailed(pane=1, at=play.now, reason="request 2")) == []


def test_a_forge_that_is_back_does_not_hide_a_dead_pane() -> None:
    play = Play().to_gate()
    play.say(PaneDied(pane=1, at=play.now, detail="x"))
    play.say(ForgeFailed(pane=1, at=play.now, reason="x"))
    play.say(ForgeBack(pane=1, at=play.now))
    assert play.reason == "pane_dead"


@pytest.mark.parametrize(("outcome", "settled"), [("done", True), ("dropped", True), ("failed", False)])
def test_what_a_failed_effect_raised_is_settled_once_it_is_done(outcome: Any, settled: bool) -> None:
    play = Play().to_pending()
    play.say(EffectFailed(pane=1, at=play.now, effect="write_result", reason="disk full"))
    assert play.reason == "review_failed"
    for effect in ("post_review", "write_result"):
        assert play.reason == "review_failed"
        play.memory.take(
            ResultLine(
                seq=play.memory.last_seq + 1, at=play.now, host="h", key="x", effect=effect, pane=1, outcome=outcome
            )
        )
    assert (play.reason is None) == settled


def test_a_posted_review_settles_a_forge_that_failed() -> None:
    play = Play().to_pending()
    play.say(ForgeFailed(pane=1, at=play.now, reason="x"))
    play.say(ReviewPosted(pane=1, at=play.now, review_id="r"))
    assert play.reason is None


def test_a_raised_cap_of_the_policy_lets_the_gate_review() -> None:
    play = Play(CyclePolicy(max_cycles=1)).to_cap()
    play.say(PrClosed(pane=1, at=play.now))
    play.decides("retry")
    play.inspected(B)
    play.ci("passed")
    assert play.reason == "cycle_cap"
    play.say(PolicySet(pane=0, at=play.now, policy=CyclePolicy(max_cycles=3)))
    assert kinds(play.ci("passed")) == ["run_review"]
    assert play.reason is None


def test_another_question_after_a_question_is_told() -> None:
    play = Play()
    play.task()
    first = AgentSeen(pane=1, at=play.now, state="permission", detail="Run `rm x`?")
    assert kinds(play.say(first)) == ["report"]
    assert play.say(first) == []
    assert kinds(play.say(first.model_copy(update={"detail": "Run `rm y`?"}))) == ["report"]
    assert play.pane.attention is not None
    assert "rm y" in play.pane.attention.message


def test_a_task_that_arrived_does_not_hide_that_the_agent_asks_or_failed() -> None:
    play = Play()
    (sent,) = [effect for effect in play.task() if isinstance(effect, SendTask)]
    play.say(AgentSeen(pane=1, at=play.now, state="error", detail="not logged in"))
    play.say(TaskDelivered(pane=1, at=play.now, task_id=sent.task_id, evidence="its hook recorded it"))
    assert play.reason == "unresponsive"
    play.say(AgentSeen(pane=1, at=play.now, state="busy"))
    assert play.reason is None


def test_a_task_that_stranded_at_a_limit_is_sent_again_when_that_is_over() -> None:
    play = Play()
    _unresponsive(play)
    assert kinds(play.say(LimitOver(pane=1, at=play.now))) == ["send_task"]
    assert play.reason is None


def test_a_dead_agent_is_not_taken_for_alive_because_its_terminal_is() -> None:
    play = Play()
    _pane_dead(play)
    play.say(PaneBound(pane=1, at=play.now, pane_id="%1", fresh=False))
    assert play.reason == "pane_dead"
    play.say(PaneBound(pane=1, at=play.now, pane_id="%2", fresh=True))
    assert play.reason is None


@pytest.mark.parametrize(
    ("state", "settled"), [("idle", True), ("busy", True), ("permission", False), ("error", False)]
)
def test_a_pane_that_was_taken_for_dead_is_well_again_once_its_agent_is_seen(state: Any, settled: bool) -> None:
    play = Play().to_gate()
    play.say(PaneDied(pane=1, at=play.now, detail="how is not known"))
    assert play.reason == "pane_dead"
    play.say(AgentSeen(pane=1, at=play.now, state=state))
    assert (play.reason is None) is settled


def test_a_task_that_did_not_arrive_stays_a_persons_matter_when_a_pane_taken_for_dead_is_well_again() -> None:
    play = Play()
    task = one(play.task(), SendTask)
    play.say(TaskStranded(pane=1, at=play.now, task_id=task.task_id, reason="a dialog", screen=""))
    play.say(PaneDied(pane=1, at=play.now, detail="how is not known"))
    assert play.reason == "pane_dead"
    report = one(play.say(AgentSeen(pane=1, at=play.now, state="idle")), Report)
    assert play.reason == "unresponsive"
    assert task.task_id in report.message
    assert kinds(play.decides("retry")) == ["send_task"]


def test_ci_that_failed_for_good_is_watched_on_and_a_green_run_answers_it() -> None:
    play = Play()
    _ci_failed_cap(play)
    assert play.reason == "ci_failed_cap"
    (watch,) = ci_watches(play.memory.fleet)
    assert watch.deadline is None
    assert play.ci("pending") == []
    assert play.reason == "ci_failed_cap"
    assert kinds(play.ci("passed")) == ["run_review"]
    assert play.reason is None


def test_an_approved_head_whose_ci_failed_for_good_is_approved_again_once_it_is_green() -> None:
    play = Play(CyclePolicy(ci_returns_cap=1)).to_review()
    play.reviewed()
    for state in ("failed", "failed", "passed", "failed", "failed"):
        play.ci(state)
    assert play.reason == "ci_failed_cap"
    assert len(ci_watches(play.memory.fleet)) == 1
    effects = play.ci("passed")
    assert not {"run_review", "post_review"} & set(kinds(effects))
    assert (play.pane.status, play.reason) == (Status.APPROVED, None)


def test_a_spent_budget_ends_the_watch() -> None:
    play = Play()
    _ci_timeout(play)
    assert ci_watches(play.memory.fleet) == ()


def test_a_task_for_an_agent_that_ended_while_nothing_was_asked_of_it_wants_a_person() -> None:
    play = Play().to_review()
    play.reviewed()
    play.say(PaneDied(pane=1, at=play.now, detail="status 0"))
    assert (play.pane.status, play.reason) == (Status.APPROVED, None)
    play.ci("failed")
    task = one(play.ci("failed"), SendTask)
    play.say(TaskQueued(pane=1, at=play.now, task_id=task.task_id, reason="the pane is not there any more"))
    assert play.reason == "pane_dead"
