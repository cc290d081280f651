"""The generated pages and schema files are what the code says now, and a change would be noticed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from conductor.cli.main import VERBS
from conductor.docs import ROOT, everything, stale, write
from conductor.docs.__main__ import main
from schemas import errors
from schemas.pane import AttentionReason, PaneState, Status
from schemas.result import Result, ResultStatus

_LINK_ALONE = re.compile(r"!?\[[^\]]*\]\([^)]*\)")
CONTRACTS = (ROOT / "docs/contracts.md").read_text(encoding="utf-8")


def test_nothing_is_stale() -> None:
    assert stale() == [], "run scripts/docs"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The generated files, in a folder of their own."""
    for name in everything():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_change_a_loss_and_a_leftover_are_noticed_and_mended(copy: Path) -> None:
    (copy / "docs/commands.md").write_text("x", encoding="utf-8")
    (copy / "schemas/json/result.schema.json").unlink()
    (copy / "schemas/json/old.schema.json").write_text("{}", encoding="utf-8")
    expected = ["docs/commands.md", "schemas/json/old.schema.json", "schemas/json/result.schema.json"]
    assert stale(copy) == expected
    assert write(copy) == expected
    assert stale(copy) == []


def test_the_script_checks_and_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert main(["--chekc"]) == 2
    assert "Usage: scripts/docs" in capsys.readouterr().err


def test_every_verb_is_in_the_reference() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [name for name in VERBS if f"### taskmaestro {name}\n" not in page] == []


def test_the_contracts_name_every_word_that_the_models_have() -> None:
    words = [
        *Result.model_fields,
        *PaneState.model_fields,
        *(str(one) for enum in (ResultStatus, Status, AttentionReason) for one in enum),
    ]
    assert [word for word in words if not re.search(rf"\b{word}\b", CONTRACTS)] == []


def test_the_contracts_name_every_exit_code() -> None:
    from conductor.cli.main import DEFECT, INTERRUPTED, PIPE_CLOSED

    faults = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.Fault)]
    for code in {0, DEFECT, INTERRUPTED, PIPE_CLOSED, *(fault.exit_code for fault in faults)}:
        assert f"\n| {code} | " in CONTRACTS


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def too_long(text: str) -> list[str]:
    """The lines of a page over 120 characters that could be broken: no table, code, or link by itself."""
    found, code = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        elif not (code or len(line) <= 120 or line.lstrip().startswith("|") or _LINK_ALONE.fullmatch(line)):
            found.append(line)
    return found


WRITTEN = [
    path
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.relative_to(ROOT).as_posix() not in everything()
]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_pages_that_people_write_end_at_120_characters(page: Path) -> None:
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_a_line_that_is_too_long_is_noticed_outside_of_tables_code_and_links() -> None:
    long = "word " * 25
    assert too_long(f"{long}\n| {long} |\n```\n{long}\n```\n![{long}](x.svg)\n- {long}\n") == [long, f"- {long}"]


def test_schema_files_are_json_with_a_dialect() -> None:
    for path in (ROOT / "schemas/json").glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["$schema"].endswith("2020-12/schema")
