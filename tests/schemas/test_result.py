"""RESULT.json from bytes: what is taken, and for everything else a fault that names the place."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import ResultSeen
from schemas.journal import JOURNAL_LINE, EventLine
from schemas.result import MAX_BYTES, Result, ResultError, ResultStatus, parse_result, pr_number_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = 8.0
"""Seconds that one file may take on a machine that is busy with others; what is meant is far below one."""


def _journalled(result: Result) -> Result:
    """The result after a way through the journal."""
    event = ResultSeen(pane=1, at=AT, result=result, digest="d", stamp="s")
    line = JOURNAL_LINE.validate_json(JOURNAL_LINE.dump_json(EventLine(seq=1, at=AT, host="h", event=event)))
    assert isinstance(line, EventLine)
    assert isinstance(line.event, ResultSeen)
    return line.event.result


def _answer(raw: bytes) -> Result | ResultError:
    try:
        return parse_result(raw)
    except ResultError as fault:
        return fault


def _refused(raw: bytes | dict[str, Any]) -> ResultError:
    with pytest.raises(ResultError) as raised:
        parse_result(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    assert raised.value.place
    assert raised.value.expected
    assert "\n" not in raised.value.place + raised.value.expected
    return raised.value


@pytest.mark.parametrize("issue", [867, "867", "#867"])
def test_an_issue_is_a_number_in_three_spellings(issue: object) -> None:
    assert parse_result(json.dumps({"status": "failure", "issue": issue}).encode()).issue == 867


@pytest.mark.parametrize("status", ResultStatus)
def test_each_status_is_taken_with_what_it_needs(status: ResultStatus) -> None:
    raw = {"status": status, "pr_number": 3, "review_cycle": 1}
    assert parse_result(json.dumps(raw).encode()).status is status


@pytest.mark.parametrize(
    ("url", "number"),
    [
        ("https://example.invalid/o/r/pull/12", 12),
        ("http://example.invalid/o/r/pulls/12/files?w=1#x", 12),
        ("https://example.invalid/o/r/-/merge_requests/7", 7),
        ("local://here/pull/3", 3),
        ("https://example.invalid/o/r/pull/12x", None),
        ("https://example.invalid/o/r/pull/", None),
        ("https://example.invalid/o/r/pull/0", None),
        ("https://example.invalid/o/r/pull/\u0663", None),
        ("https://example.invalid/o/r/pull/12\n", None),
        ("https://example.invalid/o/r/pull/" + "9" * 5000, None),
        ("ftp://example.invalid/o/r/pull/12", None),
        ("javascript:alert(1)//pull/12", None),
        ("", None),
    ],
)
def test_a_number_is_read_from_a_url(url: str, number: int | None) -> None:
    assert pr_number_of(url) == number
    if number is not None:
        assert parse_result(json.dumps({"status": "success", "pr_url": url}).encode()).pr == number


@pytest.mark.parametrize(
    ("raw", "place", "expected"),
    [
        (b"", "line 1 column 1", "expected JSON"),
        (b"{\n  'a': 1}", "line 2 column 3", "expected JSON"),
        (b'{"status": "success", "pr_number": 1', "line 1 column 37", "expected JSON"),
        (b"[]", "line 1 column 1", "expected a JSON object, found a list"),
        (b"null", "line 1 column 1", "found null"),
        (b'"success"', "line 1 column 1", "found a string"),
        (b"true", "line 1 column 1", "found a boolean"),
        (b"1.5", "line 1 column 1", "found a number"),
        (b'{"status":\n "\xff"}', "line 2 column 3", "expected UTF-8 text"),
        ('{"status": "success"}'.encode("utf-16"), "line 1 column 1", "expected UTF-8 text"),
        (b"{}", "field status", "required"),
        (b'{"status": "done"}', "field status", "'success', 'failure'"),
        (b'{"status": 1}', "field status", "'success', 'failure'"),
        (b'{"status": "success"}', "whole object", "pr_number or pr_url"),
        (b'{"status": "success", "pr_number": "12"}', "field pr_number", 'valid integer, found "12"'),
        (b'{"status": "success", "pr_number": true}', "field pr_number", "valid integer, found true"),
        (b'{"status": "success", "pr_number": 0}', "field pr_number", "greater than or equal to 1"),
        (b'{"status": "success", "pr_number": 1.0}', "field pr_number", "valid integer"),
        (b'{"status": "success", "pr_url": "x"}', "field pr_url", "expected a pull request's"),
        (b'{"status": "failure", "cost": ' + b"9" * 5000 + b"}", "whole file", "a number too long to read"),
        (b'{"status": "success", "pr_number": 1, "pr_url": "https://x/pull/2"}', "whole object", "different"),
        (b'{"status": "review_addressed"}', "whole object", "needs review_cycle"),
        (b'{"status": "review_addressed", "review_cycle": -1}', "field review_cycle", "greater than"),
        (b'{"status": "failure", "issue": "12a"}', "field issue", "valid integer"),
        (b'{"status": "failure", "issue": []}', "field issue", "valid integer"),
        (b'{"status": "failure", "cost": -1}', "field cost", "greater than or equal to 0"),
        (b'{"status": "failure", "cost": NaN}', "whole file", "NaN is not JSON"),
        (b'{"status": "failure", "x": -Infinity}', "whole file", "-Infinity is not JSON"),
        (b'{"status": "failure", "x": 1e999}', "field x", "too large"),
        (b'{"status": "failure", "x": {"y": [0, -1e999]}}', "field x.y.1", "too large"),
        (b'{"status": "failure", "pr_number": ' + b"9" * 400 + b"}", "field pr_number", "less than or equal"),
        (b'{"status": "failure", "issue": "' + b"9" * 5000 + b'"}', "field issue", "valid integer"),
        (b'{"status": "failure", "x": ' + b"9" * 5000 + b"}", "whole file", "a number too long to read"),
        (b'{"status": "failure", "error": "\\ud800"}', "field error", "surrogate"),
        (b'{"status": "failure", "x": ["\\udfff"]}', "field x.0", "surrogate"),
        (b'{"status": "failure", "\\ud800": 1}', "whole object", "surrogate"),
        (b'{"status": "failure", "x": ' + b"[" * 100 + b"]" * 100 + b"}", "field x.0.0.0.0.0...", "64 levels"),
        (b'{"status": ' + b'{"a":' * 200 + b"1" + b"}" * 201, "field status.a.a.a.a.a...", "64 levels"),
        (b"[" * 200_000, "whole file", "nesting too deep"),
        (b'{"status": "success", "review_result": "lgtm"}', "field review_result", "'approve'"),
        (b'{"status": "success", "review_result": "approve", "findings": [{}]}', "field findings.0.path", "required"),
        (b'{"status": "failure"}' + b" " * MAX_BYTES, "whole file", "at most 1048576 bytes, found 1048597"),
    ],
)
def test_bad_input_is_refused_with_its_place_and_what_was_expected(raw: bytes, place: str, expected: str) -> None:
    fault = _refused(raw)
    assert fault.place == place
    assert expected in fault.expected


def test_the_largest_file_is_taken() -> None:
    raw = b'{"status": "failure"}'
    assert parse_result(raw + b" " * (MAX_BYTES - len(raw))).status is ResultStatus.FAILURE


def test_a_byte_order_mark_is_no_fault() -> None:
    assert parse_result(b'\xef\xbb\xbf{"status": "error", "error": "x"}').error == "x"


def test_of_two_equal_names_the_last_one_counts() -> None:
    assert parse_result(b'{"status": "approved", "status": "failure"}').status is ResultStatus.FAILURE


def test_fields_that_are_not_known_are_kept_also_by_the_journal() -> None:
    more = {"model": "x", "deep": {"a": [1, 2.5, None, True, "\u2028 \U0001f600"]}, "big": 10**300, "": 0}
    result = parse_result(json.dumps({"status": "failure", **more}).encode())
    assert result.model_extra == more
    assert _journalled(result) == result


def test_a_review_panes_file_needs_no_pull_request() -> None:
    finding = {"path": "a", "line": 1, "severity": "high", "message": "m", "impact": "i", "rule": "r", "extra": 1}
    raw = {"status": "success", "review_result": "changes_requested", "high_count": 1, "findings": [finding]}
    result = parse_result(json.dumps(raw).encode())
    assert result.findings is not None
    assert result.findings[0].blocking
    assert _journalled(result) == result


def test_what_is_quoted_of_a_bad_value_is_short_and_clean() -> None:
    fault = _refused({"status": "\x1b[2J" + "x" * 10_000})
    assert "\x1b" not in str(fault)
    assert len(str(fault)) < 500


@pytest.mark.parametrize(
    "raw",
    [
        b'{"status":"failure","pr_url":"https://x' + b"/pull/1/" * 120_000 + b'\\nx"}',
        b'{"status":"failure","pr_url":"https://x' + b"/pull/1x" * 120_000 + b'"}',
        b'{"status":"failure","x":[' + b"[]," * 300_000 + b"1]}",
        b'{"status":"failure","x":"' + b"\\u00e9" * 170_000 + b'"}',
        b'{"status":"failure",' + b",".join(b'"%d":0' % number for number in range(90_000)) + b"}",
        b"{" * 500_000,
        b'"' + b"\\" * 1_000_000,
    ],
    ids=["urls", "broken urls", "lists", "escapes", "names", "braces", "backslashes"],
)
def test_no_file_is_slow(raw: bytes) -> None:
    assert len(raw) <= MAX_BYTES
    begun = time.process_time()
    answer = _answer(raw)
    assert time.process_time() - begun < SLOW
    assert isinstance(answer, Result) or len(str(answer)) < 1000


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**40, 10**50)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
names = st.sampled_from([*Result.model_fields, "reason", "written_by", ""])
objects = st.dictionaries(names, json_values | st.sampled_from([*ResultStatus]), max_size=8)
likely = st.fixed_dictionaries(
    {"status": st.sampled_from([*ResultStatus])},
    optional={
        "issue": st.integers(-1, 5) | st.sampled_from(("#7", "7", "#", "")),
        "pr_number": st.integers(-1, 5) | json_values,
        "pr_url": st.sampled_from(("https://x/pull/3", "https://x/pull/", "")) | st.text(max_size=20),
        "review_cycle": st.integers(-1, 120),
        "cost": st.floats() | st.integers(),
        "findings": st.lists(json_values, max_size=2),
        "reason": json_values,
    },
)


def _taken_or_refused(raw: bytes) -> None:
    answer = _answer(raw)
    if isinstance(answer, ResultError):
        assert answer.place
        str(answer).encode()
    else:
        assert _journalled(answer) == answer


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_result_or_a_fault(raw: bytes) -> None:
    _taken_or_refused(raw)


@settings(max_examples=300, deadline=None)
@given(objects | likely, st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "latin-1")))
def test_any_object_is_a_result_that_the_journal_keeps_or_a_fault(value: dict[str, Any], encoding: str) -> None:
    _taken_or_refused(json.dumps(value, ensure_ascii=True).encode(encoding))


@settings(max_examples=200, deadline=None)
@given(likely, st.data())
def test_a_result_with_bytes_changed_is_a_result_or_a_fault(value: dict[str, Any], data: st.DataObject) -> None:
    raw = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    _taken_or_refused(bytes(raw))
    _taken_or_refused(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
