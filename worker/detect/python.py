"""Python: tools that the project configures or declares, run by the python of its .venv.

A worktree without a .venv uses the main checkout's. An editable install there would import the main
checkout's code, so the worktree's own folders go first on PYTHONPATH. A formatter is only taken where the
project says that it formats with it: formatting a code base that never was would change every file.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import Fault
from worker.detect.base import Command, Project, Slot
from worker.tools.process import run

_REQUIREMENTS = ("requirements-dev.txt", "dev-requirements.txt", "requirements/dev.txt", "requirements.txt")
_PYTHON = (
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "requirements.txt",
    "pytest.ini",
    "ruff.toml",
)
_VENVS = (".venv", "venv")
_PROBE = (
    "import importlib.util, json, sys\n"
    "print(json.dumps([name for name in sys.argv[1:] if importlib.util.find_spec(name)]))"
)


@dataclass(frozen=True)
class _Tool:
    """A tool: its arguments, those that change nothing, and the lines that say that the project uses it."""

    slot: Slot
    module: str
    arguments: tuple[str, ...]
    check: tuple[str, ...]
    signs: tuple[tuple[str, str], ...]


def _anywhere(word: str) -> tuple[tuple[str, str], ...]:
    """Lines that declare the tool as a dependency."""
    pattern = rf"""(^|["'\s]){word}(\[[\w,-]+\])?\s*(["'<>=~!;,]|$)"""
    return tuple((name, pattern) for name in ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", *_REQUIREMENTS))


_RUFF = (("pyproject.toml", r"^\[tool\.ruff\b"), ("ruff.toml", r"\S"), (".ruff.toml", r"\S"))
_TOOLS = (
    _Tool(
        "format",
        "ruff",
        ("format", "."),
        ("format", "--check", "."),
        (
            ("pyproject.toml", r"^\[tool\.ruff\.format\]"),
            ("ruff.toml", r"^\[format\]"),
            (".pre-commit-config.yaml", r"id:\s*ruff-format"),
            *((name, r"\bruff format\b") for name in ("Makefile", "tox.ini", "noxfile.py", "justfile")),
        ),
    ),
    _Tool(
        "format",
        "black",
        (".",),
        ("--check", "."),
        (("pyproject.toml", r"^\[tool\.black\]"), *_anywhere("black")),
    ),
    _Tool("lint", "ruff", ("check", "--fix", "."), ("check", "."), (*_RUFF, *_anywhere("ruff"))),
    _Tool(
        "lint",
        "flake8",
        (),
        (),
        ((".flake8", r"^\[flake8\]"), ("setup.cfg", r"^\[flake8\]"), ("tox.ini", r"^\[flake8\]")),
    ),
    _Tool(
        "types",
        "mypy",
        (),
        (),
        (
            ("pyproject.toml", r"^\[tool\.mypy\]"),
            ("mypy.ini", r"^\[mypy\]"),
            ("setup.cfg", r"^\[mypy\]"),
            *_anywhere("mypy"),
        ),
    ),
    _Tool(
        "types",
        "pyright",
        (),
        (),
        (("pyproject.toml", r"^\[tool\.pyright\]"), ("pyrightconfig.json", r"\{"), *_anywhere("pyright")),
    ),
    _Tool(
        "test",
        "pytest",
        ("-q",),
        ("-q",),
        (
            ("pyproject.toml", r"^\[tool\.pytest\b"),
            ("pytest.ini", r"^\[pytest\]"),
            ("tox.ini", r"^\[pytest\]"),
            ("setup.cfg", r"^\[tool:pytest\]"),
            *_anywhere("pytest"),
            ("conftest.py", r"\S"),
            ("tests/conftest.py", r"\S"),
        ),
    ),
)


def detect(project: Project) -> list[Command]:
    """The commands of a Python project, one for each slot that a tool of its own was found for."""
    if not any(project.has(name) for name in _PYTHON) and not _test_files(project):
        return []
    signs = [(tool, project.first_found(tool.signs)) for tool in _TOOLS]
    python, borrowed = find_python(project)
    there = _importable(project, python, sorted({tool.module for tool in _TOOLS}))
    # Any other python than the project's own has another version of it installed, or none.
    env = (("PYTHONPATH", _own_code(project)),) if borrowed or "/" not in python else ()
    found: dict[Slot, Command] = {}
    for tool, why in signs:
        if why is None or not _wanted(found, tool.slot):
            continue
        command = _command(project, tool, why, python, there, env)
        if not command.missing or tool.slot not in found:
            found[tool.slot] = command
    tests = _plain_tests(project, python, there, env) if _wanted(found, "test") else None
    if tests is not None:
        found["test"] = tests
    return list(found.values())


def _wanted(found: dict[Slot, Command], slot: Slot) -> bool:
    return slot not in found or bool(found[slot].missing)


def _command(
    project: Project, tool: _Tool, why: str, python: str, there: set[str], env: tuple[tuple[str, str], ...]
) -> Command:
    """With the project's python; the program on PATH where that python does not have the tool."""
    by_path = tool.module not in there and project.on_path(tool.module)
    missing = "" if by_path or tool.module in there else f"{tool.module} is not installed for {python}, nor on PATH"
    start = (tool.module,) if by_path else (python, "-m", tool.module)
    more = _targets(project, tool)
    argv, check = (*start, *tool.arguments, *more), (*start, *tool.check, *more)
    return Command(tool.slot, argv, why, check=check, env=env, missing=missing)


def _targets(project: Project, tool: _Tool) -> tuple[str, ...]:
    """mypy needs to be told what to check, unless its own configuration says it."""
    if tool.module != "mypy":
        return ()
    places = (("pyproject.toml", "[tool.mypy]"), ("mypy.ini", "[mypy]"), ("setup.cfg", "[mypy]"))
    return () if any(_names_targets(project.text(name), section) for name, section in places) else (".",)


def _names_targets(text: str, section: str) -> bool:
    here = False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            here = line.strip() == section
        elif here and re.match(r"\s*(files|packages|modules)\s*=", line):
            return True
    return False


def _plain_tests(project: Project, python: str, there: set[str], env: tuple[tuple[str, str], ...]) -> Command | None:
    files = _test_files(project)
    if not files:
        return None
    if "pytest" in there:
        return Command(
            "test",
            (python, "-m", "pytest", "-q"),
            f"{files[0]}: a test file, and pytest is installed",
            env=env,
        )
    why = next((one for name in files if (one := project.found(name, r"^\s*(import|from) unittest\b"))), None)
    if why is None:
        return None
    start = "tests" if files[0].startswith("tests/") else "."
    return Command("test", (python, "-m", "unittest", "discover", "-s", start, "-t", "."), why, env=env)


def _test_files(project: Project) -> list[str]:
    found = [*project.root.glob("tests/test_*.py"), *project.root.glob("test_*.py")]
    return [str(path.relative_to(project.root)) for path in sorted(found)[:50]]


def find_python(project: Project) -> tuple[str, bool]:
    """(the python to use, whether it is the main checkout's): that of a .venv, else the one on PATH."""
    for root in project.roots:
        for folder in _VENVS:
            python = root / folder / "bin" / "python"
            if python.is_file() and os.access(python, os.X_OK):
                return str(python) if root != project.root else f"{folder}/bin/python", root != project.root
    return ("python3" if project.on_path("python3") else "python"), False


def _own_code(project: Project) -> str:
    own = [str(project.root / "src")] if (project.root / "src").is_dir() else []
    return os.pathsep.join([*own, str(project.root)])


def _importable(project: Project, python: str, modules: list[str]) -> set[str]:
    try:
        outcome = run([python, "-I", "-c", _PROBE, *modules], cwd=project.root, timeout=20, merge=False)
        names = json.loads(outcome.output or "[]")
    except (Fault, ValueError):  # no python that works: the command itself will say so when it runs
        return set()
    return set(names)


def generated(project: Project) -> list[str]:
    """Files of the package that its build writes, as pyproject.toml names them; git usually ignores them."""
    try:
        tools = tomllib.loads(project.text("pyproject.toml")).get("tool", {})
    except tomllib.TOMLDecodeError:
        return []
    hatch = _inner(tools, "hatch", "build", "hooks", "vcs")
    scm = _inner(tools, "setuptools_scm")
    named = (scm.get("version_file"), scm.get("write_to"), hatch.get("version-file"))
    return [name for name in dict.fromkeys(named) if isinstance(name, str) and project.has(name)]


def _inner(table: Any, *path: str) -> dict[str, Any]:
    for name in path:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def site_folders(root: Path) -> list[Path]:
    """The folders of programs that belong to the project's virtual environments."""
    return [root / folder / "bin" for folder in _VENVS if (root / folder / "bin").is_dir()]
