"""Places in the output of tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.review.located import failed_tests, places


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("a.py", "src/app.ts", "src/main.rs", "pkg/go/x_test.go", "tests/test_a.py", "with blank.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("a.py:3:1: F401 `os` imported but unused", ("a.py", 3, "F401 `os` imported but unused")),
        ("a.py:3: error: Incompatible types  [assignment]", ("a.py", 3, "error: Incompatible types [assignment]")),
        ("F401 [*] `os` imported but unused\n --> a.py:3:8\n  |", ("a.py", 3, "F401 [*] `os` imported but unused")),
        ("src/app.ts(4,2): error TS2322: Type 'x'", ("src/app.ts", 4, "error TS2322: Type 'x'")),
        ("src/app.ts\n  7:5  error  No any  no-explicit-any\n  9:1  warning  meh  x", ("src/app.ts", 7, None)),
        ("error[E0308]: mismatched types\n --> src/main.rs:5:2", ("src/main.rs", 5, "error[E0308]: mismatched types")),
        ("./src/app.ts:9:2: oops", ("src/app.ts", 9, "oops")),
        ("--- FAIL: TestX\n    x_test.go:12: got 1", ("pkg/go/x_test.go", 12, "got 1")),
        ("tests/test_a.py:8: AssertionError", ("tests/test_a.py", 8, "AssertionError")),
        ('  File "tests/test_a.py", line 5, in x', ("tests/test_a.py", 5, "")),
        ("    at Object.<anonymous> (src/app.ts:5:10)", ("src/app.ts", 5, "")),
        ("with blank.py:2:1: E1 bad", ("with blank.py", 2, "E1 bad")),
    ],
)
def test_formats_of_tools(checkout: Path, output: str, wanted: tuple[str, int, str | None]) -> None:
    (place,) = places(output, checkout, ["pkg/go/x_test.go"])
    assert (place.path, place.line) == wanted[:2]
    assert wanted[2] is None or place.message == wanted[2]


def test_absolute_paths_into_the_checkout_count_and_others_do_not(checkout: Path) -> None:
    output = f"{checkout}/a.py:3: error: x\n/etc/passwd:1: error: y\nmade/up.py:1: error: z\n../a.py:1: error: q"
    assert [(p.path, p.line) for p in places(output, checkout)] == [("a.py", 3)]


def test_notes_and_warnings_are_no_places(checkout: Path) -> None:
    assert places("a.py:3: note: see here\na.py:4:1: warning: meh", checkout) == ()


def test_pytests_summary_names_tests() -> None:
    output = "FAILED tests/test_a.py::test_x[a b] - assert 1 == 2\nERROR tests/test_b.py::TestC::test_d\nfine"
    assert failed_tests("FAILED tests/test_a.py::test_x - assert 1 == 2\n" + output) == (
        ("tests/test_a.py", "test_x", "assert 1 == 2"),
        ("tests/test_a.py", "test_x[a b]", "assert 1 == 2"),
        ("tests/test_b.py", "TestC::test_d", ""),
    )


@pytest.mark.timeout(30)
def test_hostile_output_costs_little(checkout: Path) -> None:
    for text in (
        "a" * 3_000_000,
        "a:b " * 500_000,
        "(" * 2_000_000,
        "\n".join(["x:1: y"] * 200_000),
        "a.py:1:" * 99_999,
    ):
        assert len(places(text, checkout)) <= 200


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_no_output_makes_it_fail(checkout: Path, text: str) -> None:
    places(text, checkout)
    failed_tests(text)
    places(f"{text}:3: {text}", checkout)
