"""Facts of a forge into snapshots: whose word counts, which pass a review belongs to, what a signal weighs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conductor.core.loops.facts import FollowUpFacts, ReviewerFacts, follow_up_snapshot, reviewer_snapshot
from conductor.core.loops.staging import marker, on_the_diff, parse_marker
from schemas.forge import Checks, CheckState, PendingReview, PullRequest, SubmittedReview, Thread, ThreadComment
from schemas.loops.local_state import FIELDS, LocalState, read_local_state, write_local_state
from schemas.loops.review import MergedReview, Remark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEAD, OLD = "a" * 40, "b" * 40
PULL = PullRequest(
    number=7, title="T", author="wilma", state="open", head_branch="f", head=HEAD, base_branch="main", base=OLD,
    created_at=NOW, updated_at=NOW,
)  # fmt: skip


def review(author: str = "fred", commit: str = HEAD, minutes: int = 0, **more: Any) -> SubmittedReview:
    made = {"id": f"{author}{minutes}", "author": author, "state": "commented", "commit": commit}
    return SubmittedReview(**{**made, "at": NOW + timedelta(minutes=minutes), **more})


def pending(**more: Any) -> PendingReview:
    return PendingReview(**{"id": "5", "author": "fred", "commit": HEAD} | more)


def _thread(name: str, of: str, word: str) -> Thread:
    said = ThreadComment(author="bot", body=word, at=NOW)
    return Thread(id=name, path="p", commit=HEAD, review=of, comments=(said,))


def test_another_reviewer_s_draft_is_known_from_the_local_state_alone() -> None:
    local = LocalState(head_sha=HEAD, draft_review_posted=True, draft_review_id=9, draft_review_commit_sha=HEAD)
    ours = reviewer_snapshot(ReviewerFacts(PULL, "fred", local=local, login="fred"))
    theirs = reviewer_snapshot(ReviewerFacts(PULL, "wilma", local=local, login="fred"))
    assert (ours.draft_review_posted, theirs.draft_review_posted) == (False, True)
    seen = reviewer_snapshot(ReviewerFacts(PULL, "fred", pending=pending(commit=OLD), local=local))
    assert (seen.draft_review_id, seen.draft_review_commit_sha) == (5, OLD)
    unseen = reviewer_snapshot(ReviewerFacts(PULL, "fred", pending=pending(), login="other"))
    assert not unseen.draft_review_posted


def test_the_author_s_own_comments_are_no_review_unless_we_staged_them() -> None:
    plain, ours = review("wilma"), review("wilma", body="x\n<!-- taskmaestro: review=r head=aaaaaaa cycle=1 -->")
    assert not reviewer_snapshot(ReviewerFacts(PULL, "x", submitted=[plain])).submitted_review_present
    assert reviewer_snapshot(ReviewerFacts(PULL, "x", submitted=[ours])).submitted_review_present


def test_reviews_from_before_a_pass_began_belong_to_an_earlier_one() -> None:
    began = LocalState(head_sha=HEAD, local_review_runs_status="running", pass_started_at=NOW.isoformat())
    before, after = review(minutes=-5), review(minutes=5)
    assert not reviewer_snapshot(ReviewerFacts(PULL, "x", submitted=[before], local=began)).submitted_review_present
    assert reviewer_snapshot(ReviewerFacts(PULL, "x", submitted=[before, after], local=began)).submitted_review_present
    other = began._replace(head_sha=OLD)
    assert reviewer_snapshot(ReviewerFacts(PULL, "x", submitted=[before], local=other)).submitted_review_present


@pytest.mark.parametrize(
    ("words", "state", "signal"),
    [
        (["**high**: x", "low: y"], "commented", "high"),
        (["[medium] x"], "commented", "mid"),
        (["what is this?"], "commented", "mid"),
        (["nit: x"], "commented", "low"),
        ([], "commented", "low"),
        (["nit: x"], "changes_requested", "high"),
    ],
)
def test_a_round_weighs_as_its_weightiest_remark(words: list[str], state: Any, signal: str) -> None:
    said = review("bot", state=state)
    threads = [_thread(str(number), said.id, word) for number, word in enumerate(words)]
    facts = FollowUpFacts(PULL, ["BOT"], submitted=[said], threads=threads)
    snapshot = follow_up_snapshot(facts)
    assert snapshot.last_copilot_round_max_signal == signal
    assert snapshot.unresolved_thread_count == len(words)


def test_checks_of_another_head_count_for_nothing() -> None:
    green = Checks(head=OLD, state=CheckState.PASSED)
    assert follow_up_snapshot(FollowUpFacts(PULL, checks=green)).ci_status == "none"
    assert (
        follow_up_snapshot(FollowUpFacts(PULL, checks=green.model_copy(update={"head": HEAD}))).ci_status == "success"
    )


def test_the_fields_of_a_local_state_are_its_attributes_in_their_order() -> None:
    assert len(FIELDS) == len(LocalState._fields)
    for field, name in zip(FIELDS, LocalState._fields, strict=True):
        assert field.name.lower() == name.replace("_", "")
    written = write_local_state(LocalState(pr_number=3, draft_review_posted=True, angles=["tests"]))
    assert write_local_state(read_local_state(written)) == written
    assert write_local_state(LocalState()) == write_local_state(read_local_state({}))


def test_a_marker_is_read_back_and_no_other_line_is_one() -> None:
    text = marker("0123456789abcdef", HEAD, "APPROVE")
    assert parse_marker(text) == (HEAD, "APPROVE")
    for other in (f"x {text}", text + "x", text.replace("APPROVE", "MERGE"), ""):
        assert parse_marker(other) is None


def test_remarks_off_the_diff_go_into_the_summary() -> None:
    on, off = Remark("a.py", 2, "on", "high", None), Remark("a.py", 9, "off", "low", None)
    moved = on_the_diff(MergedReview(HEAD, "COMMENT", (on, off), (), 2, 1), {"a.py": frozenset({1, 2})})
    assert moved.inline_comments == (on,)
    assert [one.message for one in moved.summary_findings] == ["line 9: off"]
