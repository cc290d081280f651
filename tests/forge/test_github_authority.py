"""The remote wins over an API that lags; what changed on the other side meanwhile is told and nothing is forced."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.ports import HeadMovedError
from schemas.errors import NotSo, Unavailable
from schemas.forge import CheckState, DraftComment
from schemas.review import Verdict
from tests.forge.github_stage import NAME, GithubStages, github_stages
from tests.github import schema
from tests.github.faults import Fault
from tests.support.repos import git

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)

MARKER = "<!-- taskmaestro review r-1 -->"


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[GithubStages]:
    with github_stages(tmp_path) as stages:
        yield stages


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


def test_a_branch_that_is_gone_from_the_remote_is_neither_approved_nor_made_ready(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1", draft=True)
    number = opened.number
    done = stage.forge.stage_review(number, commit=opened.head, body="b", marker=MARKER)
    stage.forge.submit_review(number, done.id, verdict=Verdict.CHANGES)
    two, three = "<!-- taskmaestro: two -->", "<!-- taskmaestro: three -->"
    staged = stage.forge.stage_review(number, commit=opened.head, body="b", marker=two)
    git(stage.github.repository(NAME).path, "update-ref", "-d", "refs/heads/feature")
    assert stage.forge.pull_request(number).state == "open"
    for act in (
        lambda: stage.forge.post_review(number, body="b", verdict=Verdict.APPROVE, head=opened.head, marker=three),
        lambda: stage.forge.submit_review(number, staged.id, verdict=Verdict.APPROVE),
        lambda: stage.forge.submit_review(number, staged.id, verdict=Verdict.CHANGES),
        lambda: stage.forge.mark_ready(number),
    ):
        with pytest.raises(NotSo, match="the branch feature of #1 is not on the remote any more") as caught:
            act()
        assert "git push origin feature" in caught.value.hint
        assert "taskmaestro pr close 1" in caught.value.hint
    assert [one.state for one in stage.forge.submitted_reviews(number)] == ["changes_requested"]
    assert stage.forge.submit_review(number, done.id, verdict=Verdict.CHANGES).already


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
