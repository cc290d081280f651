"""What goes wrong between here and GitHub is asked again or told; never taken for an answer, and nothing done twice."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conductor.forge.github.forge import GithubForge
from schemas.config import Config, ForgeConfig, GithubForgeConfig
from schemas.errors import Fault as OurFault
from schemas.errors import NeedsPerson, NotSo, Unavailable
from schemas.forge import DraftComment
from schemas.review import Verdict
from tests.forge.github_stage import NAME, QUICK, GithubStages, github_stages
from tests.github import faults, schema
from tests.github.faults import Fault
from tests.support.repos import git
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)


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


@pytest.mark.parametrize(
    ("said", "shown"),
    [("hello <html>", "hello <html>"), ("", "nothing"), ("{}", "{}"), ("null", "null"), ("[]", r"\[\]")],
)
def test_a_gh_that_answers_no_answer_is_named_and_not_asked_again(
    make_stage: GithubStages, tmp_path: Path, said: str, shown: str
) -> None:
    log, broken = tmp_path / "log", tmp_path / "gh"
    broken.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && echo gh version 2.99.0 && exit\necho asked >>{log}\necho '{said}'\n"
    )
    broken.chmod(0o755)
    stage = make_stage(more={"program": str(broken)})
    with pytest.raises(Unavailable, match=rf"gh program at {broken} answered .* no answer.*: {shown}\n") as caught:
        stage.forge.pull_requests([1])
    assert "gh api user" in caught.value.hint
    assert "install gh" in caught.value.hint
    assert "network" not in str(caught.value)
    assert log.read_text().count("asked") == 1


def test_a_change_whose_answer_gh_swallowed_may_have_been_made(make_stage: GithubStages, tmp_path: Path) -> None:
    real, broken = Path(sys.executable).parent / "gh", tmp_path / "gh"
    broken.write_text(
        f'#!/bin/sh\n[ "$1" = api ] || exec {real} "$@"\ncat >{tmp_path}/asked\n'
        f'grep -q addComment {tmp_path}/asked || exec {real} "$@" <{tmp_path}/asked\n'
        f'{real} "$@" <{tmp_path}/asked >/dev/null\n'
    )
    broken.chmod(0o755)
    stage = make_stage(more={"program": str(broken)})
    number = stage.open("feature").number
    with pytest.raises(Unavailable, match=r"no answer.*whether it was done is not known") as caught:
        stage.forge.comment(number, "text")
    assert "gh api user" in caught.value.hint
    assert [one.body for one in stage.forge.comments(number)] == ["text"]


@pytest.mark.parametrize("token", [None, "GH_ENTERPRISE_TOKEN"])
def test_an_alias_of_ssh_in_the_remotes_url_is_told_with_the_settings_that_name_the_host(
    make_stage: GithubStages, token: str | None
) -> None:
    stage = make_stage()
    git(stage.root, "remote", "set-url", "origin", "myalias:octo/shop.git")
    given = stage.github.environment("conductor", **({token: "some-token"} if token else {}))
    if token:  # gh takes it for any host, and finds none of that name
        stage.github.socket.rename(stage.github.socket.with_name("moved"))
    unknown = GithubForge.open(Config(forge=ForgeConfig(kind="github")), stage.root, environment=given, retries=QUICK)
    with pytest.raises(OurFault, match="myalias") as caught:
        unknown.pull_requests([1])
    assert isinstance(caught.value, Unavailable if token else NeedsPerson)
    for word in ("`repository`", "`host`", "[forge.github]", "alias"):
        assert word in caught.value.hint
    if token:
        return
    stage.github.fault(faults.bad_credentials(count=-1))
    with pytest.raises(NeedsPerson, match="Bad credentials") as caught:
        unknown.login()
    assert "alias" in caught.value.hint
    stage.github.server.faults.clear()
    named = ForgeConfig(kind="github", github=GithubForgeConfig(host="github.com"))
    assert GithubForge.open(Config(forge=named), stage.root, environment=given).login() == "conductor"
    (stage.github.config_dir("conductor") / "hosts.yml").unlink()
    for forge in (stage.forge, GithubForge.open(Config(forge=named), stage.root, environment=given)):
        with pytest.raises(NeedsPerson) as caught:
            forge.pull_requests([1])
        assert "alias" not in caught.value.hint


def test_a_host_that_gh_knows_is_no_alias(make_stage: GithubStages) -> None:
    stage = make_stage(host="git.example.com")
    config = Config(forge=ForgeConfig(kind="github"))
    environment = stage.github.environment("conductor")
    forge = GithubForge.open(config, stage.root, environment=environment, retries=QUICK)
    assert forge.login() == "conductor"
    stage.github.fault(faults.bad_credentials(count=-1))
    with pytest.raises(NeedsPerson, match=r"not logged in to git\.example\.com") as caught:
        forge.pull_requests([1])
    assert "alias" not in caught.value.hint


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
