"""A change whose answer is lost is looked for before it is tried again, so that nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import Unavailable
from schemas.forge import DraftComment
from schemas.review import Verdict
from tests.forge.github_stage import NAME, GithubStages, github_stages
from tests.github import faults, schema
from tests.github.faults import Fault

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)

MARKER = "<!-- taskmaestro review r-1 -->"


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[GithubStages]:
    with github_stages(tmp_path) as stages:
        yield stages


# --- changes whose answer is lost ---

LOST = {
    "truncated": faults.truncated(),
    "dropped after": faults.dropped_after(),
    "dropped before": faults.dropped_before(),
    "502": faults.bad_gateway(),
    "502 after": faults.bad_gateway(after=True),
}
lost = pytest.mark.parametrize("fault", LOST.values(), ids=LOST.keys())


def _lost(fault: Fault, operation: str) -> Fault:
    return Fault(**{**fault.to_json(), "operation": operation})


@lost
@pytest.mark.parametrize("marker", ["", "<!-- c -->"])
def test_a_comment_is_posted_once(make_stage: GithubStages, fault: Fault, marker: str) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.fault(_lost(fault, "addComment"))
    posted = stage.forge.comment(number, "text", marker=marker)
    (only,) = stage.forge.comments(number)
    assert (only.id, posted.already) == (posted.id, False)


@lost
def test_a_review_a_staged_one_its_submission_a_reply_and_a_resolution_are_made_once(
    make_stage: GithubStages, fault: Fault
) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    number, forge = opened.number, stage.forge
    stage.github.fault(_lost(fault, "addPullRequestReview"))
    review = forge.post_review(number, body="b", verdict=Verdict.CHANGES, head=opened.head, marker="")
    assert [one.id for one in forge.submitted_reviews(number)] == [review.id]
    stage.github.fault(_lost(fault, "addPullRequestReview"))
    remark = DraftComment(path="feature.txt", line=1, body="Why?")
    staged = forge.stage_review(number, commit=opened.head, body="b", marker=MARKER, comments=[remark])
    assert (staged.already, staged.comments) == (False, 1)
    pending = forge.pending_review(number)
    assert pending is not None
    assert pending.id == staged.id
    stage.github.fault(_lost(fault, "submitPullRequestReview"))
    assert not forge.submit_review(number, staged.id, verdict=Verdict.CHANGES).already
    assert len(forge.submitted_reviews(number)) == 2
    (thread,) = forge.threads(number)
    stage.github.fault(_lost(fault, "addPullRequestReviewThreadReply"))
    forge.reply(number, thread.id, "Because.")
    stage.github.fault(_lost(fault, "resolveReviewThread"))
    forge.resolve(number, thread.id)
    (thread,) = forge.threads(number)
    assert [one.body for one in thread.comments] == ["Why?", "Because."]
    assert thread.resolved
    assert len(stage.github.pull(NAME, number).reviews) == 3  # a reply is a review of its own


@lost
def test_pull_requests_and_issues_are_made_and_turned_once(make_stage: GithubStages, fault: Fault) -> None:
    stage = make_stage()
    forge = stage.forge
    stage.github.fault(_lost(fault, "createPullRequest"))
    opened = stage.open("feature", draft=True)
    assert [one.number for one in forge.pull_requests()] == [opened.number]
    stage.github.fault(_lost(fault, "markPullRequestReadyForReview"))
    assert not forge.mark_ready(opened.number).draft
    stage.github.fault(_lost(fault, "closePullRequest"))
    assert forge.close_pull_request(opened.number).state == "closed"
    stage.github.fault(_lost(fault, "reopenPullRequest"))
    assert forge.reopen_pull_request(opened.number).state == "open"
    stage.github.fault(_lost(fault, "createIssue"))
    issue = forge.create_issue("Do it", "text\n")
    assert forge.issues() == [issue]
    stage.github.fault(_lost(fault, "closeIssue"))
    assert forge.close_issue(issue.number).state == "closed"
    stage.github.fault(Fault(**{**fault.to_json(), "path": r"/repos/.*/requested_reviewers"}))
    assert forge.request_review(opened.number, "another")
    assert [one.login for one in forge.requested_reviewers(opened.number)] == ["another"]


@lost
def test_a_pending_review_is_discarded_once(make_stage: GithubStages, fault: Fault) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    staged = stage.forge.stage_review(opened.number, commit=opened.head, body="b", marker=MARKER)
    stage.github.fault(_lost(fault, "deletePullRequestReview"))
    assert stage.forge.discard_review(opened.number, staged.id)
    assert stage.forge.pending_review(opened.number) is None


@pytest.mark.parametrize("after", [False, True])
def test_a_change_that_hung_is_looked_for_before_the_next_try(make_stage: GithubStages, after: bool) -> None:
    stage = make_stage(more={"timeout": 1.0})
    number = stage.open("feature").number
    stage.github.fault(faults.hang(operation="addComment", after=after))
    stage.forge.comment(number, "text")
    assert [one.body for one in stage.forge.comments(number)] == ["text"]


def test_a_change_that_was_made_and_answered_with_an_error_is_found(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.fault(faults.partial(["addComment"], operation="addComment"))
    stage.forge.comment(number, "text")
    assert [one.body for one in stage.forge.comments(number)] == ["text"]


def test_nothing_is_tried_again_while_nobody_can_look(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.fault(faults.dropped_after(operation="addComment"))
    stage.github.fault(faults.bad_gateway(operation="repository", skip=1, count=-1))
    with pytest.raises(Unavailable, match="whether it was done is not known"):
        stage.forge.comment(number, "text")
    assert stage.asked("addComment") == 1
    stage.github.server.faults.clear()
    assert len(stage.forge.comments(number)) == 1


def test_a_change_whose_outcome_stays_unknown_says_so(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.fault(faults.bad_gateway(operation="addComment", count=-1))
    with pytest.raises(Unavailable, match="whether it was done is not known"):
        stage.forge.comment(number, "text")
    assert stage.asked("addComment") == 4
