"""A managed repository with a bare remote and one worker's worktree, and the header of its task."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.repos import clone, git, make_remote, make_repository
from worker.tools.git import exclude_private

FAKE_PR = '''\
"""Stands in for the command line: keeps what it was asked, and answers `pr create` as that does."""
import json, os, pathlib, sys
log = pathlib.Path(os.environ["FAKE_PR_LOG"])
with log.open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "pr":
    fault = os.environ.get("FAKE_PR_FAULT")
    if fault:
        print(json.dumps({"ok": False, "error": fault}), file=sys.stderr)
        sys.exit(3)
    print(json.dumps({"number": 12, "url": "https://forge.invalid/pull/12"}))
'''


@dataclass(frozen=True)
class World:
    """``main`` is the managed repository, ``tree`` its first worktree on ``branch``, ``remote`` the bare
    remote.
    """

    main: Path
    tree: Path
    remote: Path
    branch: str
    log: Path

    def task(self, kind: str = "first", **more: object) -> None:
        facts = {
            "task": "1-1",
            "kind": kind,
            "nonce": "n-1",
            "issue": 7,
            "branch": self.branch,
            "base": "main",
        }
        (self.tree / "TASK.md").write_text(f"<!-- taskmaestro {json.dumps({**facts, **more})} -->\n\n# Task\n")

    def stage(self, name: str = "code.txt", text: str = "one\n") -> None:
        (self.tree / name).write_text(text)
        git(self.tree, "add", "--", name)

    def at_remote(self) -> str:
        return git(self.remote, "rev-parse", f"refs/heads/{self.branch}")

    def result(self) -> dict[str, object]:
        answer = json.loads((self.tree / "RESULT.json").read_text())
        assert isinstance(answer, dict)
        return answer

    def configure(self, text: str) -> None:
        (self.main / ".taskmaestro" / "config.toml").write_text(text)

    def pr_calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def colleague_pushes(self, folder: Path) -> str:
        other = clone(self.remote, folder)
        git(other, "switch", "--quiet", self.branch)
        (other / "theirs.txt").write_text("theirs\n")
        git(other, "add", "--", "theirs.txt")
        git(other, "commit", "--quiet", "-m", "Theirs")
        git(other, "push", "--quiet", "origin", self.branch)
        return git(other, "rev-parse", "HEAD")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose ``taskmaestro pr`` is a stand-in that keeps its arguments."""
    main = make_repository(tmp_path / "project")
    remote = make_remote(main, tmp_path / "remote.git")
    tree = main / ".taskmaestro" / "wt-1"
    git(main, "worktree", "add", "--quiet", "-b", "issue-7", str(tree), "main")
    exclude_private(main)
    fake = tmp_path / "fake"
    (fake / "conductor").mkdir(parents=True)
    (fake / "conductor/__init__.py").write_text("")
    (fake / "conductor/__main__.py").write_text(FAKE_PR)
    monkeypatch.setenv("PYTHONPATH", str(fake))
    log = tmp_path / "pr.log"
    monkeypatch.setenv("FAKE_PR_LOG", str(log))
    made = World(main, tree, remote, "issue-7", log)
    made.task()
    made.configure(f"[battery]\ntest = ['{sys.executable}', '-I', '-S', '-c', '']\n")
    return made
