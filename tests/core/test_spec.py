"""Acceptance criteria against claims: how they are found, matched and held to their evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.spec import PR_BODY, Gap, claims, criteria, evidence, gaps

ISSUE = """\
Some words.

- [ ] not a criterion, since there is a heading for them

## Acceptance criteria

- [ ] `load` returns 404 for a missing user
- [x] The limit is configurable
  and documented
* Nothing is written without a lock
  - this is a detail

### Later
- A nested heading still counts

## Other
- not this
"""


def test_criteria_stand_under_their_heading() -> None:
    assert [(c.line, c.text) for c in criteria(ISSUE)] == [
        (7, "`load` returns 404 for a missing user"),
        (8, "The limit is configurable and documented"),
        (10, "Nothing is written without a lock; this is a detail"),
        (14, "A nested heading still counts"),
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "# ACCEPTANCE",
        "###### acceptance criteria ##",
        "## ✅ Acceptance Criteria:",
        "**Acceptance criteria**:",
        "Acceptance:",
    ],
)
def test_any_level_and_case_of_heading(heading: str) -> None:
    assert [c.text for c in criteria(f"{heading}\n\n1. first\n2) second\n")] == ["first", "second"]


def test_without_a_heading_every_checkbox_is_a_criterion() -> None:
    assert [c.text for c in criteria("- plain\n- [ ] one\n- [X] two\n")] == ["one", "two"]


def test_code_and_comments_are_no_criteria() -> None:
    body = "```\n- [ ] in code\n```\n<!--\n- [ ] hidden\n-->\n- [ ] real\n"
    assert [(c.line, c.text) for c in criteria(body)] == [(7, "real")]


def test_an_issue_without_any_has_none() -> None:
    assert criteria("Just words.\n- a list\n## Accepted risks\n- no") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("done, see src/app.py:12", [("path", "src/app.py")]),
        ("`tests/test_app.py::TestX::test_y[a]`", [("path", "tests/test_app.py"), ("test", "test_y")]),
        ("covered by test_limit", [("test", "test_limit")]),
        ("`pytest -q tests/test_a.py`", [("command", "pytest -q tests/test_a.py")]),
        ("`make`", []),
        ("in README.md", [("path", "README.md")]),
        ("see https://example.invalid/a/b.py", []),
        ("it just works, e.g. always", []),
        ("either/or", []),
        ("in docs/ and src/.hidden.toml", [("path", "docs/"), ("path", "src/.hidden.toml")]),
        ("calls os.path and asyncio.run", []),
        ("see app.test.ts.", [("path", "app.test.ts")]),
    ],
)
def test_evidence_is_a_path_a_test_or_a_command(text: str, found: list[tuple[str, str]]) -> None:
    assert [(e.kind, e.text) for e in evidence(text)] == found


def check(issue: str, body: str, there: frozenset[str] = frozenset({"src/a.py"})) -> tuple[Gap, ...]:
    return gaps(
        criteria(issue),
        claims(body),
        issue="(issue #5)",
        exists=there.__contains__,
        has_test=lambda name: name == "test_known",
    )


ONE = "## Acceptance\n- [ ] Returns 404 for a missing user\n"


def test_a_checked_claim_with_evidence_is_enough() -> None:
    assert check(ONE, "- [x] Returns 404 for a missing user: src/a.py") == ()
    assert check(ONE, "- [x] returns **404** for the missing user (`test_known`)") == ()
    assert check(ONE, "- [x] Returns 404 for a missing user\n  evidence: `pytest -q`") == ()
    assert check(ONE, "- [x] Returns 404 for a missing user, as Node.js does (src/a.py)") == ()


@pytest.mark.parametrize(
    ("body", "kind", "place"),
    [
        ("", "no claim", ("(issue #5)", 2)),
        ("It is all done, src/a.py", "no claim", ("(issue #5)", 2)),
        ("- [x] Returns 400 for a missing user: src/a.py", "no claim", ("(issue #5)", 2)),
        ("- [x] Never returns 404 for a missing user: src/a.py", "no claim", ("(issue #5)", 2)),
        ("\n- [ ] Returns 404 for a missing user: src/a.py", "unchecked", (PR_BODY, 2)),
        ("- [x] Returns 404 for a missing user", "no evidence", (PR_BODY, 1)),
        ("- [x] Returns 404 for a missing user: src/made_up.py", "evidence not found", (PR_BODY, 1)),
        ("- [x] Returns 404 for a missing user: test_made_up", "evidence not found", (PR_BODY, 1)),
        ("- [x] Returns 404 for a missing user: `pytest tests/none.py`", "evidence not found", (PR_BODY, 1)),
    ],
)
def test_what_is_missing_is_named_and_located(body: str, kind: str, place: tuple[str, int]) -> None:
    (gap,) = check(ONE, body)
    assert (gap.kind, (gap.path, gap.line)) == (kind, place)


def test_one_claim_answers_one_criterion() -> None:
    issue = "## Acceptance\n- The limit is read\n- The limit is read and written\n"
    found = check(issue, "- [x] The limit is read and written: src/a.py")
    assert [gap.criterion.text for gap in found] == ["The limit is read"]


def test_control_characters_do_not_get_through() -> None:
    (gap,) = check("## Acceptance\n- [ ] ring \x1b[31mthe\x07 bell\u202e\n", "")
    assert "\x1b" not in gap.message
    assert "\u202e" not in gap.message


@pytest.mark.timeout(20)
def test_hostile_bodies_cost_little() -> None:
    many = "## Acceptance\n" + "".join(f"- [ ] word{n} and some more words to compare\n" for n in range(5_000))
    assert len(check(many, many.replace("[ ]", "[x]"))) == 100
    for text in ("- [x] " + "a/" * 200_000, "`" * 200_000, "<!--" * 50_000, "- [ ] x\n" + " " * 300_000 + "y"):
        check(text, text)


@given(st.text(), st.text())
def test_no_text_makes_it_fail(issue: str, body: str) -> None:
    check(issue, body)
    check(f"## Acceptance\n{issue}", body)
