"""Ignored files that every checkout needs are copied, and nothing is written outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import BadInput
from worker.tools.needed import copy_needed


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    main, checkout = tmp_path / "main", tmp_path / "checkout"
    (main / "src").mkdir(parents=True)
    checkout.mkdir()
    (main / "src" / "_version.py").write_text("version = '1'\n")
    return main, checkout


def test_a_file_is_copied_once_and_one_that_is_there_stays(places: tuple[Path, Path]) -> None:
    main, checkout = places
    names = ["src/_version.py", "not-there.py"]
    assert copy_needed(main, checkout, names) == ["src/_version.py"]
    (checkout / "src" / "_version.py").write_text("own")
    assert copy_needed(main, checkout, names) == []
    assert (checkout / "src" / "_version.py").read_text() == "own"


@pytest.mark.parametrize("name", ["../x", "/etc/hostname", "src/../../x", ".git/hooks/pre-commit", ""])
def test_a_name_that_leads_out_is_refused(places: tuple[Path, Path], name: str) -> None:
    with pytest.raises(BadInput, match="leads out of the repository"):
        copy_needed(*places, [name])


def test_a_link_of_the_branch_does_not_lead_the_copy_elsewhere(places: tuple[Path, Path], tmp_path: Path) -> None:
    main, checkout = places
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (checkout / "src").symlink_to(elsewhere)
    assert copy_needed(main, checkout, ["src/_version.py"]) == []
    assert list(elsewhere.iterdir()) == []
