"""Every command of the tutorial is run, in its order, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forge.conftest import end_runners
from tests.support.repos import make_repository

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial-reviewer-pass.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {"python": "weeks.py", "markdown": "pr.md"}


def steps() -> list[tuple[str, str]]:
    """(what, text) in the page's order: a command with what it prints below it, or a file's name and content."""
    found: list[tuple[str, str]] = []
    for kind, text in _BLOCK.findall(PAGE):
        if kind != "console":
            found.append((FILES[kind], text))
            continue
        for line in text.splitlines():
            if line.startswith("$ "):
                found.append((line, ""))
            else:
                command, printed = found.pop()
                found.append((command, printed + line + "\n"))
    return found


@pytest.fixture
def dates(tmp_path: Path) -> Iterator[Path]:
    root = make_repository(tmp_path / "dates")
    yield root
    end_runners(root / ".taskmaestro" / "forge")


@pytest.mark.timeout(600)
def test_the_tutorial_s_commands_print_what_it_shows(dates: Path) -> None:
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for what, text in steps():
        if not what.startswith("$ "):
            (dates / what).write_text(text, encoding="utf-8")
            continue
        command = what.removeprefix("$ ")
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            environment[name] = value
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=dates,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert done.stdout == text, command


def test_the_tutorial_uses_every_verb_of_a_pass() -> None:
    commands = " ".join(what for what, _ in steps())
    for verb in ("reviewer", "plan", "merge", "draft", "stage", "notify", "outer", "startup", "follow-up"):
        assert f"loop {verb}" in commands
    for verb in ("create", "lint", "request", "submit", "threads", "reply"):
        assert f"pr {verb}" in commands
