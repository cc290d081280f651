"""Which steps a review has, and by which door they come."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from conductor.review.context import StepContext
from conductor.review.registry import BUILT_IN, GROUP, known, make_steps
from schemas.config import Config
from schemas.errors import BadInput
from schemas.review import StepReport
from tests.review.support import Project, never


def context(**review: object) -> StepContext:
    return StepContext(Config.model_validate({"review": review}), Path("/nowhere"), lambda checkout, root: {})


class Extra:
    name = "extra"

    def run(self, packet: object, cancelled: object) -> StepReport:
        return StepReport(step=self.name, outcome="ran")


def extra(given: StepContext) -> list[Extra]:
    return [Extra()]


def broken(given: StepContext) -> list[Extra]:
    raise RuntimeError("no licence")


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"tests.review.test_registry:{value}", GROUP)


def test_all_known_steps_run_by_default_in_the_protocols_order() -> None:
    made = make_steps(context(sarif={"mine": "x"}, reviewers={"judge": "y"}), [])
    assert [step.name for step in made if step.name != "scan:ruff"] == [
        "verification",
        "scan:mine",
        "spec",
        "tests_present",
        "hygiene",
        "judge",
    ]


def test_the_configuration_selects_steps() -> None:
    assert [step.name for step in make_steps(context(steps=["hygiene", "spec"]), [])] == ["hygiene", "spec"]


def test_an_unknown_step_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="hygeine") as caught:
        make_steps(context(steps=["hygeine"]), [])
    assert "hygiene" in caught.value.hint


def test_a_third_party_step_comes_in_by_the_same_door() -> None:
    made = make_steps(context(steps=["extra"]), [*BUILT_IN, point("extra", "extra")])
    assert [step.name for step in made] == ["extra"]


def test_nobody_takes_the_place_of_another_step() -> None:
    with pytest.raises(BadInput, match="two review steps are called spec"):
        known([point("spec", "extra")])


def test_a_step_that_cannot_be_made_could_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.md": "x"})
    for value in ("broken", "not_there"):
        (step,) = make_steps(context(steps=["extra"]), [point("extra", value)])
        report = step.run(project.packet(), never)
        assert report.outcome == "could_not_run"
        assert value in report.detail


def test_the_installed_package_names_the_same_steps() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"][GROUP] == {entry.name: entry.value for entry in BUILT_IN}
