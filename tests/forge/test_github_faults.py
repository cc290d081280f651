"""What goes wrong between here and GitHub is asked again or told; never taken for an answer, and nothing done twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conductor.ports import HeadMovedError
from schemas.errors import Fault as OurFault
from schemas.errors import NeedsPerson, NotSo, Unavailable
from schemas.forge import CheckState, DraftComment
from schemas.review import Verdict
from tests.forge.github_stage import NAME, GithubStages, github_stages
from tests.github import faults, schema
from tests.github.faults import Fault
from tests.support.repos import git
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)

MARKER = "<!-- taskmaestro review r-1 -->"


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[GithubStages]:
    with github_stages(tmp_path) as stages:
        yield stages


# --- reads ---


@pytest.mark.parametrize(
    "fault",
    [
        faults.bad_gateway(),
        faults.truncated(),
        faults.dropped_before(),
        faults.dropped_after(),
        faults.partial(["repository"]),
        Fault("answer", body="", headers={"Content-Type": "application/json"}),
        Fault("answer", body='{"data": null}'),
        Fault("answer", body='{"data": {"repository": null}, "errors": [{"message": "Something went wrong"}]}'),
        Fault("answer", body="<html>Sign in to the hotel's network</html>"),
        Fault("answer", status=504, body='{"message": "We could not respond to your request in time."}'),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.status}-{fault.body[:12]}",
)
def test_a_spoilt_answer_is_asked_for_again(make_stage: GithubStages, fault: Fault) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    spoilt = stage.github.fault(Fault(**{**fault.to_json(), "count": 2, "happened": 0}))
    assert stage.forge.pull_request(opened.number) == opened
    assert spoilt.happened == 2


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (faults.bad_credentials(count=-1), NeedsPerson, "gh auth login"),
        (faults.bad_gateway(count=-1), Unavailable, "502"),
        (faults.truncated(count=-1), Unavailable, "GitHub"),
        (faults.dropped_before(count=-1), Unavailable, "GitHub"),
        (Fault("answer", count=-1, body='{"data": {"repository": {}}}'), Unavailable, "another shape"),
        (
            Fault("answer", count=-1, body='{"data": {"repository": {"p1": {"number": 1}}, "rateLimit": null}}'),
            Unavailable,
            "another shape",
        ),
        (
            Fault("answer", count=-1, body='{"data": {"repository": {"p1": {"number": 2}}, "rateLimit": null}}'),
            Unavailable,
            "answered with #2 for #1",
        ),
        (Fault("answer", count=-1, body="[]"), Unavailable, "no object|broke off"),
        (
            Fault(
                "answer",
                count=-1,
                body='{"data": {"repository": null}, "errors": [{"type": "NOT_FOUND", "path": ["repository"], '
                '"message": "Could not resolve to a Repository"}]}',
            ),
            NotSo,
            "has no repository octo/shop",
        ),
        (
            Fault(
                "answer",
                count=-1,
                body='{"data": {"repository": {"p1": null}, "rateLimit": null}, "errors": [{"type": "FORBIDDEN", '
                '"path": ["repository", "p1"], "message": "Resource protected by organization SAML enforcement."}]}',
            ),
            NeedsPerson,
            "single sign-on",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_what_stays_is_told_and_never_nothing(
    make_stage: GithubStages, fault: Fault, kind: type[OurFault], words: str
) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.fault(Fault(**fault.to_json()))
    for ask in (
        lambda: stage.forge.pull_requests([number]),
        lambda: stage.forge.checks([number]),
    ):
        with pytest.raises(kind, match=words) as caught:
            ask()
        assert caught.value.hint


def test_an_absence_among_others_is_left_out_and_another_error_is_not(make_stage: GithubStages) -> None:
    stage = make_stage()
    numbers = [stage.open(f"feature-{n}").number for n in (1, 2)]
    assert [one.number for one in stage.forge.pull_requests([*numbers, 4711])] == numbers
    stage.github.fault(faults.partial(["repository", f"p{numbers[0]}"], count=-1))
    with pytest.raises(Unavailable, match="Something went wrong"):
        stage.forge.pull_requests([*numbers, 4711])


def test_a_hanging_gh_is_ended_with_all_it_started(make_stage: GithubStages) -> None:
    stage = make_stage(more={"timeout": 1.0})
    number = stage.open("feature").number
    stage.github.fault(faults.hang(count=1))
    assert stage.forge.pull_request(number).number == number
    folder = str(stage.github.folder)

    def left() -> list[int]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.name() == "gh" and folder in process.environ().get("GH_CONFIG_DIR", ""):
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    wait_until(lambda: not left(), 10, "gh to end")
    stage.github.fault(faults.hang(count=-1))
    with pytest.raises(Unavailable, match="did not answer within 1 s"):
        stage.forge._api._gh.call("graphql", method="POST", data={"query": "{ viewer { login } }"})


def test_a_server_that_is_not_there_is_unavailable(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.socket.rename(stage.github.socket.with_name("moved"))
    with pytest.raises(Unavailable, match="cannot be reached"):
        stage.forge.pull_requests([number])


def test_a_gh_without_a_login_says_how_to_log_in(make_stage: GithubStages) -> None:
    stage = make_stage()
    (stage.github.config_dir("conductor") / "hosts.yml").unlink()
    with pytest.raises(NeedsPerson, match="not logged in") as caught:
        stage.forge.pull_requests([1])
    assert "gh auth login" in caught.value.hint


# --- limits ---


@pytest.mark.parametrize(
    ("fault", "waited"),
    [(faults.secondary_limit(3), 3.0), (faults.too_many(4), 4.0)],
    ids=["secondary", "429"],
)
def test_a_limit_with_a_short_pause_is_waited_for_and_then_asked_again(
    make_stage: GithubStages, fault: Fault, waited: float
) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    clock = stage.clock()
    stage.github.fault(Fault(**fault.to_json()))
    assert stage.forge.pull_request(number).number == number
    assert clock.pauses == [waited]


@pytest.mark.parametrize("make", [faults.rate_limited, faults.graphql_rate_limited, faults.secondary_limit])
def test_a_long_limit_is_told_with_its_end_and_nobody_asks_before(
    make_stage: GithubStages, make: Callable[..., Fault]
) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.fault(make(600))
    with pytest.raises(Unavailable, match="nothing is asked before"):
        stage.forge.pull_request(number)
    before = len(stage.github.server.requests)
    for ask in (lambda: stage.forge.checks([number]), lambda: stage.forge.comment(number, "text")):
        with pytest.raises(Unavailable, match="rate limit"):
            ask()
    assert len(stage.github.server.requests) == before


def test_the_back_off_is_one_for_all_forges_of_the_process(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    second, other = stage._open("conductor"), stage.acting("worker-1")
    stage.github.fault(faults.too_many(600))
    with pytest.raises(Unavailable):
        stage.forge.pull_request(number)
    with pytest.raises(Unavailable, match="nothing is asked before"):
        second.pull_request(number)
    assert other.pull_request(number).number == number


def test_a_limited_change_is_made_once_when_the_limit_ends(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.clock()
    stage.github.fault(faults.too_many(2, operation="addComment"))
    stage.forge.comment(number, "text")
    assert [one.body for one in stage.forge.comments(number)] == ["text"]


# --- pages ---


def test_every_list_has_all_pages(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    number = opened.number
    for n in range(3):
        remarks = [DraftComment(path="feature.txt", line=1, body=f"remark {n}.{m}") for m in range(2)]
        marker = f"<!-- taskmaestro: draft {n} -->"
        staged = stage.forge.stage_review(number, commit=opened.head, body="b", marker=marker, comments=remarks)
        stage.forge.submit_review(number, staged.id, verdict=Verdict.CHANGES)
    thread = stage.forge.threads(number)[0]
    for n in range(3):
        stage.forge.reply(number, thread.id, f"answer {n}")
    for n in range(5):
        stage.github.put_check(NAME, opened.head, f"check {n}", "SUCCESS")
        stage.forge.create_issue(f"Issue {n}", "")
    stage.open("second")
    stage.open("third")
    read: dict[str, Callable[[], Any]] = {
        "pulls": lambda: [one.number for one in stage.forge.pull_requests()],
        "comments": lambda: [one.body for one in stage.forge.comments(number)],
        "reviews": lambda: [one.id for one in stage.forge.submitted_reviews(number)],
        "threads": lambda: [[c.body for c in one.comments] for one in stage.forge.threads(number)],
        "checks": lambda: sorted(one.name for one in stage.forge.checks([number])[number].checks),
        "issues": lambda: [one.number for one in stage.forge.issues()],
    }
    whole = {name: ask() for name, ask in read.items()}
    assert len(whole["checks"]) == len(whole["issues"]) == 5
    assert len(whole["threads"]) == 6
    assert whole["threads"][0] == ["remark 0.0", "answer 0", "answer 1", "answer 2"]
    stage.github.set_page_cap(2)
    assert {name: ask() for name, ask in read.items()} == whole
    stage.github.fault(faults.next_page_fails())
    for name, ask in read.items():
        with pytest.raises(Unavailable, match="502"):
            print(name, ask())


LISTS: dict[str, str] = {
    "comments": "timelineItems",
    "submitted_reviews": "reviews",
    "pending_review": "reviews",
    "threads": "reviewThreads",
    "requested_reviewers": "reviewRequests",
}


@pytest.mark.parametrize("verb", LISTS)
def test_an_entry_of_another_shape_is_a_fault_and_not_left_out(make_stage: GithubStages, verb: str) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.forge.login()
    page = {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": [{"author": {"login": "conductor"}}]}
    body = {"data": {"repository": {"pullRequest": {LISTS[verb]: page}}}}
    stage.github.fault(Fault("answer", count=-1, body=json.dumps(body)))
    with pytest.raises(Unavailable, match="another shape"):
        getattr(stage.forge, verb)(number)


def test_a_page_without_a_way_to_the_next_is_no_list(make_stage: GithubStages) -> None:
    stage = make_stage()
    info = {"hasNextPage": True, "endCursor": None}
    body = {"data": {"repository": {"issues": {"pageInfo": info, "nodes": []}}}}
    stage.github.fault(Fault("answer", count=-1, body=json.dumps(body)))
    with pytest.raises(Unavailable, match="another page"):
        stage.forge.issues()
    body["data"]["repository"]["issues"] = {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": [None]}
    stage.github.server.faults[:] = [Fault("answer", count=-1, body=json.dumps(body))]
    with pytest.raises(Unavailable, match="lacks some"):
        stage.forge.issues()


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


# --- authority ---


def test_the_remote_wins_over_an_api_that_lags(make_stage: GithubStages) -> None:
    stage = make_stage(grace=60)
    opened = stage.open("feature", author="worker-1", draft=True)
    stage.github.set_head_lag(3600)
    moved = stage.push("feature", "late.txt")
    number = opened.number
    assert stage.forge.pull_request(number).head == moved
    assert [one.head for one in stage.forge.pull_requests()] == [moved]
    checks = stage.forge.checks([number])[number]
    assert (checks.head, checks.state) == (moved, CheckState.NOT_YET)
    assert [one.head for one in stage.forge.pushes(number)] == [opened.head, moved]
    assert "late.txt" in stage.forge.diff(number)
    with pytest.raises(HeadMovedError) as caught:
        stage.forge.post_review(number, body="b", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER)
    assert caught.value.head == moved
    with pytest.raises(Unavailable, match="has not seen the last push"):
        stage.forge.mark_ready(number)


def test_without_the_remote_reads_go_by_the_api_and_nothing_irreversible_is_done(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1", draft=True)
    staged = stage.forge.stage_review(opened.number, commit=opened.head, body="b", marker=MARKER)
    git(stage.root, "config", "core.sshCommand", "false")
    assert stage.forge.pull_request(opened.number).head == opened.head
    for act in (
        lambda: stage.forge.submit_review(opened.number, staged.id, verdict=Verdict.APPROVE),
        lambda: stage.forge.mark_ready(opened.number),
    ):
        with pytest.raises(Unavailable, match="cannot be read"):
            act()
    assert stage.forge.submitted_reviews(opened.number) == []


def test_a_push_by_force_in_the_middle_of_a_review_is_seen(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    number = opened.number
    staged = stage.forge.stage_review(number, commit=opened.head, body="b", marker=MARKER)
    moved = stage.amend("feature", "feature.txt", "other\n")
    with pytest.raises(HeadMovedError) as caught:
        stage.forge.submit_review(number, staged.id, verdict=Verdict.APPROVE)
    assert caught.value.head == moved
    assert [one.head for one in stage.forge.pushes(number)] == [opened.head, moved]
    assert stage.forge.checks_of(number, opened.head).head == opened.head


# --- the other side changes ---


def test_what_was_closed_or_merged_meanwhile_is_not_so(make_stage: GithubStages) -> None:
    stage = make_stage()
    for state in ("CLOSED", "MERGED"):
        opened = stage.open(f"feature-{state}", author="worker-1", draft=True)
        staged = stage.forge.stage_review(opened.number, commit=opened.head, body="b", marker=MARKER)
        stage.github.pull(NAME, opened.number).state = state  # type: ignore[assignment]
        for act in (
            lambda opened=opened: stage.forge.post_review(  # type: ignore[misc]
                opened.number, body="b", verdict=Verdict.APPROVE, head=opened.head, marker=""
            ),
            lambda opened=opened, staged=staged: stage.forge.submit_review(  # type: ignore[misc]
                opened.number, staged.id, verdict=Verdict.APPROVE
            ),
            lambda opened=opened: stage.forge.mark_ready(opened.number),  # type: ignore[misc]
            lambda opened=opened: stage.forge.request_review(opened.number, "another"),  # type: ignore[misc]
        ):
            with pytest.raises(NotSo, match=state.lower()):
                act()


def test_an_archived_repository_takes_nothing_and_says_so(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.repository(NAME).archived = True
    for act in (
        lambda: stage.forge.comment(number, "text"),
        lambda: stage.forge.create_issue("One", ""),
        lambda: stage.forge.close_pull_request(number),
    ):
        with pytest.raises(NotSo, match="archived") as caught:
            act()
        assert "Unarchive" in caught.value.hint


def test_a_repository_that_is_not_there_is_named(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.github.delete(NAME)
    for ask in (
        lambda: stage.forge.pull_requests([number]),
        lambda: stage.forge.pull_requests(),
        lambda: stage.forge.default_branch(),
        lambda: stage.forge.issue(1),
    ):
        with pytest.raises(NotSo, match="octo/shop"):
            ask()


def test_a_pull_request_of_a_fork_outlives_the_fork(make_stage: GithubStages) -> None:
    stage = make_stage()
    stage.github.fork(NAME, "worker-1")
    stage.github.connect(stage.root, "worker-1/shop", login="worker-1", remote="fork")
    git(stage.root, "checkout", "--quiet", "-b", "feature")
    (stage.root / "work.txt").write_text("work\n")
    git(stage.root, "add", "work.txt")
    git(stage.root, "commit", "--quiet", "--message", "Work")
    git(stage.root, "push", "--quiet", "fork", "feature")
    from conductor.forge.github.forge import GithubForge
    from schemas.config import Config, ForgeConfig, GithubForgeConfig

    config = Config(remote="fork", forge=ForgeConfig(kind="github", github=GithubForgeConfig(repository=NAME)))
    theirs = GithubForge.open(config, stage.root, environment=stage.github.environment("worker-1"))
    opened = theirs.create_pull_request(branch="feature", base="main", title="T", body="", draft=False)
    head = git(stage.root, "rev-parse", "feature")
    assert (opened.head, opened.base) == (head, git(stage.root, "rev-parse", "main"))
    assert theirs.pull_request_of_branch("feature") == opened
    assert stage.forge.pull_request_of_branch("feature") is None
    assert stage.forge.pull_request(opened.number).head == head
    stage.github.delete("worker-1/shop")
    found = stage.forge.pull_request(opened.number)
    assert (found.head, found.head_branch) == (head, "feature")
    assert stage.forge.post_review(opened.number, body="b", verdict=Verdict.APPROVE, head=head, marker=MARKER).id
    assert "work.txt" in stage.forge.diff(opened.number)


def test_a_reply_beside_a_pending_review_is_refused_instead_of_hidden_in_it(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    remark = DraftComment(path="feature.txt", line=1, body="Why?")
    first = stage.forge.stage_review(opened.number, commit=opened.head, body="b", marker=MARKER, comments=[remark])
    stage.forge.submit_review(opened.number, first.id, verdict=None)
    stage.forge.stage_review(opened.number, commit=opened.head, body="b", marker="<!-- taskmaestro: two -->")
    (thread,) = stage.forge.threads(opened.number)
    with pytest.raises(NotSo, match="pending"):
        stage.forge.reply(opened.number, thread.id, "Because.")
    with pytest.raises(NotSo, match="pending"):
        stage.forge.post_review(opened.number, body="b", verdict=Verdict.CHANGES, head=opened.head, marker="<!-- x -->")


def test_somebody_who_quotes_a_marker_does_not_keep_a_review_from_being_posted(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    stage.acting("worker-1").comment(opened.number, f"I say\n\n{MARKER}")
    posted = stage.forge.post_review(opened.number, body="b", verdict=Verdict.CHANGES, head=opened.head, marker=MARKER)
    assert not posted.already


def test_a_diff_that_github_does_not_make_is_made_by_git(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    text = {"message": "Sorry, the diff exceeded the maximum number of lines (20000)", "errors": []}
    stage.github.fault(Fault("answer", status=406, path=r"/repos/.*/pulls/\d+", count=-1, body=json.dumps(text)))
    assert "feature.txt" in stage.forge.diff(number)


def test_the_process_list_and_the_environment_stay_as_they_were(make_stage: GithubStages) -> None:
    before = dict(os.environ)
    stage = make_stage()
    stage.open("feature")
    assert dict(os.environ) == before
