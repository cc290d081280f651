"""Verification: the project's own commands, real ones, and those that hang, shout or are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.ports import Cancelled
from conductor.review.context import DetectedCommand, tool_environment
from conductor.review.steps.verification import battery_commands, severity_of, stable, verification
from schemas.config import BatteryConfig
from schemas.review import StepReport
from tests.review.support import PYTHON, Project, checked, found, never, only_step, script

PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
BASE = {"calc.py": "def add(a, b):\n    return a + b\n", "tests/test_calc.py": "def test_nothing():\n    pass\n"}
TEST = "from calc import add\n\n\ndef test_adds():\n    assert add(1, 1) == 2\n"


def verify(project: Project, **review: object) -> StepReport:
    return only_step(verification(project.context(**review))).run(project.packet(), never)


def test_passing_commands_find_nothing(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"tests/test_calc.py": TEST})
    report = verify(project, verification={"test": PYTEST, "lint": [PYTHON, "-m", "ruff", "check", "--isolated", "."]})
    assert (report.outcome, report.findings) == ("ran", ())
    assert "test: passed" in report.detail
    assert "lint: passed" in report.detail


def test_a_failing_test_is_critical_and_located_at_the_test(tmp_path: Path) -> None:
    broken = {"calc.py": "def add(a, b):\n    return a - b\n", "tests/test_calc.py": TEST}
    report = verify(Project.make(tmp_path, BASE, broken), verification={"test": PYTEST})
    assert found(report) == [("tests/test_calc.py:5", "critical", "verification:test")]
    checked(report.findings)
    assert "test_adds fails" in report.findings[0].message
    assert "assert" in report.detail


def test_a_test_file_that_does_not_load_is_critical(tmp_path: Path) -> None:
    report = verify(
        Project.make(tmp_path, BASE, {"tests/test_calc.py": "import nothing_here\n"}), verification={"test": PYTEST}
    )
    assert [(f.path, f.severity) for f in report.findings] == [("tests/test_calc.py", "critical")]


def test_each_lint_error_is_a_high_finding_at_its_place(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.py": "import os\nimport sys\n"})
    lint = [PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "."]
    assert found(verify(project, verification={"lint": lint})) == [
        ("a.py:1", "high", "verification:lint"),
        ("a.py:2", "high", "verification:lint"),
    ]


def test_a_failure_that_names_no_place_points_to_the_first_change(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "def add(a, b):\n    return b + a\n"})
    argv = script(tmp_path, "fail.py", "print('it is broken'); raise SystemExit(3)")
    (finding,) = verify(project, verification={"build": list(argv)}).findings
    assert (finding.location, finding.severity) == ("calc.py:2", "critical")
    assert "it is broken" in finding.message
    assert "exit code 3" in finding.impact


def test_findings_of_the_same_failure_have_the_same_fingerprint(tmp_path: Path) -> None:
    broken = {"calc.py": "def add(a, b):\n    return a - b\n", "tests/test_calc.py": TEST}
    project = Project.make(tmp_path, BASE, broken)
    one, two = (verify(project, verification={"test": PYTEST}).findings[0].fingerprint for _ in range(2))
    assert one == two


def test_tests_that_hang_are_a_critical_finding(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    argv = script(tmp_path, "hang.py", "import time\nprint('waiting', flush=True)\ntime.sleep(60)")
    report = verify(project, verification={"test": list(argv)}, step_timeout=1.0)
    assert report.outcome == "ran"
    (finding,) = report.findings
    assert finding.severity == "critical"
    assert "does not end" in finding.message
    assert "after 1 s" in finding.impact
    assert report.seconds < 15


def test_a_linter_that_hangs_could_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    argv = script(tmp_path, "hang.py", "import time\ntime.sleep(60)")
    report = verify(project, verification={"lint": list(argv)}, step_timeout=1.0)
    assert (report.outcome, report.findings) == ("could_not_run", ())
    assert "did not end within 1 s" in report.detail


@pytest.mark.parametrize(
    "argv",
    [
        ["no-such-program-here"],
        [PYTHON, "-c", "raise SystemExit(127)"],
        [PYTHON, "-I", "-S", "-m", "pytest"],
        ["sh", "-c", "jest-is-not-here --ci"],
    ],
)
def test_a_missing_tool_could_not_run_and_is_no_failure_of_the_code(tmp_path: Path, argv: list[str]) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    report = verify(project, verification={"test": argv})
    assert (report.outcome, report.findings) == ("could_not_run", ())


def test_what_could_run_is_still_reported(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.py": "import os\n"})
    lint = [PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "."]
    report = verify(project, verification={"test": ["no-such-program-here"], "lint": lint})
    assert report.outcome == "could_not_run"
    assert found(report) == [("a.py:1", "high", "verification:lint")]


def test_no_tests_collected_is_high(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {"calc.py": "x = 1\n"}, {"calc.py": "x = 2\n"})
    (finding,) = verify(project, verification={"test": PYTEST}).findings
    assert finding.severity == "high"
    assert "collects no test" in finding.message


def test_a_hundred_megabytes_of_output_are_bounded(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    code = (
        "import os\nfor _ in range(100): os.write(1, b'line of noise\\n' * 75000)\n"
        "print('calc.py:1: error: at the end')\nraise SystemExit(1)"
    )
    report = verify(project, verification={"test": list(script(tmp_path, "loud.py", code))})
    assert found(report)[0] == ("calc.py:1", "critical", "verification:test")
    assert len(report.detail) < 10_000


def test_many_errors_are_listed_up_to_a_number_and_counted(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.py": "".join(f"import m{n}\n" for n in range(30))})
    report = verify(project, verification={"lint": [PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "."]})
    assert len(report.findings) == 10
    assert "20 more places" in report.detail


def test_control_characters_of_output_do_not_get_through(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    argv = script(tmp_path, "esc.py", "print('\\x1b[2Jboo\\x07\\x9b1m'); raise SystemExit(1)")
    report = verify(project, verification={"test": list(argv)})
    shown = report.detail + report.findings[0].message
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    argv = script(tmp_path, "hang.py", "import time\ntime.sleep(60)")
    step = only_step(verification(project.context(verification={"test": list(argv)})))
    with pytest.raises(Cancelled):
        step.run(project.packet(), lambda: True)


def test_detected_commands_are_used_where_none_is_configured(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.py": "import os\n"})
    project.detected = {
        "lint": DetectedCommand(
            (PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "--fix", "."),
            (PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "."),
        )
    }
    assert found(verify(project)) == [("a.py:1", "high", "verification:lint")]
    project.detected = {}
    assert verify(project).outcome == "not_configured"


def test_a_command_that_mends_files_has_found_something(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.py": "import os\n"})
    project.detected = {
        "lint": DetectedCommand((PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "--fix", "."))
    }
    report = verify(project)
    assert found(report) == [("a.py:1", "high", "verification:lint")]
    assert "changes this file" in report.findings[0].message
    assert (project.root / "a.py").read_text(encoding="utf-8") == "import os\n"


def test_the_battery_is_run_in_the_form_that_changes_nothing() -> None:
    detected = {
        "format": DetectedCommand(("fmt", "."), ("fmt", "--check", ".")),
        "lint": DetectedCommand(("lint", "--fix"), ("lint",)),
        "test": DetectedCommand(("t",), None, {"A": "1"}),
    }
    settings = BatteryConfig(lint=("lint", "--fix"), types=("types",), test=("mine",))
    commands = battery_commands(settings, detected)
    assert {name: (command.argv, command.changes_files) for name, command in commands.items()} == {
        "format": (("fmt", "--check", "."), False),
        "lint": (("lint",), False),
        "types": (("types",), False),
        "test": (("mine",), False),
    }


@pytest.mark.parametrize(
    ("name", "argv", "severity"),
    [
        ("test", ["anything"], "critical"),
        ("unit-tests", ["x"], "critical"),
        ("build", ["x"], "critical"),
        ("check", ["cargo", "test"], "critical"),
        ("ci", ["npm", "run", "build"], "critical"),
        ("lint", ["npm", "run", "lint"], "high"),
        ("types", ["mypy", "tests"], "high"),
        ("format", ["ruff", "format"], "high"),
    ],
)
def test_builds_and_tests_are_critical_and_the_rest_is_high(name: str, argv: list[str], severity: str) -> None:
    assert severity_of(name, argv) == severity


def test_the_checkouts_code_is_tested_and_not_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    root, checkout = tmp_path / "root", tmp_path / "checkout"
    (root / ".venv" / "bin").mkdir(parents=True)
    (checkout / "src").mkdir(parents=True)
    env = tool_environment(checkout, root, {"PYTHONPATH": "/more"})
    assert env["PATH"].startswith(f"{root}/.venv/bin:")
    assert env["PYTHONPATH"].split(":") == [f"{checkout}/src", str(checkout), "/more"]
    assert "GH_TOKEN" not in env
    assert "GIT_DIR" not in env


def test_a_command_with_no_time_left_was_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"calc.py": "x = 1\n"})
    hang = script(tmp_path, "hang.py", "import time\ntime.sleep(60)")
    report = verify(project, verification={"lint": list(hang), "test": list(hang)}, step_timeout=1.0)
    assert (report.outcome, report.findings) == ("could_not_run", ())
    assert "test" in report.detail
    assert "was not run" in report.detail


def test_a_failing_unittest_is_located_by_its_stack(tmp_path: Path) -> None:
    code = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_x(self):\n        self.assertEqual(1, 2)\n"
    project = Project.make(tmp_path, BASE, {"tests/__init__.py": "", "tests/test_u.py": code})
    report = verify(project, verification={"test": [PYTHON, "-m", "unittest", "discover", "-s", "tests", "-t", "."]})
    assert found(report) == [("tests/test_u.py:6", "critical", "verification:test")]


def test_what_differs_from_run_to_run_is_not_in_a_message(tmp_path: Path) -> None:
    assert stable(f"<X at 0x7f00deadbeef> in 2.84s at {tmp_path}/a.py", tmp_path) == "<X at 0x…> in some time at a.py"
