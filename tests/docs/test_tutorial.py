"""Every command of the tutorial is run, in its order, and prints what the page shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.forge.conftest import end_runners
from tests.github.fixtures import github  # noqa: F401  # a fixture
from tests.github.world import GithubWorld
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


@dataclass
class Desk:
    """Where the commands run. ``acts`` gives the variables that a login acts under; ``words`` replaces what a forge
    says otherwise than the page, such as the ids of threads.
    """

    root: Path
    environment: dict[str, str]
    acts: Callable[[str], dict[str, str]]
    words: dict[str, str] = field(default_factory=dict)

    def put(self, text: str) -> str:
        for old, new in self.words.items():
            text = text.replace(old, new)
        return text

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def dates(tmp_path: Path) -> Iterator[Desk]:
    root = make_repository(tmp_path / "dates")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    yield Desk(root, {**os.environ, "PATH": path}, lambda login: {"TASKMAESTRO_LOGIN": login})
    end_runners(root / ".taskmaestro" / "forge")


@pytest.fixture
def dates_on_github(tmp_path: Path, github: GithubWorld) -> Desk:  # noqa: F811
    root = make_repository(tmp_path / "dates")
    github.adopt(root, "octo/dates", login="wilma")
    github.user("fred")
    words = {"taskmaestro init": "taskmaestro init --forge github"}
    return Desk(root, github.environment("wilma"), github.environment, words)


def play(desk: Desk) -> None:
    """Every step, each command's output compared with what the page shows."""
    for what, text in steps():
        if not what.startswith("$ "):
            (desk.root / what).write_text(text, encoding="utf-8")
            continue
        command = what.removeprefix("$ ")
        if command.startswith("export TASKMAESTRO_LOGIN="):
            desk.environment |= desk.acts(command.partition("=")[2])
            continue
        if command.startswith("taskmaestro pr threads") and ".id" in command:
            (thread,) = json.loads(desk.run("taskmaestro pr threads 2 --json"))
            desk.words |= {"1 weeks.py": f"{thread['id']} weeks.py", "thread 1 ": f"thread {thread['id']} "}
        assert desk.run(desk.put(command)) == desk.put(text), command


@pytest.mark.timeout(600)
def test_the_tutorial_s_commands_print_what_it_shows(dates: Desk) -> None:
    play(dates)


@pytest.mark.timeout(600)
def test_on_github_they_print_the_same(dates_on_github: Desk) -> None:
    play(dates_on_github)


def test_the_tutorial_uses_every_verb_of_a_pass() -> None:
    commands = " ".join(what for what, _ in steps())
    for verb in ("reviewer", "plan", "merge", "draft", "stage", "notify", "outer", "startup", "follow-up"):
        assert f"loop {verb}" in commands
    for verb in ("create", "lint", "request", "submit", "threads", "reply"):
        assert f"pr {verb}" in commands
