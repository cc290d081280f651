"""A real project, taken as it is: `init` without edits, two workers, one good patch and one that breaks a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.core.memory import Memory
from conductor.journal import read
from conductor.layout import Layout
from schemas.events import TaskDelivered
from tests.support.repos import git
from tests.support.sources import PLUGGY, unpacked
from tests.support.tmux_server import reap
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

BIN = Path(sys.executable).parent
MANAGER = "src/pluggy/_manager.py"
REGISTERED = "return any(plugin == val for val in self._name2plugin.values())"
NOT_NONE = "return plugin is not None and any(plugin == val for val in self._name2plugin.values())"
NONE_TEST = """from pluggy import PluginManager


def test_nothing_is_not_registered(pm: PluginManager) -> None:
    pm.set_blocked("somename")
    assert not pm.is_registered(None)
"""
BLOCKED = "return name in self._name2plugin and self._name2plugin[name] is None"
WRONG = "return self._name2plugin.get(name) is None"
UNBLOCK = "    def unblock(self, name: str) -> bool:"
NAMES = f'''    def blocked_names(self) -> set[str]:
        """Return the names that are blocked."""
        return {{name for name in self._name2plugin if self.is_blocked(name)}}

{UNBLOCK}'''
NAMES_TEST = """from pluggy import PluginManager


def test_blocked_names(pm: PluginManager) -> None:
    pm.set_blocked("somename")
    pm.register(object(), "other")
    assert pm.blocked_names() == {"somename"}
"""


def body(issue: int, claim: str) -> str:
    return f"Closes #{issue}\n\n## Acceptance criteria\n\n- [x] {claim}\n"


def replace(old: str, new: str) -> dict[str, Any]:
    return {"replace": {"path": MANAGER, "old": old, "new": new}}


def write(path: str, text: str) -> dict[str, Any]:
    return {"write": {"path": path, "text": text}}


GOOD = [
    replace(REGISTERED, NOT_NONE),
    write("testing/test_none.py", NONE_TEST),
    {"git": ["add", MANAGER, "testing/test_none.py"]},
    {
        "ship": {
            "title": "Nothing is not registered",
            "body": body(1, "`None` is never registered: testing/test_none.py"),
        }
    },
]
NAMES_BODY = body(2, f"the blocked names can be listed: {MANAGER}")
BREAKING = [
    replace(BLOCKED, WRONG),
    replace(UNBLOCK, NAMES),
    {"git": ["add", MANAGER]},
    {"git": ["commit", "-q", "-m", "List blocked names"]},
    {"git": ["push", "-q", "-u", "origin", "HEAD"]},
    {"run": ["taskmaestro", "pr", "create", "--title", "List blocked names", "--body", NAMES_BODY]},
    {"report": {"kind": "success"}},
]
MENDED = [replace(WRONG, BLOCKED), {"git": ["add", MANAGER]}, {"ship": {"amend": True}}]
TESTED = [
    write("testing/test_blocked.py", NAMES_TEST),
    {"git": ["add", "testing/test_blocked.py"]},
    {"ship": {"amend": True}},
]
SCRIPT = {
    "turns": [
        {"issue": 1, "task": "first", "steps": GOOD},
        {"issue": 2, "task": "first", "steps": BREAKING},
        {"issue": 2, "task": "ci", "steps": MENDED},
        {"issue": 2, "task": "fix", "steps": TESTED},
    ]
}


class Project:
    """The project with the person's shell around it; tmux is the person's own server, in a folder of the test."""

    def __init__(self, root: Path, script: Path) -> None:
        self.root = root
        self.env = {
            **os.environ,
            # The project has no environment of its own: its tests run with the python on PATH.
            "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
            "TASKMAESTRO_SCRIPT": str(script),
        }

    def taskmaestro(self, *argv: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(BIN / "taskmaestro"), *argv],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"taskmaestro {argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def panes(self) -> dict[int, dict[str, Any]]:
        return {pane["index"]: pane for pane in json.loads(self.taskmaestro("status", "--json"))["panes"]}


def tasks_of(root: Path, index: int) -> list[str]:
    """The kinds of the tasks that were delivered to the pane, in order, each as often as it was."""
    memory = Memory()
    sent: list[str] = []
    for line in read(Layout(root).journal):
        memory.take(line)
        event = getattr(line, "event", None)
        if isinstance(event, TaskDelivered) and event.pane == index:
            task = memory.fleet.panes[index].task
            assert task is not None
            assert task.task_id == event.task_id
            sent.append(task.kind)
    return sent


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = unpacked(PLUGGY, tmp_path)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", f"pluggy {PLUGGY.version}")
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    made = Project(root, script)
    yield made
    made.taskmaestro("stop", "--panes")
    for socket in Path(os.environ["TMUX_TMPDIR"]).glob("tmux-*/default"):
        assert reap(socket) == []


def test_init_finds_commands_that_run_and_says_what_it_left_out(project: Project) -> None:
    answer = json.loads(project.taskmaestro("init", "--agent", "scripted", "--json"))
    found = answer["found"]
    assert found["commands"]["test"]["argv"][1:] == ["-m", "pytest", "-q"]
    # Written by the build and ignored by git: without it no checkout could import the package.
    assert found["needed"] == ["src/pluggy/_version.py"]
    # The project pins its tools elsewhere; with the ones that are here it does not pass, and the reason is told.
    assert all(any(line.startswith(f"note: {slot}: left out") for line in answer["lines"]) for slot in found["failing"])
    assert "test" not in found["failing"]


def test_a_good_patch_is_approved_and_a_breaking_one_goes_back_until_it_is_good(project: Project) -> None:
    project.taskmaestro("init", "--agent", "scripted")
    for title, criterion in (
        ("Nothing is never registered", "`None` is never registered"),
        ("List blocked names", "the blocked names can be listed"),
    ):
        project.taskmaestro(
            "issue", "create", "--title", title, "--body", f"## Acceptance criteria\n\n- [ ] {criterion}\n"
        )
    project.taskmaestro("up", "2", "--agent", "scripted", "--issues", "1,2")

    def ended() -> bool:
        panes = project.panes()
        return all(panes.get(i, {}).get("status") == "approved" or panes.get(i, {}).get("attention") for i in (1, 2))

    try:
        wait_until(ended, 200, "both panes at their end")
    finally:
        print(project.taskmaestro("journal"))
    panes = project.panes()
    assert [(panes[i]["status"], panes[i]["review_cycle"]) for i in (1, 2)] == [("approved", 0), ("approved", 1)]

    first = json.loads(project.taskmaestro("pr", "view", str(panes[2]["pr_number"]), "--comments", "--json"))
    reviews = [one["body"] for one in first["comments"] if "<!-- taskmaestro: review=" in one["body"]]
    assert len(reviews) == 2
    assert "adds logic and no test" in reviews[0]
    # One commit each, nothing of ours in it, and the project's own tests pass on both.
    for index, names in ((1, [MANAGER, "testing/test_none.py"]), (2, [MANAGER, "testing/test_blocked.py"])):
        tree = project.root / ".taskmaestro" / f"wt-{index}"
        assert git(tree, "diff", "--name-only", "main...HEAD").splitlines() == names
        assert git(tree, "rev-list", "--count", "main..HEAD") == "1"
    assert tasks_of(project.root, 2) == ["first", "ci", "fix"]
    assert tasks_of(project.root, 1) == ["first"]
    project.taskmaestro("replay")
