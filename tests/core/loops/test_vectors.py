"""Every worked example comes out as it says."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.loops import draft, follow_up_loop, merge, plan, reviewer_loop, routing
from tests.core.loops.vectors import vectors


@pytest.mark.parametrize("case", vectors("reviewer_loop"))
def test_reviewer_loop(case: dict[str, Any]) -> None:
    answer = reviewer_loop.detect(case["snapshot"])
    assert answer["ok"] is True
    assert answer["snapshot"] == case["normalized"]
    assert answer["state"] == case["state"]
    assert answer["allowedTransitions"] == case["allowed"]
    assert answer["nextAction"]


@pytest.mark.parametrize("case", vectors("follow_up_loop"))
def test_follow_up_loop(case: dict[str, Any]) -> None:
    answer = follow_up_loop.detect(case["snapshot"], case["config"])
    assert answer["state"] == case["state"]
    assert answer["allowedTransitions"] == case["allowed"]
    for name in ("autoRerequestEligible", "sameHeadCleanConverged", "disposition", "terminal"):
        assert answer[name] == case[name], name


@pytest.mark.parametrize("case", vectors("routing"))
def test_routing(case: dict[str, Any]) -> None:
    answer = routing.detect(case["input"])
    envelope = answer["handoffEnvelope"]
    assert {name: answer[name] for name in ("routingOutcome", "outerAction", "stopReason")} == {
        name: case[name] for name in ("routingOutcome", "outerAction", "stopReason")
    }
    assert {name: envelope[name] for name in ("loopFamily", "requiresLocalIsolation", "targetIdentity")} == {
        name: case[name] for name in ("loopFamily", "requiresLocalIsolation", "targetIdentity")
    }
    mode = case["input"].get("sourceMode")
    assert envelope["confidence"] == (mode if mode in ("authoritative", "snapshot") else "local")


@pytest.mark.parametrize("case", vectors("review_plan"))
def test_plan(case: dict[str, Any]) -> None:
    assert plan.detect(case["options"]) == {"ok": True, **case["plan"]}


@pytest.mark.parametrize("case", vectors("review_merge"))
def test_merge_and_draft(case: dict[str, Any]) -> None:
    merged = merge.detect(case["input"])
    assert merged == {"ok": True, **case["merged"]}
    payload = draft.detect(merged)
    assert f"Verdict: {case['merged']['verdict']}" in payload["body"]
    assert f"findings: {case['merged']['totalFindings']}" in payload["body"]
    assert f"runs merged: {case['merged']['runsMerged']}" in payload["body"]
    assert {name: payload[name] for name in ("commit_id", "comments")} == case["payload_without_body"]
