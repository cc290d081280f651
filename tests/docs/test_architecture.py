"""The example of a package that adds parts is the page's own, and works through real entry points."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from conductor.panes.agents import agent_kinds
from conductor.ports import Screen
from conductor.review.context import StepContext
from conductor.review.registry import make_steps
from schemas.config import Config
from tests.review.support import Project, never

PAGE = (Path(__file__).parents[2] / "docs/architecture.md").read_text(encoding="utf-8")
PLUGIN = Path(__file__).parent / "plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as an installer leaves it: the module, and its entry points in the metadata."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = tmp_path / "site"
    metadata = site / "taskmaestro_parrot-1.dist-info"
    metadata.mkdir(parents=True)
    (site / "parrot.py").write_bytes((PLUGIN / "parrot.py").read_bytes())
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1\n", "utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))


def test_the_page_shows_the_package_that_is_tested() -> None:
    code = (PLUGIN / "parrot.py").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    assert all(block in code for block in shown)
    (points,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert points in (PLUGIN / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.usefixtures("installed")
def test_the_example_s_agent_comes_in_by_its_entry_point() -> None:
    kind = agent_kinds(Config())["parrot"]
    assert kind.program == "parrot"
    assert kind.classify(Screen(("hello", "?"))).name == "idle"
    assert kind.classify(Screen(("hello",))).name == "busy"


@pytest.mark.usefixtures("installed")
def test_the_example_s_step_comes_in_by_its_entry_point(tmp_path: Path) -> None:
    config = Config.model_validate({"review": {"steps": ["no_print"]}})
    (step,) = make_steps(StepContext(config, tmp_path, lambda checkout, root: {}))
    project = Project.make(tmp_path / "project", {}, {"a.py": "x = 1\nprint(x)\n"})
    report = step.run(project.packet(), never)
    assert [(finding.path, finding.line) for finding in report.findings] == [("a.py", 2)]
