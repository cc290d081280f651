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


def test_schema_files_are_json_with_a_dialect() -> None:
    for path in (ROOT / "schemas/json").glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["$schema"].endswith("2020-12/schema")
