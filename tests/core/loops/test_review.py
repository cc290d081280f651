"""Plan, merge and draft beyond the worked examples: lenses, limitations, unreadable input, hostile text."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.loops import draft, merge, plan
from conductor.core.loops.lenses import DEFAULT_LENSES
from schemas.errors import BadInput
from schemas.loops.review import ANGLES

BAD = {"path": "a.py", "line": 3, "message": "wrong", "severity": "high"}


def results(*findings: Any, **more: Any) -> dict[str, Any]:
    return {"headSha": "abc", "runResults": [{"angle": "tests", "findings": list(findings)}], **more}


def test_each_lens_has_a_run_of_its_angle() -> None:
    made = plan.detect({"lenses": DEFAULT_LENSES})
    assert [(run["lens"], run["angle"]) for run in made["runs"]] == list(DEFAULT_LENSES.items())
    assert set(made["angles"]) <= set(ANGLES)
    assert made["batches"] == [["review-angle-01", "review-angle-02", "review-angle-03"]]
    assert made["limitations"] == []


def test_lenses_that_do_not_fit_side_by_side_are_all_covered_and_that_is_recorded() -> None:
    made = plan.detect({"lenses": DEFAULT_LENSES, "maxParallel": 1})
    assert [run["lens"] for run in made["runs"]] == ["dry", "kiss", "yagni"]
    assert [len(batch) for batch in made["batches"]] == [1, 1, 1]
    assert made["limitations"] == ["3 lens passes did not all run in parallel: at most 1 at a time"]


def test_the_limitation_of_the_plan_reaches_the_merged_review_and_its_draft() -> None:
    made = plan.detect({"lenses": DEFAULT_LENSES, "maxParallel": 2})
    runs = [{"angle": run["angle"], "lens": run["lens"], "findings": []} for run in made["runs"]]
    merged = merge.detect(
        {"headSha": "abc", "runResults": runs, "lenses": DEFAULT_LENSES, **_only(made, "limitations")}
    )
    assert merged["verdict"] == "APPROVE"
    assert merged["limitations"] == made["limitations"]
    assert made["limitations"][0] in draft.detect(merged)["body"]


def _only(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: value[name]}


def test_a_lens_that_no_run_covered_rules_an_approval_out() -> None:
    merged = merge.detect(results(lenses=["dry", "kiss"]))
    assert merged["verdict"] == "COMMENT"
    assert merged["limitations"] == ["no run covered the lens dry", "no run covered the lens kiss"]


def test_asked_angles_fill_what_the_lenses_leave() -> None:
    made = plan.detect({"lenses": {"yagni": "scope"}, "requestedAngles": ["scope", "tests", "security", "correctness"]})
    assert made["angles"] == ["scope", "tests", "security"]


@pytest.mark.parametrize("lenses", [{"dry": "beauty"}, {"": "scope"}, {"dry": None}, ["dry"], "dry"])
def test_a_lens_without_an_angle_is_an_error(lenses: object) -> None:
    with pytest.raises(BadInput):
        plan.detect({"lenses": lenses})


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({}, "runResults"),
        ({"runResults": None}, "runResults"),
        ({"runResults": [3]}, "runResults[0]"),
        ({"runResults": [{}]}, "runResults[0].findings"),
        ({"runResults": [{"findings": [None]}]}, "runResults[0].findings[0]"),
    ],
)
def test_results_that_cannot_be_read_never_become_an_approval(value: object, names: str) -> None:
    with pytest.raises(BadInput) as fault:
        merge.detect(value)
    assert fault.value.what.startswith(f"{names} must be")


def test_the_same_finding_counts_once_and_the_first_one_stays() -> None:
    merged = merge.detect(results(BAD, {**BAD, "message": " WRONG ", "severity": "low"}, {**BAD, "line": 4}))
    assert [(one["line"], one["severity"]) for one in merged["inlineComments"]] == [(3, "high"), (4, "high")]


def test_parts_of_a_place_do_not_run_into_each_other() -> None:
    one = {"path": "a|1", "line": None, "message": "x"}
    other = {"path": "a", "line": 1, "message": "|x"}
    assert merge.detect(results(one, other))["totalFindings"] == 2


def test_a_hint_without_a_finding_asks_for_nothing() -> None:
    hinting = {"findings": [], "verdictHint": "REQUEST_CHANGES"}
    assert merge.detect({"runResults": [hinting]})["verdict"] == "APPROVE"
    light = {"findings": [{"message": "m", "severity": "low"}]}
    assert merge.detect({"runResults": [hinting, light]})["verdict"] == "REQUEST_CHANGES"


def test_a_draft_carries_no_control_characters_and_no_submission() -> None:
    payload = draft.detect(merge.detect(results({**BAD, "message": "a\x1b[31mb\n- c"}, {"message": "x\n\n# y"})))
    assert set(payload) == {"ok", "commit_id", "body", "comments"}
    assert payload["comments"][0]["body"] == "a[31mb\n- c"
    assert "- **medium**: x # y" in payload["body"].splitlines()


def test_a_comment_without_its_place_is_told_in_the_body() -> None:
    lost = {"message": "lost", "severity": "low"}
    payload = draft.detect({**merge.detect(results(lost)), "inlineComments": [lost], "summaryFindings": []})
    assert payload["comments"] == []
    assert "lost" in payload["body"]


def test_a_long_body_is_cut_and_says_so() -> None:
    findings = [{"message": f"{number} " + "x" * 900} for number in range(200)]
    body = draft.detect(merge.detect(results(*findings)))["body"]
    assert len(body) <= draft.LONGEST_BODY
    assert "more lines are left out" in body


# --- runs that failed, came twice, or looked for something else ---


def lens_run(angle: str | None, **more: Any) -> dict[str, Any]:
    return {"runId": "r", "angle": angle, "lens": "dry", "findings": [], **more}


@pytest.mark.parametrize(
    ("lenses", "angle", "verdict"),
    [
        ({"dry": "maintainability"}, "maintainability", "APPROVE"),
        ({"dry": "maintainability"}, "tests", "COMMENT"),
        ({"dry": "tests"}, "tests", "APPROVE"),
        ({"dry": "tests"}, None, "COMMENT"),
        (["dry"], "maintainability", "APPROVE"),
        (["dry"], "tests", "COMMENT"),
        (["clarity"], "tests", "APPROVE"),
    ],
)
def test_a_lens_is_covered_by_a_run_of_its_own_angle_alone(lenses: Any, angle: str | None, verdict: str) -> None:
    run = lens_run(angle, lens=next(iter(lenses)))
    merged = merge.detect({"runResults": [run], "lenses": lenses})
    assert merged["verdict"] == verdict
    assert ("limitations" in merged) == (verdict == "COMMENT")


def test_a_run_counts_once() -> None:
    with pytest.raises(BadInput, match="the run review-angle-01 twice"):
        merge.detect({"runResults": [{"runId": "review-angle-01", "findings": []}] * 2})


@pytest.mark.parametrize("sign", [{"status": "failed"}, {"status": "timed_out"}, {"ok": False}, {"error": "boom"}])
def test_a_failed_run_rules_an_approval_out(sign: dict[str, Any]) -> None:
    for findings in ({}, {"findings": None}, {"findings": []}):
        merged = merge.detect({"runResults": [{"runId": "r1", **sign, **findings}]})
        assert (merged["verdict"], merged["limitations"]) == ("COMMENT", ["a review run failed: r1"])
    missing = lens_run("maintainability", **sign)
    assert "no run covered the lens dry" in merge.detect({"runResults": [missing], "lenses": ["dry"]})["limitations"]
    assert merge.detect({"runResults": [{"status": "completed", "findings": []}]})["verdict"] == "APPROVE"


def test_what_merging_answers_always_fits_together() -> None:
    for runs in ([], [{"findings": [BAD]}], [{"findings": [{"path": "a", "line": 1}]}], [{"status": "failed"}]):
        draft.detect(merge.detect({"runResults": runs}))


def test_an_approval_does_not_go_with_a_pass_that_was_not_complete() -> None:
    merged = merge.detect(results(lenses=["dry"]))
    with pytest.raises(BadInput, match="not complete"):
        draft.detect({**merged, "verdict": "APPROVE"})
