"""Reviewers that are programs: the packet in, findings out, and everything that can go wrong between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.review.command_reviewer import read_answer, reviewers
from schemas.errors import BadInput
from schemas.review import StepReport
from tests.review.support import Project, found, never, only_step, script

GOOD = {"path": "a.md", "line": 1, "severity": "high", "message": "Wrong", "impact": "Bad", "rule": "logic"}
ANSWER = json.dumps({"findings": [GOOD]})


def judge(tmp_path: Path, code: str, **review: object) -> tuple[StepReport, int]:
    """The report, and how often the reviewer was run."""
    project = Project.make(tmp_path, {}, {"a.md": "x\n"})
    runs = tmp_path / "runs"
    argv = script(tmp_path, "judge.py", f"with open({str(runs)!r}, 'a') as f: f.write('x')\n{code}")
    step = only_step(reviewers(project.context(reviewers={"judge": list(argv)}, **review)))
    return step.run(project.packet(), never), len(runs.read_text(encoding="utf-8"))


def test_the_packet_goes_in_and_findings_come_out(tmp_path: Path) -> None:
    code = (
        "import json, sys\npacket = json.load(sys.stdin)\n"
        "print(json.dumps({'findings': [{'path': packet['changed_files'][0], 'line': 1, 'severity': 'critical',"
        " 'message': packet['pr']['title'], 'impact': str('+x' in packet['diff'])}]}))"
    )
    report, runs = judge(tmp_path, code)
    assert found(report) == [("a.md:1", "critical", "judge")]
    assert (report.findings[0].message, report.findings[0].impact, runs) == ("Work", "True", 1)


def test_no_findings_is_an_answer(tmp_path: Path) -> None:
    report, _ = judge(tmp_path, "print('{\"findings\": []}')")
    assert (report.outcome, report.findings) == ("ran", ())


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        f"Here it is:\n```json\n{ANSWER}\n```\nDone.",
        json.dumps({"type": "result", "result": ANSWER}),
        json.dumps({"result": f"```\n{ANSWER}\n```"}),
    ],
)
def test_agents_wrappings_are_taken_off(text: str) -> None:
    assert [(f.location, f.rule, f.step) for f in read_answer(text, "judge")] == [("a.md:1", "judge:logic", "judge")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"severity": "blocker"}, "severity"),
        ({"line": 0}, "line"),
        ({"line": None}, "line"),
        ({"message": ""}, "message"),
        ({"message": "\x1b\x07"}, "need words"),
        ({"impact": None}, "impact"),
        ({"path": "/etc/passwd"}, "not below the checkout"),
        ({"path": "../x"}, "not below the checkout"),
    ],
)
def test_one_finding_that_does_not_fit_spoils_the_answer(change: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_answer(json.dumps({"findings": [GOOD, {**GOOD, **change}]}), "judge")


@pytest.mark.parametrize(
    "text", ["", "LGTM!", "[]", "{}", '{"findings": null}', '{"findings": {}}', '{"result": "ok"}']
)
def test_what_is_no_answer_is_a_fault(text: str) -> None:
    with pytest.raises(BadInput):
        read_answer(text, "judge")


def test_a_reviewer_cannot_defer_its_own_finding() -> None:
    text = json.dumps({"findings": [{**GOOD, "deferred": {"reason": "later", "follow_up_issue": 1}}]})
    assert read_answer(text, "judge")[0].blocking


@pytest.mark.parametrize("code", ["print('LGTM')", f"print({ANSWER!r}); raise SystemExit(1)", "raise SystemExit(2)"])
def test_a_bad_run_is_tried_once_more_and_then_could_not_run(tmp_path: Path, code: str) -> None:
    report, runs = judge(tmp_path, code)
    assert (report.outcome, report.findings, runs) == ("could_not_run", (), 2)


def test_a_good_second_answer_counts(tmp_path: Path) -> None:
    code = f"import os\nprint({ANSWER!r} if os.path.getsize({str(tmp_path / 'runs')!r}) == 2 else 'oops')"
    report, runs = judge(tmp_path, code)
    assert (report.outcome, len(report.findings), runs) == ("ran", 1, 2)


def test_a_reviewer_that_hangs_could_not_run_within_the_steps_time(tmp_path: Path) -> None:
    report, runs = judge(tmp_path, "import time; time.sleep(60)", step_timeout=1.0)
    assert (report.outcome, runs) == ("could_not_run", 1)
    assert report.seconds < 15


def test_a_missing_reviewer_could_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.md": "x\n"})
    step = only_step(reviewers(project.context(reviewers={"judge": ["no-such-judge"]})))
    report = step.run(project.packet(), never)
    assert report.outcome == "could_not_run"
    assert "no-such-judge" in report.detail


@given(st.text())
def test_no_answer_makes_it_fail_otherwise(text: str) -> None:
    for given_text in (text, json.dumps({"findings": [{**GOOD, "path": text, "message": text}]})):
        try:
            read_answer(given_text, "judge")
        except BadInput as fault:
            caught = fault
        else:
            continue
        assert caught.hint
