"""Severities: the classification, and what well-known rules amount to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.severity import FAMILIES, TABLE, rate, spoils_whole_file
from schemas.finding import Severity


def test_the_table_has_every_severity_most_severe_first() -> None:
    assert [row.severity for row in TABLE] == list(Severity)
    assert all(row.stands_for and row.blocks for row in TABLE)


@pytest.mark.parametrize(
    ("tool", "rule", "severity"),
    [
        ("ruff", "F401", "medium"),
        ("ruff", "F841", "medium"),
        ("ruff", "F821", "critical"),
        ("ruff", "F811", "high"),
        ("ruff", "invalid-syntax", "critical"),
        ("ruff", "E999", "critical"),
        ("ruff", "E722", "high"),
        ("ruff", "E501", "low"),
        ("ruff", "I001", "low"),
        ("ruff", "S608", "critical"),
        ("ruff", "S105", "critical"),
        ("ruff", "S110", "high"),
        ("ruff", "S101", "medium"),
        ("ruff", "B006", "high"),
        ("ruff", "B904", "medium"),
        ("ruff", "BLE001", "high"),
        ("ruff", "ANN401", "high"),
        ("ruff", "ANN001", "medium"),
        ("ruff", "C901", "medium"),
        ("ruff", "D103", "medium"),
        ("ruff", "D205", "low"),
        ("ruff", "PLE0604", "high"),
        ("ruff", "TID251", "high"),
        ("Bandit", "B602", "critical"),
        ("ESLint", "@typescript-eslint/no-explicit-any", "high"),
        ("ESLint", "no-unused-vars", "medium"),
        ("ESLint", "no-eval", "critical"),
        ("ESLint", "complexity", "medium"),
        ("gitleaks", "aws-access-token", "critical"),
        ("semgrep", "python.lang.security.sql-injection", "critical"),
    ],
)
def test_known_rules_are_rated_by_what_they_mean(tool: str, rule: str, severity: str) -> None:
    assert rate(tool, rule, "warning").severity == severity


@pytest.mark.parametrize(
    ("level", "score", "severity"),
    [
        ("error", None, "high"),
        ("warning", None, "medium"),
        ("note", None, "low"),
        ("none", None, "low"),
        ("strange", None, "high"),
        ("note", 9.8, "critical"),
        ("note", 7.0, "high"),
        ("error", 4.0, "medium"),
        ("error", 0.1, "low"),
    ],
)
def test_other_rules_by_score_then_level(level: str, score: float | None, severity: str) -> None:
    assert rate("some-tool", "X1", level, score).severity == severity


def test_every_rating_has_an_impact() -> None:
    assert all(family.impact.strip() for family in FAMILIES)


@given(st.text(), st.text(), st.text(), st.none() | st.floats(0, 10))
def test_anything_gets_a_rating(tool: str, rule: str, level: str, score: float | None) -> None:
    assert rate(tool, rule, level, score).impact


def test_only_rules_about_parsing_count_on_unchanged_lines() -> None:
    assert spoils_whole_file("invalid-syntax")
    assert spoils_whole_file("E999")
    assert not spoils_whole_file("F401")
    assert not spoils_whole_file("E901x")
