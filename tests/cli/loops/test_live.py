"""The live verbs of ``taskmaestro loop`` on a real local forge: each state, each file, each exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from conductor.forge.local.forge import LocalForge
from schemas.config import LocalForgeConfig
from schemas.loops.checkpoint import NAMES
from tests.cli.loops.desk import LiveDesk
from tests.support.repos import git
from tests.support.tree import ROOT
from tests.support.waiting import wait_until

BAD = {"path": "weeks.py", "line": 2, "message": "off by one", "severity": "high"}
OFF = {"path": "weeks.py", "line": 40, "message": "not there", "severity": "low"}


# --- reviewer ---


def test_the_reviewer_loop_of_a_live_pull_request_from_request_to_submission(live: LiveDesk) -> None:
    number, head = live.open()
    state = str(live.root.parent / "draft.json")
    assert live.state(number) == "waiting_for_review_request"
    live.ok("pr", "request", str(number), "--reviewer", "Mona", "--json")
    asked = live.ok("loop", "reviewer", "--pr", str(number), "--repo", "local/dates")
    assert asked["state"] == "review_requested"
    assert (asked["snapshot"]["reviewerScope"], asked["snapshot"]["reviewerLogin"]) == ("single_reviewer", "mona")
    live.acts("mona")
    review = live.merged(head, BAD, OFF)
    staged = live.ok("loop", "stage", "--pr", str(number), "--review-file", review, "--local-state-output", state)
    assert (staged["draftReviewCommitSha"], staged["inlineComments"], staged["already"]) == (head, 1, False)
    assert live.ok("pr", "threads", str(number), "--json") == []
    again = live.ok("loop", "stage", "--pr", str(number), "--review-file", review, "--local-state-output", state)
    assert (again["draftReviewId"], again["already"]) == (staged["draftReviewId"], True)
    assert live.state(number, "--local-state", state) == "draft_review_posted"
    live.ok("loop", "notify", "--pr", str(number), "--local-state", state)
    assert live.state(number, "--local-state", state) == "waiting_for_user_submit"
    live.acts("worker-1")
    assert live.state(number) == "review_requested", "a draft is its author's alone"
    live.acts("mona")
    submitted = live.ok("pr", "submit", str(number), "--json")
    assert (submitted["verdict"], submitted["commit"]) == ("changes_requested", head)
    assert live.state(number, "--local-state", state) == "submitted_review"
    live.acts("worker-1")
    assert live.state(number) == "submitted_review"
    (thread,) = live.ok("pr", "threads", str(number), "--json")
    assert (thread["path"], thread["line"]) == ("weeks.py", 2)
    (post,) = live.ok("pr", "view", str(number), "--comments", "--jq", ".comments")
    assert "line 40: not there" in post["body"]


def test_a_stale_draft_is_invalidated_refused_and_discarded(live: LiveDesk) -> None:
    number, head = live.open()
    live.acts("mona")
    state = str(live.root.parent / "draft.json")
    live.ok("loop", "stage", "--pr", str(number), "--review-file", live.merged(head), "--local-state-output", state)
    live.push("feature", "later.py")
    assert live.state(number, "--local-state", state) == "review_invalidated"
    refused = live.call("pr", "submit", str(number), "--json")
    assert refused.code == 1
    assert "discarded" in refused.error
    assert live.state(number, "--local-state", state) == "waiting_for_review_request"
    assert live.call("pr", "discard", str(number), "--json").code == 1
    assert live.ok("pr", "view", str(number), "--comments", "--jq", ".comments") == []


def test_a_review_of_another_head_or_of_none_is_not_staged(live: LiveDesk) -> None:
    number, head = live.open()
    live.push("feature", "later.py")
    state = live.root.parent / "draft.json"
    for of, code in ((head, 1), (" ", 2)):
        review = live.merged(of)
        told = live.call(
            "loop", "stage", "--pr", str(number), "--review-file", review, "--local-state-output", str(state)
        )
        assert told.code == code, told.err
    assert not state.exists()
    assert live.state(number) == "waiting_for_review_request"


def test_what_a_pass_of_another_head_wrote_down_is_not_used(live: LiveDesk) -> None:
    number, head = live.open()
    file = live.root.parent / "local.json"
    file.write_text(json.dumps({"headSha": head, "localReviewRunsStatus": "running"}), encoding="utf-8")
    assert live.state(number, "--local-state", str(file)) == "reviews_running"
    live.push("feature", "later.py")
    assert live.state(number, "--local-state", str(file)) == "waiting_for_review_request"
    file.write_text(json.dumps({"prNumber": number + 5}), encoding="utf-8")
    assert live.call("loop", "reviewer", "--pr", str(number), "--local-state", str(file)).code == 2


def test_a_new_pass_is_seen_although_an_older_review_stands(live: LiveDesk) -> None:
    number, _ = live.open()
    live.acts("mona")
    live.call("pr", "review", str(number), "--request-changes", "--body", "mend")
    head = live.push("feature", "later.py")
    assert live.state(number) == "submitted_review"
    assert live.state(number, "--review-requested", "true") == "review_requested"
    file = live.root.parent / "local.json"
    file.write_text(json.dumps({"headSha": head, "localReviewRunsStatus": "running"}), encoding="utf-8")
    assert live.state(number, "--local-state", str(file)) == "reviews_running"


def test_the_reviewer_who_is_asked_about_is_the_one_whose_reviews_count(live: LiveDesk) -> None:
    number, _ = live.open()
    live.acts("mona")
    live.call("pr", "review", str(number), "--request-changes", "--body", "mend")
    assert live.state(number, "--reviewer-login", "MONA") == "submitted_review"
    assert live.state(number, "--reviewer-login", "other") == "waiting_for_review_request"


def test_no_pull_request_a_draft_and_a_closed_one(live: LiveDesk) -> None:
    assert live.state(77) == "waiting_for_review_request"
    assert live.ok("loop", "follow-up", "--pr", "77")["state"] == "no_pr"
    number, _ = live.open("feature", "--draft")
    assert live.ok("loop", "follow-up", "--pr", str(number))["state"] == "pr_draft"
    live.call("pr", "close", str(number))
    assert live.ok("loop", "follow-up", "--pr", str(number))["state"] == "done"


# --- which repository ---


def test_another_repository_is_refused_and_the_names_of_this_one_are_told(live: LiveDesk) -> None:
    number, _ = live.open()
    git(live.root, "remote", "add", "hub", "git@example.invalid:acme/Dates.git")
    assert live.state(number, "--repo", "Acme/dates") == "waiting_for_review_request"
    told = live.call("loop", "reviewer", "--repo", "acme/other", "--pr", str(number))
    assert told.code == 2
    assert "local/dates or acme/dates" in told.error


@pytest.mark.parametrize("verb", ["reviewer", "follow-up"])
def test_either_a_snapshot_or_a_pull_request(live: LiveDesk, verb: str) -> None:
    assert live.call("loop", verb).code == 2
    assert live.call("loop", verb, "--input", "x.json", "--pr", "1").code == 2
    assert live.call("loop", verb, "--input", "x.json", "--repo", "local/dates").code == 2


# --- follow-up ---


def test_the_follow_up_loop_of_a_live_pull_request(live: LiveDesk) -> None:
    live.configure('[loops]\nexternal_reviewers = ["bot"]\n[forge.local.checks]\nunit = "true"\n')
    number, head = live.open()
    live.settle(number)
    pr = str(number)
    first = live.ok("loop", "follow-up", "--pr", pr)
    assert (first["state"], first["snapshot"]["ciStatus"]) == ("pr_ready_no_feedback", "success")
    live.ok("pr", "request", pr, "--reviewer", "bot", "--json")
    assert live.ok("loop", "follow-up", "--pr", pr)["state"] == "waiting_for_copilot_review"
    assert live.ok("loop", "follow-up", "--pr", pr, "--review-request-status", "failed")["state"] == (
        "blocked_needs_user_decision"
    )
    live.acts("bot")
    state = str(live.root.parent / "draft.json")
    live.ok("loop", "stage", "--pr", pr, "--review-file", live.merged(head, BAD), "--local-state-output", state)
    live.call("pr", "submit", pr, "--comment")
    live.acts("worker-1")
    open_one = live.ok("loop", "follow-up", "--pr", pr)
    assert open_one["state"] == "unresolved_feedback_present"
    seen = open_one["snapshot"]
    assert (seen["unresolvedThreadCount"], seen["actionableThreadCount"], seen["copilotReviewRoundCount"]) == (1, 1, 1)
    assert (seen["copilotReviewOnCurrentHead"], seen["lastCopilotRoundMaxSignal"]) == (True, "mid")
    (thread,) = live.ok("pr", "threads", pr, "--unresolved-only", "--jq", "[.[].id]")
    live.ok("pr", "reply", pr, "--thread", thread, "--body", "mended", "--json")
    answered = live.ok("loop", "follow-up", "--pr", pr)["snapshot"]
    assert (answered["unresolvedThreadCount"], answered["actionableThreadCount"]) == (1, 0)
    live.ok("pr", "resolve", pr, "--thread", thread, "--json")
    done = live.ok("loop", "follow-up", "--pr", pr)
    assert (done["state"], done["disposition"]) == ("ready_to_rerequest_review", "clean_converged")
    limits = live.root.parent / "limits.json"
    limits.write_text('{"maxCopilotRounds": 1}', encoding="utf-8")
    capped = live.ok("loop", "follow-up", "--pr", pr, "--config", str(limits))
    assert capped["state"] == "round_cap_clean_fallback"


def test_a_head_without_checks_is_credibly_green_only_with_the_battery_s_word_for_it(live: LiveDesk) -> None:
    live.configure('[forge.local.checks]\nunit = "true"\n')
    number, _ = live.open()
    live.settle(number)
    live.configure("")
    head = live.push("feature", "later.py")

    def ci(*more: str) -> str:
        return str(live.ok("loop", "follow-up", "--pr", str(number), *more)["snapshot"]["ciStatus"])

    assert ci() == "none"
    assert ci("--local-validation-head-sha", "f" * 40) == "none"
    assert ci("--local-validation-head-sha", head) == "crediblyGreen"


def test_threads_that_cannot_be_read_are_an_error_and_never_none(
    live: LiveDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, _ = live.open()
    database = live.root / ".taskmaestro" / "forge" / "forge.sqlite3"
    forge = LocalForge.create_or_open(live.root, LocalForgeConfig())
    with forge._store.write() as connection:
        connection.execute("ALTER TABLE threads RENAME TO threads_elsewhere")
    forge.close()
    for verb in ("follow-up", "outer"):
        told = live.call("loop", verb, "--pr", str(number))
        assert told.code == 3, told
        assert told.out == ""
        assert str(database) in told.error
    assert not list((live.root / ".taskmaestro").glob("state/checkpoints/**/*.json"))


# --- outer, startup ---


def test_a_cycle_writes_the_eleven_fields_and_counts_its_waits(live: LiveDesk) -> None:
    live.configure('[loops]\nexternal_reviewers = ["bot"]\n')
    number, head = live.open()
    path = live.root / ".taskmaestro/state/checkpoints/local/dates" / f"pr-{number}.json"
    first = live.ok("loop", "outer", "--repo", "local/dates", "--pr", str(number))
    assert (first["outerAction"], first["copilotState"], first["reviewerState"]) == (
        "continue_wait",
        "waiting_for_ci",
        "waiting_for_review_request",
    )
    written = json.loads(path.read_text(encoding="utf-8"))
    assert list(written) == list(NAMES)
    assert {name: first[name] for name in NAMES} == written
    assert (written["headSha"], written["waitCycles"], written["repo"]) == (head, 1, "local/dates")
    assert live.ok("loop", "outer", "--pr", str(number))["waitCycles"] == 2
    live.ok("pr", "request", str(number), "--reviewer", "mona", "--json")
    asked = live.ok("loop", "outer", "--pr", str(number))
    assert (asked["outerAction"], asked["reviewerLogin"], asked["waitCycles"]) == ("reenter_reviewer_loop", "mona", 0)
    assert live.ok("loop", "startup", "--pr", str(number))["resume"] == "enter_reviewer_loop"
    path.write_text("{}", encoding="utf-8")
    told = live.call("loop", "startup", "--pr", str(number))
    assert told.code == 2
    assert str(path) in told.error


def test_startup_finds_the_pull_request_of_an_issue_and_what_to_resume(live: LiveDesk) -> None:
    assert live.call("loop", "startup", "--issue", "1").code == 1, "no such issue"
    live.ok("issue", "create", "--title", "Parse ISO weeks", "--body", "- [ ] parsed", "--json")
    nothing = live.ok("loop", "startup", "--issue", "1")
    assert (nothing["pr"], nothing["resume"], nothing["checkpoint"]) == (None, "fresh_start", None)
    number, head = live.open()
    fresh = live.ok("loop", "startup", "--issue", "1")
    assert (fresh["pr"], fresh["headSha"], fresh["resume"]) == (number, head, "fresh_start")
    live.ok("loop", "outer", "--pr", str(number))
    later = live.ok("loop", "startup", "--issue", "1")
    assert (later["resume"], later["checkpoint"]["outerAction"], later["headMoved"]) == (
        "resume_follow_up",
        "continue_wait",
        False,
    )
    live.push("other", "other.py")
    live.ok("pr", "create", "--title", "T", "--body", "Closes #1", "--another", "--json")
    assert live.call("loop", "startup", "--issue", "1").code == 4
    assert live.call("loop", "startup").code == 2


# --- watching ---


def test_a_watch_ends_when_something_is_to_be_done_and_is_woken_by_the_forge(live: LiveDesk) -> None:
    number, _ = live.open()
    argv = [sys.executable, "-m", "conductor", "loop", "watch", "--pr", str(number), "--interval", "300"]
    watcher = subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        path = live.root / ".taskmaestro/state/checkpoints/local/dates" / f"pr-{number}.json"
        wait_until(path.exists, 60, "the first look")
        second = live.call("loop", "watch", "--pr", str(number), "--budget", "1")
        assert second.code == 3
        assert f"pid {watcher.pid}" in second.error
        assert live.ok("loop", "startup", "--pr", str(number))["watchedBy"]["pid"] == watcher.pid
        live.ok("pr", "request", str(number), "--reviewer", "mona", "--json")
        out, err = watcher.communicate(timeout=60)
        assert watcher.returncode == 0, err
        assert json.loads(out)["outerAction"] == "reenter_reviewer_loop"
    finally:
        watcher.kill()
        watcher.communicate()


def test_a_dead_watcher_keeps_nobody_out(live: LiveDesk) -> None:
    number, _ = live.open()
    argv = [sys.executable, "-m", "conductor", "loop", "watch", "--pr", str(number), "--interval", "300"]
    watcher = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
    path = live.root / ".taskmaestro/state/checkpoints/local/dates" / f"pr-{number}.json"
    wait_until(path.exists, 60, "the first look")
    watcher.kill()
    watcher.wait()
    assert live.ok("loop", "startup", "--pr", str(number))["watchedBy"] is None
    told = live.call("loop", "watch", "--pr", str(number), "--interval", "0.05", "--budget", "0.2")
    assert told.code == 4
    assert told.error == f"watch timeout — PR #{number} needs manual attention"
    assert json.loads(path.read_text(encoding="utf-8"))["outerAction"] == "continue_wait"


@pytest.mark.parametrize(("command", "code", "status"), [("true", 0, "success"), ("false", 1, "failure")])
def test_watching_ci_says_how_it_ended(live: LiveDesk, command: str, code: int, status: str) -> None:
    live.configure(f'[forge.local.checks]\nunit = "{command}"\n')
    number, head = live.open()
    told = live.call("loop", "watch-ci", "--pr", str(number), "--budget", "60")
    assert told.code == code, told.err
    assert (told.value["status"], told.value["head"]) == (status, head)
    assert [check["name"] for check in told.value["checks"]] == ["unit"]


def test_watching_ci_times_out_and_notices_another_head(live: LiveDesk) -> None:
    number, head = live.open()
    late = live.call("loop", "watch-ci", "--pr", str(number), "--interval", "0.05", "--budget", "0.2")
    assert (late.code, late.value["status"], late.value["lastSeen"]) == (2, "timeout", "none")
    moved = live.push("feature", "later.py")
    told = live.call("loop", "watch-ci", "--pr", str(number), "--head", head, "--budget", "60")
    assert (told.code, told.value["status"], told.value["headNow"]) == (2, "changed", moved)


def test_a_head_that_moves_while_it_is_watched_is_noticed(live: LiveDesk) -> None:
    live.configure('[forge.local.checks]\nunit = ["sleep", "300"]\n')
    number, head = live.open()
    pushed: list[str] = []

    def push() -> None:
        pushed.append(live.push("feature", "later.py"))

    timer = threading.Timer(1.0, push)
    timer.start()
    told = live.call("loop", "watch-ci", "--pr", str(number), "--interval", "300", "--budget", "60")
    timer.join()
    assert (told.code, told.value["status"], told.value["head"]) == (2, "changed", head)
    assert told.value["headNow"] == pushed[0]
