"""What the github forge costs and gives away: requests of a poll, the budget, tokens in texts and process lists."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from conductor.forge import KnowsDefaultBranch, open_forge
from conductor.ports import DraftReviews, LoopFacts, Metered, Threads
from schemas.config import Config, ForgeConfig, GithubForgeConfig
from schemas.errors import BadInput, Fault
from schemas.review import Verdict
from tests.forge.github_stage import NAME, GithubStages, github_stages
from tests.github import faults, schema
from tests.github import faults as github_faults
from tests.support.repos import git, make_repository

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)
SECRET = "ghp_0123456789abcdefghijSECRET"  # noqa: S105  # nobody's


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[GithubStages]:
    with github_stages(tmp_path) as stages:
        yield stages


def test_a_poll_is_one_question_for_the_pull_requests_and_one_for_the_checks(make_stage: GithubStages) -> None:
    stage = make_stage(checks={"unit": ("true",)})
    numbers = [stage.open(f"feature-{n}").number for n in range(5)]
    before = len(stage.github.server.requests)
    assert len(stage.forge.pull_requests(numbers)) == 5
    assert len(stage.forge.checks(numbers)) == 5
    asked = stage.github.server.requests[before:]
    assert [(one.method, one.path) for one in asked] == [("POST", "/graphql")] * 2
    assert sum(one.points for one in asked) == 2
    assert stage.forge.pull_requests([]) == []
    assert stage.forge.checks([]) == {}
    assert len(stage.github.server.requests) == before + 2


def test_a_review_is_staged_and_submitted_by_one_question_each(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    stage.forge.login()
    server = stage.github.server
    before, git_before = len(server.requests), server.git.copy()
    staged = stage.forge.stage_review(opened.number, commit=opened.head, body="b", marker="<!-- taskmaestro: r -->")
    assert server.git == git_before
    stage.forge.submit_review(opened.number, staged.id, verdict=Verdict.CHANGES)
    names = [one.name for one in server.requests[before:]]
    assert names == ["Reviews", "addPullRequestReview", "Reviews", "submitPullRequestReview"]
    assert server.git - git_before == {"git-upload-pack": 1}


def test_a_pull_request_is_opened_by_one_question_and_one_change(make_stage: GithubStages) -> None:
    stage = make_stage()
    stage.push("feature")
    stage.open("feature")
    assert [one.name for one in stage.github.server.requests] == ["PullsOfBranch", "createPullRequest"]


def test_who_we_are_is_asked_once_by_many_threads(make_stage: GithubStages) -> None:
    stage = make_stage()
    with ThreadPoolExecutor(4) as pool:
        assert {found.result() for found in [pool.submit(stage.forge.login) for _ in range(4)]} == {"conductor"}
    assert stage.asked("viewer") == 1


def test_the_budget_is_what_the_last_answer_said(make_stage: GithubStages) -> None:
    stage = make_stage()
    forge = stage._open("conductor")
    assert isinstance(forge, Metered)
    number = stage.open("feature").number
    forge.pull_requests([number])
    first = forge.budget()
    assert first is not None
    assert first.limit == 5000
    forge.checks([number])
    second = forge.budget()
    assert second is not None
    assert second.remaining < first.remaining
    assert second.reset_at == first.reset_at


def test_the_forge_has_all_ports_and_is_found_by_its_name(
    make_stage: GithubStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage()
    for name, value in stage.github.environment("conductor").items():
        monkeypatch.setenv(name, value)
    forge = open_forge(Config(forge=ForgeConfig(kind="github")), stage.root)
    assert (forge.name, forge.login()) == ("github", "conductor")
    for port in (LoopFacts, DraftReviews, Threads, KnowsDefaultBranch, Metered):
        assert isinstance(forge, port)
    assert forge.remote_url() is None
    assert forge.wake_paths() == ()
    assert stage.forge.default_branch() == "main"
    assert stage.forge.repository() == NAME


def test_another_author_than_the_tokens_login_is_refused(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    stage.push("other")
    for act in (
        lambda: stage.forge.comment(number, "text", author="worker-1"),
        lambda: stage.forge.create_pull_request(
            branch="other", base="main", title="T", body="", draft=False, author="worker-1"
        ),
        lambda: stage.forge.reply(number, "T", "text", author="worker-1"),
    ):
        with pytest.raises(BadInput, match="worker-1"):
            act()
    assert stage.forge.comments(number) == []


def test_a_number_of_a_pull_request_is_no_issue(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    with pytest.raises(Fault, match="it is a pull request"):
        stage.forge.issue(number)


def test_without_a_remote_the_repository_has_to_be_configured(make_stage: GithubStages, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "lonely")
    with pytest.raises(BadInput, match="no remote origin") as caught:
        open_forge(Config(forge=ForgeConfig(kind="github")), root)
    assert "git remote add" in caught.value.hint
    git(root, "remote", "add", "origin", str(tmp_path))
    with pytest.raises(BadInput, match="names no repository"):
        open_forge(Config(forge=ForgeConfig(kind="github")), root)
    chosen = GithubForgeConfig(repository="Octo/Shop", host="git.example.com")
    forge = open_forge(Config(forge=ForgeConfig(kind="github", github=chosen)), root)
    assert isinstance(forge, LoopFacts)
    assert forge.repository() == "octo/shop"


def test_an_enterprise_server_is_spoken_to_by_its_own_address(make_stage: GithubStages) -> None:
    stage = make_stage(host="git.example.com")
    opened = stage.open("feature")
    stage.github.put_check(NAME, opened.head, "unit", "FAILURE", log="the reason\n")
    (failing,) = stage.forge.checks([opened.number])[opened.number].failing
    assert failing.tail == "the reason"
    assert "feature.txt" in stage.forge.diff(opened.number)
    assert opened.url.startswith("https://git.example.com/")


# --- tokens ---


def test_a_token_is_in_no_message_and_no_log(make_stage: GithubStages, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stage = make_stage()
    number = stage.open("feature").number
    token = stage.github.user("conductor").token
    bodies = [
        faults.Fault("answer", status=status, body=json.dumps({"message": f"bad {token} and {SECRET}"}), count=-1)
        for status in (401, 403, 404, 422, 502)
    ]
    error = {"message": f"Something went wrong with {SECRET}"}
    bodies += [faults.Fault("answer", count=-1, body=f"<html>{SECRET} {token}")]
    bodies += [faults.Fault("answer", count=-1, body=json.dumps({"data": None, "errors": [error]}))]
    for fault in bodies:
        stage.github.server.faults[:] = [fault]
        with pytest.raises(Fault) as caught:
            stage.forge.pull_requests([number])
        chain: BaseException | None = caught.value
        while chain is not None:
            assert SECRET not in f"{chain!s} {chain!r}"
            assert token not in f"{chain!s} {chain!r}"
            chain = chain.__cause__ or chain.__context__
    assert SECRET not in caplog.text
    assert token not in caplog.text


def test_a_token_is_neither_posted_nor_read(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature", body=f"see {SECRET}").number
    stage.forge.comment(number, f"the log says {SECRET}")
    assert SECRET not in stage.github.pull(NAME, number).body
    assert [SECRET in one.body for one in stage.forge.comments(number)] == [False]
    stage.github.pull(NAME, number).body = SECRET
    assert SECRET not in stage.forge.pull_request(number).body


def test_the_process_list_shows_no_token_and_no_text(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    token = stage.github.user("conductor").token
    stage.github.fault(github_faults.hang(seconds=1.0, operation="addComment"))
    seen: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for process in psutil.process_iter():
                try:
                    if process.name() == "gh":
                        seen.append(" ".join(process.cmdline()))
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        stage.forge.comment(number, "a text of nobody's business")
    finally:
        done.set()
        watcher.join()
    told = " ".join(seen)
    assert "api --hostname github.com" in told
    assert token not in told
    assert "nobody's business" not in told
