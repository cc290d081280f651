"""The description contract, rule by rule: each fault is found on its line, and sound text has none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.description import SECTIONS, closes, lint
from tests.cli.loops.desk import BODY


def messages(body: str) -> list[tuple[int, str]]:
    return [(flaw.line, flaw.rule) for flaw in lint(body)]


def with_line(line: str) -> tuple[str, int]:
    """The sound description with one more line below its definition of done, and that line's number."""
    lines = BODY.splitlines()
    at = lines.index("- [x] tests pass") + 1
    lines.insert(at, line)
    return "\n".join(lines), at + 1


def test_a_sound_description_has_no_fault() -> None:
    assert lint(BODY) == []
    assert lint(BODY.replace("\n", "\r\n")) == []
    assert lint(BODY.replace("Closes", "Fixes").replace("- [x]", "* [X]")) == []


@pytest.mark.parametrize("name", SECTIONS)
def test_each_section_is_missed_and_must_not_be_empty(name: str) -> None:
    heading = next(line for line in BODY.splitlines() if line.lower() == f"## {name}")
    gone = BODY.replace(f"{heading}\n", "### Something else\n")
    assert (1, "section") in messages(gone)
    assert any(f"`{name}`" in flaw.message for flaw in lint(gone))
    emptied = BODY[: BODY.index(heading)] + f"{heading}\n"
    line = emptied.splitlines().index(heading) + 1
    assert (line, "section") in messages(emptied)


@pytest.mark.parametrize(
    "line",
    [
        "- `[x]` in backticks",
        "- [ ] real, and `[x]` in backticks too",
        "| [x] | in a table |",
        "- | [ ] | in a table with a bullet |",
        "one | [x] | two |",
        "[x] no list item",
        "-[ ] no blank",
        "- [] no room",
        "- [ x] too much room",
        "- [x]no blank after",
        "text with [ ] inside",
        "- an item without a checkbox",
    ],
)
def test_a_checkbox_that_cannot_be_ticked_is_told_with_its_line(line: str) -> None:
    body, number = with_line(line)
    assert messages(body) == [(number, "checkbox")]


@pytest.mark.parametrize(
    "line",
    [
        "- [ ] open",
        "* [X] done",
        "1. [ ] numbered",
        "  - below an item, with details",
        "see [x](https://example.invalid) and a[0] and [ref][x]",
        "```\n- `[x]`\n[ ] code\n```",
        "<!-- [ ] hidden -->",
        "a `list[int]` in code",
    ],
)
def test_what_is_no_checkbox_or_a_real_one_passes(line: str) -> None:
    assert lint(with_line(line)[0]) == []


def test_sections_of_criteria_need_checkboxes() -> None:
    body = BODY.replace("- [x] tests pass", "All tests pass.")
    line = body.splitlines().index("## Definition of done") + 1
    assert messages(body) == [(line, "checkbox")]


@pytest.mark.parametrize(
    "instead", ["Refs #1", "`Closes #1`", "<!-- Closes #1 -->", "```\nCloses #1\n```", "Closes #0"]
)
def test_an_issue_must_be_closed_where_the_forge_sees_it(instead: str) -> None:
    body = BODY.replace("Closes #1", instead)
    assert messages(body) == [(1, "issue")]
    assert closes(body) is None


def test_the_first_closed_issue_is_found() -> None:
    assert closes("text\n\nfixes #12, closes #13") == 12


@given(st.text())
def test_every_text_is_linted_and_every_line_exists(body: str) -> None:
    lines = body.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= flaw.line <= lines for flaw in lint(body))
