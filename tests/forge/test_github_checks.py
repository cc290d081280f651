"""Checks on GitHub: the grace after a push, superseded runs, statuses, required ones, logs, pages, running again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.forge import RerunsChecks
from conductor.forge.github.forge import GithubForge
from schemas.config import CiConfig, Config, ForgeConfig
from schemas.errors import NotSo
from schemas.forge import Checks, CheckState
from tests.forge.contract import settled
from tests.forge.github_stage import NAME, QUICK, GithubStage, GithubStages, github_stages
from tests.github import faults, schema

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[GithubStages]:
    with github_stages(tmp_path) as stages:
        yield stages


def checks(stage: GithubStage, number: int) -> Checks:
    return stage.forge.checks([number])[number]


def log_requests(stage: GithubStage) -> int:
    return sum(one.path.endswith("/logs") for one in stage.github.server.requests)


def on_a_clock(stage: GithubStage, grace: float) -> tuple[GithubForge, list[float]]:
    """The same forge, new in this process, on a clock that stands unless the test moves it."""
    time = [1000.0]
    config = Config(forge=ForgeConfig(kind="github"), ci=CiConfig(grace=grace))
    environment = stage.github.environment("conductor")
    forge = GithubForge.open(config, stage.root, environment=environment, retries=QUICK, clock=lambda: time[0])
    return forge, time


def test_no_checks_just_after_a_push_is_not_yet_and_then_none(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    forge, time = on_a_clock(stage, 600)
    assert forge.checks([number])[number].state is CheckState.NOT_YET
    time[0] += 599
    assert forge.checks([number])[number].state is CheckState.NOT_YET
    time[0] += 1
    assert forge.checks([number])[number].state is CheckState.NONE
    stage.push("feature", "more.txt")
    assert forge.checks([number])[number].state is CheckState.NOT_YET


def test_a_process_that_comes_later_knows_that_the_grace_is_over(make_stage: GithubStages) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    pull = stage.github.pull(NAME, number)
    forge, _ = on_a_clock(stage, 600)
    from datetime import timedelta

    pull.updated_at -= timedelta(seconds=590)
    assert forge.checks([number])[number].state is CheckState.NOT_YET
    pull.updated_at -= timedelta(seconds=20)
    assert forge.checks([number])[number].state is CheckState.NONE


def test_checks_that_appear_late_are_waited_for(make_stage: GithubStages) -> None:
    stage = make_stage(checks={"unit": ("true",)}, grace=60)
    stage.github.set_check_delay(0.5)
    number = stage.open("feature").number
    seen = {checks(stage, number).state}
    assert settled(stage, number).state is CheckState.PASSED
    assert CheckState.NONE not in seen


def test_a_closed_one_is_not_waited_for(make_stage: GithubStages) -> None:
    stage = make_stage(grace=600)
    number = stage.open("feature").number
    stage.forge.close_pull_request(number)
    assert checks(stage, number).state is CheckState.NONE


def test_a_run_that_a_newer_one_superseded_does_not_count(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    stage.github.put_check(NAME, opened.head, "unit", "CANCELLED")
    assert checks(stage, opened.number).state is CheckState.FAILED
    stage.github.put_check(NAME, opened.head, "unit")
    found = checks(stage, opened.number)
    assert (found.state, len(found.checks)) == (CheckState.PENDING, 1)
    stage.github.put_check(NAME, opened.head, "unit", "SUCCESS")
    assert checks(stage, opened.number).state is CheckState.PASSED


def test_runs_and_statuses_of_any_provider_count(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    stage.github.put_check(NAME, opened.head, "unit", "SUCCESS")
    stage.github.put_check(NAME, opened.head, "scan", "NEUTRAL", app="scanner", workflow=None)
    stage.github.put_status(NAME, opened.head, "ci/other", "PENDING")
    assert checks(stage, opened.number).state is CheckState.PENDING
    stage.github.put_status(
        NAME, opened.head, "ci/other", "FAILURE", description="2 tests failed", target_url="https://ci.example/9"
    )
    found = checks(stage, opened.number)
    assert found.state is CheckState.FAILED
    (failing,) = found.failing
    assert (failing.name, failing.log_url, failing.tail) == ("ci/other", "https://ci.example/9", "2 tests failed")


def test_the_required_ones_can_decide_alone_and_the_others_are_listed(make_stage: GithubStages) -> None:
    stage = make_stage(protected=("unit",), more={"only_required": True})
    opened = stage.open("feature")
    stage.github.put_check(NAME, opened.head, "unit", "SUCCESS")
    stage.github.put_check(NAME, opened.head, "lint", "FAILURE", log="lint says no\n")
    found = checks(stage, opened.number)
    by_name = {one.name: (one.state, one.required) for one in found.checks}
    assert by_name == {"unit": (CheckState.PASSED, True), "lint": (CheckState.FAILED, False)}
    assert found.state is CheckState.PASSED
    assert [one.name for one in found.failing] == ["lint"]
    stage.github.put_check(NAME, opened.head, "unit", "TIMED_OUT")
    assert checks(stage, opened.number).state is CheckState.FAILED


def test_an_optional_failure_decides_too_unless_told_otherwise(make_stage: GithubStages) -> None:
    stage = make_stage(protected=("unit",))
    opened = stage.open("feature")
    stage.github.put_check(NAME, opened.head, "unit", "SUCCESS")
    stage.github.put_check(NAME, opened.head, "lint", "FAILURE")
    assert checks(stage, opened.number).state is CheckState.FAILED


def test_a_required_check_that_never_appears_is_awaited_and_never_green(make_stage: GithubStages) -> None:
    stage = make_stage(protected=("unit", "deploy"))
    opened = stage.open("feature")
    assert checks(stage, opened.number).state is CheckState.PENDING
    stage.github.put_check(NAME, opened.head, "unit", "SUCCESS")
    found = checks(stage, opened.number)
    assert {one.name: one.state for one in found.checks} == {"unit": CheckState.PASSED, "deploy": CheckState.PENDING}
    assert found.state is CheckState.PENDING
    stage.github.put_status(NAME, opened.head, "deploy", "SUCCESS")
    assert checks(stage, opened.number).state is CheckState.PASSED


def test_more_than_a_hundred_checks_are_all_read(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    for n in range(120):
        stage.github.put_check(NAME, opened.head, f"unit {n}", "SUCCESS", workflow=None)
    stage.github.put_check(NAME, opened.head, "last", "FAILURE", workflow=None)
    found = checks(stage, opened.number)
    assert len(found.checks) == 121
    assert found.state is CheckState.FAILED


def test_the_end_of_a_failed_jobs_log_is_read_once_and_cleaned(make_stage: GithubStages) -> None:
    stage = make_stage(more={"log_lines": 3})
    opened = stage.open("feature")
    log = "".join(f"line {n}\n" for n in range(50)) + "\x1b[31mthe reason\x1b[0m\x07\ntoken ghp_abcdefghij0123456789\n"
    stage.github.put_check(NAME, opened.head, "unit", "FAILURE", log=log)
    stage.github.put_check(NAME, opened.head, "fine", "SUCCESS", log="nobody reads this")
    asked = set()
    for _ in range(3):
        (failing,) = checks(stage, opened.number).failing
        asked.add(log_requests(stage))  # newer gh refuses colours at first, and is asked again once
        assert failing.tail == "line 49\nthe reason\ntoken [token]"
        assert failing.log_url
    assert len(asked) == 1


def test_a_log_that_cannot_be_read_is_said_so_and_read_later(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    stage.github.put_check(NAME, opened.head, "unit", "FAILURE", log="the reason\n")
    stage.github.fault(faults.bad_gateway(path=r"/repos/.*/logs", count=4))
    (failing,) = checks(stage, opened.number).failing
    assert "could not be read" in failing.tail
    (failing,) = checks(stage, opened.number).failing
    assert failing.tail == "the reason"


def test_checks_run_again(make_stage: GithubStages) -> None:
    stage = make_stage(checks={"unit": ("sh", "-c", "echo again; exit 1")})
    opened = stage.open("feature")
    assert isinstance(stage.forge, RerunsChecks)
    assert settled(stage, opened.number).state is CheckState.FAILED
    (suite,) = stage.github.repository(NAME).suites
    stage.forge.rerun_checks(opened.number)
    assert settled(stage, opened.number).state is CheckState.FAILED
    assert len(suite.runs) == 2
    stage.forge.close_pull_request(opened.number)
    with pytest.raises(NotSo, match="closed"):
        stage.forge.rerun_checks(opened.number)


def test_what_github_does_not_run_cannot_be_run_again(make_stage: GithubStages) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    stage.github.put_status(NAME, opened.head, "ci/other", "FAILURE")
    with pytest.raises(NotSo, match="cannot be run again"):
        stage.forge.rerun_checks(opened.number)
