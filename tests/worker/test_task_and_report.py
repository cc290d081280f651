"""TASK.md's header is read with clear faults, and RESULT.json is written whole, checked and filled in
from it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.cli.report import command
from schemas.errors import BadInput
from schemas.finding import Finding
from schemas.result import ResultError, parse_result
from tests.worker.conftest import World
from worker.report import (
    Extras,
    find_place,
    read_findings,
    report_addressed,
    report_failure,
    report_review,
    report_success,
    status_for,
)
from worker.task import BadTask, Task, parse_task, read_task
from worker.tools.files import MissingFile

HEADER = '<!-- taskmaestro {"task": "2-3", "kind": "fix", "cycle": 1} -->'


@given(
    st.text(max_size=30),
    st.none() | st.text(max_size=30),
    st.none() | st.integers(min_value=1, max_value=10**6),
    st.sampled_from(["first", "fix", "ci", "notice"]),
)
@settings(max_examples=100, deadline=None)
def test_any_header_that_is_written_is_read_back(task: str, branch: str | None, issue: int | None, kind: str) -> None:
    facts = {"task": task, "kind": kind, "branch": branch, "issue": issue, "new": {"field": [1]}}
    read = parse_task(f"<!-- taskmaestro {json.dumps(facts)} -->\n\nText --> more\n")
    assert (read.task, read.kind, read.branch, read.issue) == (task, kind, branch or None, issue)


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    for whole in (text, f"<!-- taskmaestro {text} -->", f'<!-- taskmaestro {{"kind": {text} -->'):
        with contextlib.suppress(BadTask):
            parse_task(whole)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected the header"),
        ("# Task", "expected the header"),
        ("<!-- taskmaestro {] -->", "not JSON"),
        ("<!-- taskmaestro [] -->", "not a JSON object"),
        ('<!-- taskmaestro {"kind": "second"} -->', "expected one of first, fix, ci, notice"),
        ('<!-- taskmaestro {"kind": "fix", "lease": "HEAD; rm"} -->', "expected a commit's SHA"),
        ('<!-- taskmaestro {"kind": "fix", "pr": 0} -->', "pr is 0"),
        ('<!-- taskmaestro {"kind": "fix", "pr": true} -->', "pr is True"),
        ('<!-- taskmaestro {"kind": "fix", "branch": 3} -->', "branch is 3"),
    ],
)
def test_a_bad_header_says_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(BadTask) as caught:
        parse_task(text)
    assert said in caught.value.what


def test_windows_line_ends_blank_lines_and_a_byte_order_mark_are_taken(tmp_path: Path) -> None:
    (tmp_path / "TASK.md").write_bytes(b"\xef\xbb\xbf\r\n" + HEADER.encode() + b"\r\n\r\n# Task\r\n")
    assert read_task(tmp_path).cycle == 1


def test_a_missing_or_irregular_task_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"TASK\.md is not there"):
        read_task(tmp_path)
    (tmp_path / "TASK.md").symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match="symbolic link"):
        read_task(tmp_path)


def test_reading_the_header_loads_no_model_library() -> None:
    code = "import sys, worker.task, worker.scripted.__main__; sys.exit('pydantic' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(
    ("kind", "about", "cycle", "wanted"),
    [
        ("first", None, 0, "success"),
        ("fix", None, 1, "addressed"),
        ("ci", None, 0, "success"),
        ("ci", "ci", 2, "addressed"),
        ("notice", "first", 0, "success"),
        ("notice", "first", 1, "success"),
        ("notice", "fix", 1, "addressed"),
    ],
)
def test_how_a_finished_task_is_reported(kind: str, about: str | None, cycle: int, wanted: str) -> None:
    task = Task(task="1", kind=kind, about=about, cycle=cycle)  # type: ignore[arg-type]
    assert status_for(task) == wanted


def test_success_needs_a_pull_request_from_somewhere(world: World) -> None:
    place = find_place(world.tree)
    with pytest.raises(BadInput, match="no pull request"):
        report_success(place)
    assert not (world.tree / "RESULT.json").exists()
    report_success(place, url="https://forge.invalid/o/r/pull/5")
    assert world.result()["pr_url"] == "https://forge.invalid/o/r/pull/5"
    world.task("first", pr=8)
    report_success(find_place(world.tree), extras=Extras("done", 0.5))
    assert world.result() == {
        "status": "success",
        "pr_number": 8,
        "issue": 7,
        "nonce": "n-1",
        "summary": "done",
        "cost": 0.5,
    }


def test_what_does_not_hold_is_not_written(world: World) -> None:
    place = find_place(world.tree)
    report_success(place, 3)
    with pytest.raises(ResultError, match="cost"):
        report_success(place, 4, extras=Extras(cost=-1))
    with pytest.raises(ResultError, match="pr_url"):
        report_success(place, url="not a url")
    assert world.result()["pr_number"] == 3


def test_failure_is_cleaned_and_not_empty(world: World) -> None:
    place = find_place(world.tree)
    report_failure(place, "broken \x1b[31mpipe\x07 \ud800")
    assert world.result()["error"] == "broken [31mpipe \ufffd"
    with pytest.raises(BadInput, match="empty"):
        report_failure(place, " \x00")


def test_addressed_answers_the_tasks_cycle(world: World) -> None:
    world.task("fix", pr=8, cycle=2)
    place = find_place(world.tree)
    report_addressed(place)
    assert (world.result()["review_cycle"], world.result()["pr_number"]) == (2, 8)
    with pytest.raises(BadInput, match="review cycle 2, not 1"):
        report_addressed(place, 1)


def test_without_a_task_the_options_must_say_it(world: World) -> None:
    (world.tree / "TASK.md").unlink()
    place = find_place(world.tree)
    with pytest.raises(BadInput, match="--cycle"):
        report_addressed(place)
    report_addressed(place, 1)
    assert world.result() == {"status": "review_addressed", "review_cycle": 1}


@pytest.mark.parametrize(
    ("old", "kept"),
    [
        ({"nonce": "n-1", "status": "failure", "error": "x", "team": {"a": 1}}, {"team": {"a": 1}}),
        ({"issue": "#7", "status": "review_pending", "team": 2, "findings": []}, {"team": 2}),
        ({"nonce": "n-0", "issue": 6, "status": "failure", "team": 2}, {}),
        ({"status": "failure", "team": 2}, {}),
    ],
)
def test_unknown_fields_stay_within_one_task_or_issue(
    world: World, old: dict[str, object], kept: dict[str, object]
) -> None:
    (world.tree / "RESULT.json").write_text(json.dumps(old))
    report_success(find_place(world.tree), 3)
    assert world.result() == {**kept, "status": "success", "pr_number": 3, "issue": 7, "nonce": "n-1"}


def test_an_unreadable_file_or_a_link_is_replaced(world: World, tmp_path: Path) -> None:
    (world.tree / "RESULT.json").write_text("{half")
    report_success(find_place(world.tree), 3)
    aim = tmp_path / "aim"
    aim.write_text("mine")
    (world.tree / "RESULT.json").unlink()
    (world.tree / "RESULT.json").symlink_to(aim)
    report_success(find_place(world.tree), 3)
    assert aim.read_text() == "mine"
    assert parse_result((world.tree / "RESULT.json").read_bytes()).pr == 3


def test_reports_come_from_a_workers_worktree_only(world: World, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a worker's worktree"):
        find_place(world.main)
    with pytest.raises(BadInput, match="not in a git working tree"):
        find_place(tmp_path)
    (world.tree / "sub").mkdir()
    assert find_place(world.tree / "sub").worktree == world.tree


FINDING = {"path": "a.py", "line": 3, "severity": "high", "message": "m", "impact": "i", "rule": "r"}


def test_a_review_carries_its_findings_and_counts(world: World, tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    path.write_text(json.dumps({"findings": [FINDING, {**FINDING, "severity": "low"}]}))
    findings = read_findings(str(path))
    report_review(find_place(world.tree), "changes_requested", findings)
    data = world.result()
    assert (data["status"], data["review_result"]) == ("success", "changes_requested")
    assert (data["issues_found"], data["critical_count"], data["high_count"]) == (2, 0, 1)
    with pytest.raises(BadInput, match="1 blocking findings do not go with approve"):
        report_review(find_place(world.tree), "approve", findings)
    deferred = Finding.model_validate({**FINDING, "deferred": {"reason": "later", "follow_up_issue": 9}})
    report_review(find_place(world.tree), "approve", [deferred])


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "expected JSON"), ("{}", "findings"), ('[{"path": "a"}]', r"0\.line"), ("3", "list")],
)
def test_bad_findings_are_refused_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        read_findings(str(path))


def test_the_verb(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.tree)
    answer = CliRunner().invoke(command, ["success", "--pr", "12", "--json"], catch_exceptions=False)
    assert json.loads(answer.stdout)["pr_number"] == 12
    world.task("fix", pr=12, cycle=1)
    answer = CliRunner().invoke(command, ["addressed", "--summary", "mended"], catch_exceptions=False)
    assert answer.stdout == "reported review_addressed, pull request #12\n"
    answer = CliRunner().invoke(
        command, ["review", "--result", "approve", "--findings-file", "-"], input="[]", catch_exceptions=False
    )
    assert world.result()["review_result"] == "approve"
    assert CliRunner().invoke(command, ["success", "--pr", "0"]).exit_code == 2
