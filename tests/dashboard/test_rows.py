"""Rows and tables fit the terminal, and show times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from conductor.dashboard.rows import Row, age, attention_lines, moment, plain_table, row_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STATE = {
    "index": 2,
    "role": "worker",
    "agent": "claude",
    "status": "review_pending",
    "review_cycle": 1,
    "pr_number": 1234,
    "head_sha": "abcdef0123456789",
    "last_event": "review asks for changes at the cap",
    "updated_at": "2026-03-01T11:57:00Z",
    "awaiting": "a person to deliver task abcd-12-345",
    "attention": {"reason": "cycle_cap", "since": "2026-03-01T11:00:00Z", "message": "first line\n" + "x" * 300},
}


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "now"), (12, "12 s"), (60, "1 min"), (7200, "2 h"), (4 * 86400, "4 d"), (-5, "now")]
)
def test_ages(seconds: int, words: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == words


def test_a_time_that_is_none_is_shown_as_nothing() -> None:
    assert moment("yesterday") is None
    assert age(moment("yesterday"), NOW) == ""


def test_a_row_of_a_whole_state() -> None:
    row = row_of(STATE, max_cycles=3, now=NOW)
    assert row[:9] == (
        "2", "claude", "review_pending", "1/3", "#1234", "abcdef0",
        "review asks for changes at the cap", "3 min", "a person to deliver task abcd-12-345",
    )  # fmt: skip
    assert row.attention is not None
    assert (row.attention.reason, row.attention.since) == ("cycle_cap", "1 h")


@pytest.mark.parametrize("state", [{}, {"index": None, "review_cycle": "x", "attention": "no", "pr_number": "4"}])
def test_a_state_with_anything_in_it_is_a_row(state: dict[str, object]) -> None:
    assert isinstance(row_of(state, max_cycles=3, now=NOW), Row)


def test_a_conductor_has_no_cycle_and_a_reviewer_says_so() -> None:
    assert row_of({"index": 0, "role": "conductor"}, max_cycles=3, now=NOW).cycle == "-"
    assert (
        row_of({"index": 4, "role": "reviewer", "agent": "claude"}, max_cycles=3, now=NOW).agent == "reviewer: claude"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = [row_of({**STATE, "index": index}, max_cycles=3, now=NOW) for index in (1, 2, 10)]
    lines = plain_table(rows, width).splitlines()
    assert max(map(len, lines)) <= width
    assert all("review_pending" in line and "1/3" in line and "#1234" in line for line in lines[1:4])
    assert ("LAST EVENT" in lines[0]) is (width >= 100)


def test_attention_has_the_whole_message_below_the_table() -> None:
    row = row_of(STATE, max_cycles=3, now=NOW)
    assert attention_lines(row, 80) == [
        "! pane 2 needs a person: cycle_cap (1 h)",
        "    first line",
        "    " + "x" * 75 + "…",
    ]
    assert attention_lines(row_of({**STATE, "attention": None}, max_cycles=3, now=NOW), 80) == []
