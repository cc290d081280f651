"""The battery's commands come from the project's own files, run in order, and a failing one ends it."""

from __future__ import annotations

import json
import sys
import venv
from pathlib import Path

import pytest

from schemas.config import BatteryConfig
from schemas.errors import Unavailable
from worker.battery import detect, environment, failure, plan, run_battery
from worker.detect.base import Project, Slot
from worker.detect.python import find_python, generated


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    return folder


def installed(folder: Path, module: str) -> None:
    """Make a module importable for the python of this virtual environment."""
    next(folder.glob("lib/python*/site-packages")).joinpath(f"{module}.py").write_text("")


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what the test puts there."""
    folder = programs(tmp_path / "path-folder")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("files", "package", "there", "runner"),
    [
        ({}, {}, ["npm"], "npm"),
        ({"yarn.lock": ""}, {}, ["npm", "yarn"], "yarn"),
        ({"pnpm-lock.yaml": ""}, {}, ["npm", "pnpm"], "pnpm"),
        ({"bun.lock": ""}, {}, ["npm", "bun"], "bun"),
        ({"package-lock.json": ""}, {"packageManager": "yarn@4.1.0"}, ["npm", "yarn"], "yarn"),
        ({"yarn.lock": ""}, {"packageManager": "yarn@4.1.0"}, ["npm"], "npm"),
    ],
)
def test_node_scripts_run_with_the_projects_manager(
    tmp_path: Path,
    bare_path: Path,
    files: dict[str, str],
    package: dict[str, str],
    there: list[str],
    runner: str,
) -> None:
    programs(bare_path, *there)
    scripts = {"format": "prettier --write .", "type-check": "tsc --noEmit", "test": "vitest", "build": "tsc"}
    write(tmp_path, **files, **{"package.json": json.dumps({**package, "scripts": scripts}, indent=1)})
    commands = detect(tmp_path).commands
    assert {slot: command.argv for slot, command in commands.items()} == {
        "format": (runner, "run", "format"),
        "types": (runner, "run", "type-check"),
        "test": (runner, "run", "test"),
    }
    assert commands["types"].why.startswith("package.json:")
    assert '"type-check"' in commands["types"].why


def test_eslint_fixes_in_the_battery_and_only_checks_in_checks(tmp_path: Path, bare_path: Path) -> None:
    write(tmp_path, **{"package.json": '{"scripts": {"lint": "eslint src"}}'})
    lint = detect(tmp_path).commands["lint"]
    assert lint.argv == ("npm", "run", "lint", "--", "--fix")
    assert lint.check_argv == ("npm", "run", "lint")
    write(tmp_path, **{"package.json": '{"scripts": {"lint": "eslint src && stylelint css"}}'})
    assert detect(tmp_path).commands["lint"].argv == ("npm", "run", "lint")


def test_the_placeholder_test_script_is_no_test(tmp_path: Path) -> None:
    script = 'echo \\"Error: no test specified\\" && exit 1'
    write(tmp_path, **{"package.json": f'{{"scripts": {{"test": "{script}"}}}}'})
    assert detect(tmp_path).commands == {}


def test_node_tools_without_scripts(tmp_path: Path) -> None:
    dev = {"prettier": "3", "eslint": "9", "typescript": "5", "vitest": "2"}
    write(tmp_path, **{"package.json": json.dumps({"devDependencies": dev}), "tsconfig.json": "{}"})
    argvs = {slot: command.argv for slot, command in detect(tmp_path).commands.items()}
    assert argvs == {
        "format": ("prettier", "--write", "."),
        "lint": ("eslint", "--fix", "."),
        "types": ("tsc", "--noEmit"),
        "test": ("vitest", "run"),
    }


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scripts": 3}', '{"scripts": {"test": 1}}', "[" * 100_000])
def test_a_broken_package_json_gives_no_commands(tmp_path: Path, text: str) -> None:
    write(tmp_path, **{"package.json": text})
    assert detect(tmp_path).commands == {}


PYPROJECT = """\
[project]
name = "x"
[project.optional-dependencies]
dev = ["mypy>=1", "pytest"]
[tool.ruff]
line-length = 100
[tool.ruff.format]
"""


def test_python_tools_that_the_project_declares(tmp_path: Path, bare_path: Path) -> None:
    programs(bare_path, "ruff", "mypy", "pytest")
    write(tmp_path, **{"pyproject.toml": PYPROJECT})
    commands = detect(tmp_path).commands
    assert {slot: (command.argv, command.why.split(":")[:2]) for slot, command in commands.items()} == {
        "format": (("ruff", "format", "."), ["pyproject.toml", "7"]),
        "lint": (("ruff", "check", "--fix", "."), ["pyproject.toml", "5"]),
        "types": (("mypy", "."), ["pyproject.toml", "4"]),
        "test": (("pytest", "-q"), ["pyproject.toml", "4"]),
    }
    assert commands["format"].check_argv == ("ruff", "format", "--check", ".")


def test_ruff_does_not_format_a_project_that_only_lints_with_it(tmp_path: Path, bare_path: Path) -> None:
    programs(bare_path, "ruff")
    write(tmp_path, **{"pyproject.toml": "[tool.ruff]\n"})
    assert list(detect(tmp_path).commands) == ["lint"]


def test_tools_that_nobody_declared_are_not_run_although_installed(tmp_path: Path, bare_path: Path) -> None:
    programs(bare_path, "ruff", "black", "mypy", "pytest", "pyright")
    write(tmp_path, **{"setup.py": "from setuptools import setup\nsetup()\n"})
    assert detect(tmp_path).commands == {}


def test_a_worktree_uses_the_main_checkouts_venv_and_its_own_code(tmp_path: Path) -> None:
    main = tmp_path / "main"
    tree = main / ".taskmaestro" / "wt-1"
    venv.create(main / ".venv", with_pip=False, symlinks=True)
    installed(main / ".venv", "mypy")
    write(tree, **{"pyproject.toml": "[tool.mypy]\nfiles = ['x']\n", "src/x.py": ""})
    command = detect(tree, main).commands["types"]
    assert command.argv == (str(main / ".venv/bin/python"), "-m", "mypy")
    assert dict(command.env)["PYTHONPATH"] == f"{tree / 'src'}:{tree}"
    assert find_python(Project(main, main)) == (".venv/bin/python", False)


def test_main_checkouts_programs_are_on_path(tmp_path: Path) -> None:
    main, tree = tmp_path / "m", tmp_path / "m/.taskmaestro/wt-1"
    tree.mkdir(parents=True)
    programs(main / "node_modules/.bin", "prettier")
    assert environment(tree, main, {})["PATH"].startswith(str(main / "node_modules/.bin"))


def test_unittest_is_used_where_tests_use_it(tmp_path: Path, bare_path: Path) -> None:
    (bare_path / "python3").symlink_to(sys.executable)
    write(tmp_path, **{"tests/test_a.py": "import unittest\n", "requirements.txt": ""})
    command = detect(tmp_path).commands["test"]
    assert command.why.startswith(("tests/test_a.py:1: import unittest", "tests/test_a.py: a test file"))


def test_cargo_go_and_make(tmp_path: Path, bare_path: Path) -> None:
    programs(bare_path, "cargo-fmt", "golangci-lint")
    write(tmp_path / "r", **{"Cargo.toml": "[package]\nname='x'\n"})
    write(tmp_path / "g", **{"go.mod": "module x\n", ".golangci.yml": "run: {}\n"})
    write(tmp_path / "m", Makefile="lint := x\nlint:\n\ttrue\ntest: lint\n\ttrue\nfmt ::\n\ttrue\n")
    rust, go = detect(tmp_path / "r").commands, detect(tmp_path / "g").commands
    assert rust["types"].argv == ("cargo", "check", "--all-targets")
    assert rust["format"].check_argv[-1] == "--check"
    assert go["lint"].argv == ("golangci-lint", "run")
    made = detect(tmp_path / "m").commands
    assert (made["lint"].why, made["test"].argv) == ("Makefile:2: lint:", ("make", "test"))


def test_the_first_ecosystem_wins_and_the_other_is_named(tmp_path: Path) -> None:
    write(tmp_path, Makefile="test:\n\ttrue\n", **{"go.mod": "module x\n"})
    found = detect(tmp_path)
    assert found.commands["test"].argv[0] == "go"
    assert [command.argv for command in found.passed_over] == [("make", "test")]


def test_configured_commands_come_before_detected_ones(tmp_path: Path) -> None:
    write(tmp_path, Makefile="test:\n\ttrue\nlint:\n\ttrue\n")
    commands = plan(tmp_path, BatteryConfig(test=("mytest", "now")))
    assert [command.argv for command in commands] == [("make", "lint"), ("mytest", "now")]


def stage(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


def test_stages_run_in_order_and_stop_at_the_first_failure(tmp_path: Path) -> None:
    note = "open('log','a').write('{}\\n')"
    config = BatteryConfig(
        format=stage(note.format("format")),
        lint=stage(note.format("lint") + "; print('bad line 3'); raise SystemExit(4)"),
        types=stage(note.format("types")),
        test=stage(note.format("test")),
    )
    told: list[str] = []
    stages = run_battery(tmp_path, config, told=told.append)
    assert (tmp_path / "log").read_text().split() == ["format", "lint"]
    assert [one.ok for one in stages] == [True, False]
    fault = failure(stages)
    assert fault is not None
    assert "lint stage failed (exit code 4)" in fault.what
    assert "bad line 3" in fault.what
    assert "battery.lint" in fault.hint
    assert len(told) == 4


def test_a_stage_that_hangs_is_a_failure(tmp_path: Path) -> None:
    stages = run_battery(tmp_path, BatteryConfig(test=("sleep", "600"), timeout=0.3))
    fault = failure(stages)
    assert fault is not None
    assert "timed out" in fault.what


def test_a_missing_program_is_named_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="test stage cannot run: program no-such-tool not found") as caught:
        run_battery(tmp_path, BatteryConfig(test=("no-such-tool",)))
    assert "battery.test" in caught.value.hint


def test_a_project_without_tests_passes_pytest_with_a_note(tmp_path: Path) -> None:
    write(tmp_path, **{"pytest.ini": "[pytest]\n", "setup.py": ""})
    stages = run_battery(tmp_path, BatteryConfig(test=(sys.executable, "-m", "pytest", "-q")))
    assert [one.note for one in stages] == ["no tests were found"]
    assert failure(stages) is None


def test_nothing_to_run_is_no_failure(tmp_path: Path) -> None:
    assert failure(run_battery(tmp_path, BatteryConfig())) is None


def test_slots_are_reported_in_battery_order(tmp_path: Path) -> None:
    write(tmp_path, Makefile="test:\n\ttrue\ntypes:\n\ttrue\nlint:\n\ttrue\nformat:\n\ttrue\n")
    slots: list[Slot] = ["format", "lint", "types", "test"]
    assert list(detect(tmp_path).commands) == slots


def test_a_tool_that_is_declared_and_not_installed_is_left_out_and_named(tmp_path: Path, bare_path: Path) -> None:
    programs(bare_path, "black")
    write(tmp_path, **{"pyproject.toml": "[tool.mypy]\n[tool.ruff.format]\n[tool.black]\n"})
    found = detect(tmp_path)
    assert {slot: command.argv for slot, command in found.commands.items()} == {"format": ("black", ".")}
    assert [(one.slot, one.missing) for one in found.missing] == [
        ("lint", "ruff is not installed for python, nor on PATH"),
        ("types", "mypy is not installed for python, nor on PATH"),
    ]
    told: list[str] = []
    run_battery(tmp_path, BatteryConfig(skip=("lint",)), told=told.append)
    assert told[0] == "lint: left out ([battery] skip in .taskmaestro/config.toml)"
    assert told[1].startswith("types: left out: mypy is not installed")


def test_what_the_settings_skip_is_not_run_although_it_is_configured(tmp_path: Path) -> None:
    config = BatteryConfig(lint=("lint-it",), test=("test-it",), skip=("lint",))
    assert [command.argv for command in plan(tmp_path, config)] == [("test-it",)]


def test_a_python_that_is_not_the_projects_gets_the_projects_code_first(tmp_path: Path, bare_path: Path) -> None:
    (bare_path / "python3").symlink_to(sys.executable)
    write(tmp_path, **{"src/own/__init__.py": "", "tests/test_a.py": "import unittest\n", "setup.py": ""})
    assert dict(detect(tmp_path).commands["test"].env)["PYTHONPATH"] == f"{tmp_path / 'src'}:{tmp_path}"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ('[tool.setuptools]\npackages = ["own"]\n[tool.mypy]\nstrict = true\n', (".",)),
        ('[tool.mypy]\nstrict = true\nfiles = ["src"]\n', ()),
    ],
)
def test_mypy_is_told_what_to_check_unless_its_own_settings_say_it(
    tmp_path: Path, bare_path: Path, text: str, more: tuple[str, ...]
) -> None:
    programs(bare_path, "mypy")
    write(tmp_path, **{"pyproject.toml": text})
    assert detect(tmp_path).commands["types"].argv == ("mypy", *more)


@pytest.mark.parametrize(
    "text",
    [
        '[tool.setuptools_scm]\nversion_file = "src/own/_version.py"\n',
        '[tool.setuptools_scm]\nwrite_to = "src/own/_version.py"\n',
        '[tool.hatch.build.hooks.vcs]\nversion-file = "src/own/_version.py"\n',
    ],
)
def test_files_that_the_build_writes_are_known(tmp_path: Path, text: str) -> None:
    write(tmp_path, **{"pyproject.toml": text})
    assert generated(Project(tmp_path, tmp_path)) == []
    write(tmp_path, **{"src/own/_version.py": "version = '1'\n"})
    assert generated(Project(tmp_path, tmp_path)) == ["src/own/_version.py"]


@pytest.mark.parametrize(
    "text", ["tool = 1\n", "[tool]\nhatch = 3\n", "not toml", "[tool.setuptools_scm]\nwrite_to = 5\n"]
)
def test_a_strange_pyproject_names_no_generated_files(tmp_path: Path, text: str) -> None:
    write(tmp_path, **{"pyproject.toml": text})
    assert generated(Project(tmp_path, tmp_path)) == []
