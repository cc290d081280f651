"""The steps of the page on GitHub are run, in their order, on the stand-in and with the real gh."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.github.fixtures import github  # noqa: F401  # a fixture
from tests.github.world import GithubWorld
from tests.support.fleet import FleetWorld, add, fleet_world, ship, turn, write  # noqa: F401  # a fixture

PAGE = (Path(__file__).parents[2] / "docs" / "github.md").read_text(encoding="utf-8")
BY_HAND = ("gh auth login",)
"""It asks a person in a browser."""


def commands() -> list[str]:
    blocks = re.findall(r"^ *```console\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def test_the_steps_work_as_they_are_written(fleet_world: FleetWorld, github: GithubWorld) -> None:  # noqa: F811
    github.adopt(fleet_world.root, "octo/shop", login="maestro", checks={"unit": ("true",)})
    fleet_world.environment.update(github.environment("maestro"))
    body = "Closes #1\n\n## Acceptance criteria\n\n- [x] 2026-W05 is accepted: weeks.txt\n"
    work = (write("weeks.txt", "05\n"), add("weeks.txt"), ship("Parse ISO weeks", body))
    fleet_world.turns.append(turn(1, "first", *work))
    given = [command for command in commands() if command not in BY_HAND]
    assert [command.split()[1] for command in given] == ["init", "doctor", "pr", "issue", "issue", "up", "status"]
    fleet_world.layout.config.unlink()
    said = {}
    for command in given:
        if command.startswith("taskmaestro up"):
            # The reader has an agent of a vendor's; here its part is played by the scripted one.
            fleet_world.configure(forge={"kind": "github"})
        done = fleet_world.taskmaestro(*shlex.split(command)[1:], code=None)
        # doctor has a word on an agent that is not on this machine; the page is about GitHub.
        assert done.returncode == 0 or "doctor" in command, done.stdout + done.stderr
        said[command.split()[1]] = done.stdout
    assert re.search(r"github\s.*octo/shop, as maestro", said["doctor"])
    fleet_world.wait_status(1, "approved", attention=None)
    assert "points left until" in fleet_world.taskmaestro("status").stdout
