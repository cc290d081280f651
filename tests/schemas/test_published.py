"""The published schemas take and refuse the same files as the readers do."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from conductor.docs.published import PUBLISHED, schema
from schemas.config import Config
from schemas.errors import BadInput
from schemas.finding import Finding
from schemas.result import parse_result

SUCCESS: dict[str, Any] = {"status": "success", "pr_number": 12}
RESULTS: list[tuple[dict[str, Any], bool]] = [
    (SUCCESS, True),
    ({"status": "success", "pr_url": "https://forge.example/o/r/pull/12"}, True),
    ({**SUCCESS, "issue": 867}, True),
    ({**SUCCESS, "issue": "867"}, True),
    ({**SUCCESS, "issue": "#867"}, True),
    ({**SUCCESS, "issue": None, "anything": [1]}, True),
    ({**SUCCESS, "cost": 0.5, "summary": "s", "nonce": "n"}, True),
    ({"status": "failure", "error": "e"}, True),
    ({"status": "review_addressed", "review_cycle": 1}, True),
    ({"status": "success", "review_result": "approve", "critical_count": 0}, True),
    ({"status": "success"}, False),
    ({"status": "success", "pr_number": None}, False),
    ({"status": "review_addressed"}, False),
    ({"status": "review_addressed", "review_cycle": None}, False),
    ({"status": "finished"}, False),
    ({}, False),
    ({**SUCCESS, "pr_number": 0}, False),
    ({**SUCCESS, "pr_number": "12"}, False),
    ({**SUCCESS, "pr_number": True}, False),
    ({**SUCCESS, "issue": "no"}, False),
    ({**SUCCESS, "issue": "#0"}, False),
    ({**SUCCESS, "issue": 1.5}, False),
    ({**SUCCESS, "cost": -1}, False),
    ({**SUCCESS, "review_cycle": -1}, False),
    ({**SUCCESS, "findings": [{"path": "a"}]}, False),
    ({**SUCCESS, "review_result": "maybe"}, False),
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_is_a_valid_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize(("value", "good"), RESULTS, ids=lambda value: json.dumps(value)[:60])
def test_result_files(value: dict[str, Any], good: bool) -> None:
    assert Draft202012Validator(schema("result")).is_valid(value) is good
    if good:
        parse_result(json.dumps(value).encode())
    else:
        with pytest.raises(BadInput):
            parse_result(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("", True),
        ('[battery]\nlint = "ruff check"', True),
        ('[battery]\nlint = ["ruff", "check"]', True),
        ("[battery]\nlint = []", False),
        ('[battery]\nlint = ""', False),
        ("[review]\nmax_cycles = 0", False),
        ("[review]\nmax_cylces = 3", False),
        ('[forge.local.checks]\ntests = "pytest -q"', True),
        ('[agents.mine]\ncommand = "mine --go"\nidle = "^> $"', True),
        ('[agents.mine]\nprompt = "shout"', False),
    ],
)
def test_configurations(text: str, good: bool) -> None:
    value = tomllib.loads(text)
    assert Draft202012Validator(schema("config")).is_valid(value) is good
    if good:
        Config.model_validate(value)
    else:
        with pytest.raises(ValidationError):
            Config.model_validate(value)


def test_findings() -> None:
    good = {"path": "a.py", "line": 3, "severity": "high", "message": "m", "impact": "i", "rule": "r"}
    validator = Draft202012Validator(schema("finding"))
    assert validator.is_valid(good)
    Finding.model_validate(good)
    for broken in ({**good, "line": 0}, {**good, "severity": "P1"}, {**good, "impact": ""}):
        assert not validator.is_valid(broken)
