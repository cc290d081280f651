"""From what a forge answers to the snapshots of both loops."""

from __future__ import annotations

from typing import Any

from conductor.core.loops import follow_up_loop, reviewer_loop
from conductor.core.loops.ci import Credit, Outcome, Signal
from conductor.core.loops.facts import PullFacts, ReviewFact, ThreadFact, follow_up_snapshot, reviewer_snapshot

HEAD, OLD = "a" * 40, "b" * 40
BOT = "review-bot"
PULL = PullFacts(3, HEAD, draft=False, merged=False, closed=False, mine="me")
GREEN = (Signal(HEAD, Outcome.SUCCESS),)


def reviewer_state(facts: PullFacts | None, **more: Any) -> str:
    return reviewer_loop.interpret(reviewer_snapshot(facts, **more)).state.value


def follow_up_state(facts: PullFacts | None, **more: Any) -> str:
    return follow_up_loop.interpret(follow_up_snapshot(facts, bot=BOT, **more)).state.value


def test_without_a_pull_request() -> None:
    assert reviewer_state(None) == "waiting_for_review_request"
    assert follow_up_state(None) == "no_pr"


def test_one_requested_reviewer_is_the_one_that_is_meant() -> None:
    snapshot = reviewer_snapshot(PULL._replace(requested=("Ann",)))
    assert (snapshot.reviewer_login, snapshot.review_requested) == ("ann", True)
    everybody = reviewer_snapshot(PULL._replace(requested=("ann", "ben")))
    assert (everybody.reviewer_scope, everybody.review_requested) == ("all_reviewers", True)
    other = reviewer_snapshot(PULL._replace(requested=("ann",)), login="Ben")
    assert (other.reviewer_login, other.review_requested) == ("ben", False)


def test_only_the_meant_reviewers_review_counts() -> None:
    facts = PULL._replace(requested=("ann",), reviews=(ReviewFact(1, "ben", "APPROVED", HEAD),))
    assert reviewer_state(facts) == "review_requested"
    assert reviewer_state(facts, login="ben") == "submitted_review"


def test_the_pending_review_on_the_forge_outweighs_what_is_recorded() -> None:
    local = {"draftReviewPosted": True, "draftReviewId": 1, "draftReviewNotificationStatus": "notified"}
    assert reviewer_state(PULL, local={**local, "localMergeStatus": "ready"}) == "draft_review_ready"
    mine = ReviewFact(1, "Me", "PENDING", HEAD)
    assert reviewer_state(PULL._replace(reviews=(mine,)), local=local) == "waiting_for_user_submit"
    assert reviewer_state(PULL._replace(reviews=(mine._replace(id=2),)), local=local) == "draft_review_posted"
    assert reviewer_state(PULL._replace(reviews=(mine._replace(commit=OLD),)), local=local) == "review_invalidated"


def test_a_pass_that_runs_is_seen_in_what_it_recorded_and_nothing_else_of_it_is_read() -> None:
    local = {"localReviewRunsStatus": "running", "prMerged": True, "submittedReviewPresent": True}
    assert reviewer_state(PULL, local=local) == "reviews_running"


def test_a_new_head_asked_again_starts_a_new_pass() -> None:
    facts = PULL._replace(requested=("ann",), reviews=(ReviewFact(1, "ann", "changes_requested", OLD),))
    assert reviewer_state(facts) == "review_requested"
    assert reviewer_state(facts, requested=False) == "submitted_review"


def test_rounds_threads_and_ci_of_this_head() -> None:
    reviews = (
        ReviewFact(1, BOT, "COMMENTED", OLD),
        ReviewFact(2, BOT, "COMMENTED", HEAD),
        ReviewFact(3, "x", "A", HEAD),
    )
    threads = (
        ThreadFact(True, True, 2, "mid"),
        ThreadFact(True, True, 1, "high"),
        ThreadFact(False, True),
        ThreadFact(False, False),
    )
    snapshot = follow_up_snapshot(PULL._replace(reviews=reviews, threads=threads, signals=GREEN), bot=BOT.upper())
    assert snapshot.copilot_review_round_count == 2
    assert snapshot.copilot_review_on_current_head is True
    assert (snapshot.unresolved_thread_count, snapshot.actionable_thread_count) == (2, 1)
    assert snapshot.last_copilot_round_max_signal == "mid"
    assert snapshot.ci_status == "success"


def test_the_follow_up_goes_from_request_to_convergence() -> None:
    ready = PULL._replace(signals=GREEN)
    assert follow_up_state(PULL) == "waiting_for_ci"
    assert follow_up_state(ready) == "pr_ready_no_feedback"
    assert follow_up_state(ready._replace(requested=(BOT,))) == "waiting_for_copilot_review"
    assert follow_up_state(ready, request_status="unavailable") == "review_request_unavailable"
    reviewed = ready._replace(reviews=(ReviewFact(1, BOT, "COMMENTED", HEAD),), threads=(ThreadFact(False, True, 1),))
    assert follow_up_state(reviewed) == "unresolved_feedback_present"
    assert follow_up_state(reviewed, fix_applied=True) == "already_fixed_needs_reply_resolve"
    assert follow_up_state(reviewed._replace(threads=(ThreadFact(True, True, 1),))) == "ready_to_rerequest_review"


def test_a_validated_head_without_any_suite_is_credibly_green() -> None:
    credit = Credit(suites=0, previous_green=True, validated_head=HEAD)
    assert follow_up_state(PULL, credit=credit) == "pr_ready_no_feedback"
    assert follow_up_state(PULL._replace(head=OLD), credit=credit) == "waiting_for_ci"
