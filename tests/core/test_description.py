"""The description contract, rule by rule: each fault is found on its line, and sound text has none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.description import SECTIONS, closed_by, closes, lint
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


# --- what says nothing, and what does ---


@pytest.mark.parametrize(
    "text",
    [
        "```\nCloses #2\n```",
        "<!-- Closes #2 -->",
        "use `Closes #2`",
        "text\n\n    Closes #2",
        "## Scope\n    Closes #2",
        "\tCloses #2",
        "<pre>\nCloses #2\n</pre>",
        "<code>Closes #2</code>",
    ],
)
def test_an_issue_in_code_or_a_comment_is_not_closed(text: str) -> None:
    assert closed_by(text) == []
    assert (1, "issue") in messages(text)


@pytest.mark.parametrize(
    "text",
    [
        "text\n    Closes #2",
        "- item\n\n    Closes #2",
        "1. item\n\n    more\n    Closes #2",
        "   Closes #2",
        "> Closes #2",
    ],
)
def test_an_indented_line_of_a_paragraph_or_an_item_is_no_code(text: str) -> None:
    assert closes(text) == 2


def test_every_issue_is_closed_once_in_its_order() -> None:
    assert closed_by("Closes #3, fixes #1.\nResolves #3 and `closes #9`") == [3, 1]


def test_checkboxes_in_code_do_not_count() -> None:
    for code in ("\n    - [x] tests pass", "<pre>\n- [x] tests pass\n</pre>"):
        body = BODY.replace("- [x] tests pass", f"Text.\n{code}")
        assert any("`definition of done` has no checkbox" in flaw.message for flaw in lint(body)), code


def test_an_underlined_heading_begins_a_section() -> None:
    assert lint(BODY.replace("## Scope", "Scope\n-----").replace("## Summary", "Summary\n=======")) == []


def test_a_list_above_a_rule_is_no_heading() -> None:
    body = BODY.replace("## Scope\n", "- Scope\n---\n")
    assert any("no section `scope`" in flaw.message for flaw in lint(body))


def test_a_section_that_stands_twice_must_not_be_empty_once() -> None:
    body = f"{BODY}\n## Scope\n"
    assert (len(body.splitlines()), "section") in messages(body)


def test_a_byte_order_mark_is_no_part_of_the_first_heading() -> None:
    assert lint(f"\ufeff{BODY}") == []


def test_a_checkbox_without_text_is_told_as_that() -> None:
    body, line = with_line("- [ ]")
    assert [(flaw.line, flaw.message) for flaw in lint(body)] == [
        (line, "this checkbox has no text: say after it what is to be done")
    ]
