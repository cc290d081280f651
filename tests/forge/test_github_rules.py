"""What check runs, statuses and refusals mean: the tables of the github forge, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.forge.github.checks import CONCLUSIONS, STATUSES, UNFINISHED, Run, absent, newest, overall, read_run
from conductor.forge.github.faults import Dropped, Facts, Limited, Missing, Refused, of_graphql, of_status, said_by
from conductor.forge.github.logs import tail_of
from schemas.errors import Fault, NeedsPerson, Unavailable
from schemas.forge import CheckState
from tests.forge.github_stage import Clock

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING


def check_run(name: str = "unit", conclusion: str | None = "SUCCESS", **more: Any) -> dict[str, Any]:
    """A check run as GraphQL gives it."""
    workflow = more.pop("workflow", "CI")
    suite = {
        "app": {"slug": more.pop("app", "github-actions")},
        "workflowRun": {"databaseId": 7, "event": more.pop("event", "push"), "workflow": {"name": workflow}}
        if workflow
        else None,
    }
    return {
        "__typename": "CheckRun",
        "id": "CR_1",
        "databaseId": 1,
        "name": name,
        "status": "COMPLETED" if conclusion else "IN_PROGRESS",
        "conclusion": conclusion,
        "startedAt": "2026-05-01T12:00:00Z",
        "completedAt": None,
        "detailsUrl": "https://ci.example/1",
        "isRequired": False,
        "checkSuite": suite,
        **more,
    }


def status(context: str, state: str) -> dict[str, Any]:
    return {
        "__typename": "StatusContext",
        "id": "SC_1",
        "context": context,
        "state": state,
        "createdAt": "2026-05-01T12:00:00Z",
        "targetUrl": None,
        "description": None,
        "isRequired": False,
    }


@pytest.mark.parametrize(
    ("conclusion", "state"),
    [
        ("SUCCESS", PASSED),
        ("NEUTRAL", PASSED),
        ("SKIPPED", PASSED),
        ("FAILURE", FAILED),
        ("CANCELLED", FAILED),
        ("ACTION_REQUIRED", FAILED),
        ("TIMED_OUT", FAILED),
        ("STARTUP_FAILURE", FAILED),
        ("STALE", FAILED),
        ("SOMETHING_NEW", FAILED),
    ],
)
def test_a_conclusion_passes_or_fails(conclusion: str, state: CheckState) -> None:
    assert read_run(check_run(conclusion=conclusion)).state is state


@pytest.mark.parametrize("word", ["QUEUED", "IN_PROGRESS", "WAITING", "REQUESTED", "PENDING"])
def test_a_run_that_is_not_completed_pends(word: str) -> None:
    assert read_run(check_run(conclusion=None, status=word)).state is PENDING


@pytest.mark.parametrize(
    ("word", "state"),
    [("SUCCESS", PASSED), ("FAILURE", FAILED), ("ERROR", FAILED), ("PENDING", PENDING), ("EXPECTED", PENDING)],
)
def test_a_commit_status_counts_like_a_run(word: str, state: CheckState) -> None:
    assert read_run(status("ci/other", word)).state is state


def test_the_tables_know_every_word_of_the_published_schema() -> None:
    from tests.github import schema

    if not schema.available():
        pytest.skip(schema.MISSING)
    types = schema.graphql_schema().type_map
    assert set(CONCLUSIONS) == set(types["CheckConclusionState"].values)  # type: ignore[attr-defined]
    assert UNFINISHED | {"COMPLETED"} == set(types["CheckStatusState"].values)  # type: ignore[attr-defined]
    assert set(STATUSES) == set(types["StatusState"].values)  # type: ignore[attr-defined]


def test_the_number_of_a_job_that_graphql_does_not_give_is_read_off_its_address() -> None:
    url = "https://github.com/octo/shop/actions/runs/30000000001/job/60000000002"
    run = read_run(check_run(databaseId=None, detailsUrl=url))
    assert (run.number, run.is_job, run.age[0]) == (60000000002, True, 60000000002)
    assert read_run(check_run(databaseId=None)).number is None


CANCELLED = check_run(conclusion="CANCELLED", databaseId=1)


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        ([], CheckState.NONE),
        ([CANCELLED, check_run(databaseId=2)], PASSED),
        ([check_run(databaseId=2), CANCELLED], PASSED),
        ([CANCELLED, check_run(databaseId=2, conclusion=None, startedAt=None)], PENDING),
        ([check_run(databaseId=1), check_run(databaseId=2, conclusion="CANCELLED")], FAILED),
        ([check_run(databaseId=1, conclusion="FAILURE"), check_run(databaseId=2)], PASSED),
        # another workflow, another app, another event: not the same check
        ([CANCELLED, check_run(databaseId=2, workflow="Nightly")], FAILED),
        ([CANCELLED, check_run(databaseId=2, app="other", workflow=None)], FAILED),
        ([check_run(conclusion="FAILURE"), check_run(databaseId=2, event="pull_request")], FAILED),
        ([check_run(), status("unit", "FAILURE")], FAILED),
        # required and optional
        ([check_run(isRequired=True), check_run("lint", "FAILURE")], FAILED),
        ([check_run(isRequired=True), check_run("lint", None)], PENDING),
        ([check_run("unit", "FAILURE", isRequired=True), check_run("lint")], FAILED),
        ([check_run(), check_run("lint", "FAILURE"), check_run("docs", None)], FAILED),
        ([check_run(), check_run("docs", None)], PENDING),
        ([check_run("a", "SKIPPED"), check_run("b", "NEUTRAL")], PASSED),
    ],
)
def test_the_state_of_a_head(nodes: list[dict[str, Any]], state: CheckState) -> None:
    assert overall(newest(map(read_run, nodes))) is state


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        ([check_run(isRequired=True), check_run("lint", "FAILURE")], PASSED),
        ([check_run(isRequired=True), check_run("lint", None)], PASSED),
        ([check_run("unit", None, isRequired=True), check_run("lint", "FAILURE")], PENDING),
        ([check_run(), check_run("lint", "FAILURE")], FAILED),
    ],
)
def test_the_required_ones_can_decide_alone(nodes: list[dict[str, Any]], state: CheckState) -> None:
    assert overall(newest(map(read_run, nodes)), only_required=True) is state


def test_a_required_check_that_has_not_appeared_is_awaited() -> None:
    runs = [read_run(check_run("lint")), absent("unit")]
    assert overall(runs) is overall(runs, only_required=True) is PENDING


RUNS = st.builds(
    Run,
    key=st.sampled_from([("run", "a"), ("run", "b"), ("status", "a")]),
    age=st.tuples(st.integers(0, 5), st.just("")),
    name=st.just("n"),
    state=st.sampled_from([PASSED, FAILED, PENDING]),
    required=st.booleans(),
    url=st.just(""),
)


@given(runs=st.lists(RUNS, max_size=8), only_required=st.booleans())
def test_green_is_only_what_has_every_deciding_run_green(runs: list[Run], only_required: bool) -> None:
    counted = newest(runs)
    assert {run.key for run in counted} == {run.key for run in runs}
    for run in counted:
        assert run.age == max(one.age for one in runs if one.key == run.key)
    deciding = [run for run in counted if run.required and only_required] or counted
    state = overall(counted, only_required=only_required)
    assert (state is PASSED) == (bool(deciding) and all(run.state is PASSED for run in deciding))
    assert (state is FAILED) == any(run.state is FAILED for run in deciding)
    assert (state is CheckState.NONE) == (not runs)


# --- logs ---


def test_a_tail_is_plain_text() -> None:
    log = (
        "\ufeff2026-05-01T12:00:00.1234567Z ##[group]Run tests\n"
        "2026-05-01T12:00:01.0000000Z \x1b[31mFAILED\x1b[0m test_one\x07 \x1b]0;title\x07done\r\n"
        "2026-05-01T12:00:02.0000000Z token ghp_abcdefghij0123456789\n"
        "2026-05-01T12:00:03.0000000Z ##[error]Process completed with exit code 1.\n"
    )
    assert tail_of(log, 3) == ("FAILED test_one done\ntoken [token]\n##[error]Process completed with exit code 1.")
    assert len(tail_of("x" * 100_000, 5)) <= 4096


# --- refusals ---


def facts(code: int = 200, said: str = "no", **headers: str) -> Facts:
    return Facts(
        "github.com", "the thing", code, said, {name.replace("_", "-"): value for name, value in headers.items()}
    )


@pytest.mark.parametrize(
    ("about", "kind"),
    [
        (facts(401, "Bad credentials"), NeedsPerson),
        (facts(403, "Resource not accessible by personal access token"), NeedsPerson),
        (facts(403, "Repository was archived so is read-only."), Refused),
        (facts(403, "You have exceeded a secondary rate limit"), Limited),
        (facts(403, "no", retry_after="5"), Limited),
        (facts(403, "no", x_ratelimit_remaining="0"), Limited),
        (facts(403, "no", x_ratelimit_remaining="12"), NeedsPerson),
        (facts(429, "slow down"), Limited),
        (facts(404, "Not Found"), Missing),
        (facts(410, "Gone"), Missing),
        (facts(422, "Validation Failed"), Refused),
        (facts(500), Dropped),
        (facts(502), Dropped),
        (facts(503), Dropped),
        (facts(504), Dropped),
    ],
)
def test_what_an_http_error_is(about: Facts, kind: type[Fault]) -> None:
    fault = of_status(about)
    assert isinstance(fault, kind)
    assert fault.hint
    assert "gh auth login" in fault.hint or about.status != 401


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ([{"type": "NOT_FOUND", "message": "Could not resolve"}], Missing),
        ([{"type": "FORBIDDEN", "message": "Resource not accessible"}], NeedsPerson),
        ([{"type": "INSUFFICIENT_SCOPES", "message": "needs read:org"}], NeedsPerson),
        ([{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}], Limited),
        ([{"type": "UNPROCESSABLE", "message": "No commits"}], Refused),
        ([{"type": "UNPROCESSABLE", "message": "Repository was archived so is read-only."}], Refused),
        ([{"message": "Something went wrong while executing your query."}], Dropped),
        ([{"message": "Field 'x' doesn't exist on type 'Y'"}], Unavailable),
        ([{"type": "NOT_FOUND", "message": "a"}, {"message": "Something went wrong"}], Dropped),
        ([{"type": "NOT_FOUND", "message": "a"}, {"type": "FORBIDDEN", "message": "b"}], NeedsPerson),
        ([{"type": "WHO_KNOWS", "message": "b"}], Unavailable),
    ],
)
def test_what_the_errors_of_a_graphql_answer_are(errors: list[dict[str, Any]], kind: type[Fault]) -> None:
    fault = of_graphql(errors, facts(said=said_by(errors)))
    assert isinstance(fault, kind)
    assert not isinstance(fault, Dropped) or kind is Dropped


# --- the pace ---


def test_a_short_pause_is_waited_for_and_a_long_one_told() -> None:
    clock = Clock()
    pace = clock.pace()
    pace.before("core")
    pace.limited("core", {"retry-after": "5"})
    pace.before("graphql")
    assert clock.pauses == [5.0]
    pace.limited("core", {"retry-after": "120"})
    with pytest.raises(Unavailable, match="rate limit") as caught:
        pace.before("graphql")
    assert "08:02:05 UTC" in caught.value.what
    clock.seconds += 121
    pace.before("graphql")


def test_a_budget_that_is_used_up_holds_only_what_it_counts() -> None:
    clock = Clock()
    pace = clock.pace()
    reset = str(int(clock.now().timestamp()) + 600)
    pace.learn("core", {"x-ratelimit-remaining": "0", "x-ratelimit-limit": "5000", "x-ratelimit-reset": reset})
    pace.before("graphql")
    with pytest.raises(Unavailable):
        pace.before("core")
    assert pace.budget is None


def test_the_reset_is_by_githubs_clock() -> None:
    clock = Clock()
    pace = clock.pace()
    pace.learn("core", {"date": "Fri, 15 Jan 2027 09:00:00 GMT"})  # an hour ahead of ours
    pace.limited("core", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(1_800_003_600 + 9)})
    pace.before("core")
    assert clock.pauses == [pytest.approx(10.0)]


def test_a_limit_that_names_no_time_is_waited_longer_each_time() -> None:
    clock = Clock()
    pace = clock.pace()
    for expected in (60, 120, 240):
        pace.limited("core", {})
        assert pace.left("graphql") == expected
        clock.seconds += expected
    pace.fine()
    pace.limited("core", {})
    assert pace.left("core") == 60
