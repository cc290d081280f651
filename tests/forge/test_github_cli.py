"""``taskmaestro pr`` and ``issue`` on GitHub: the same words as on the embedded forge."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.cli.main import main
from tests.forge.github_stage import NAME, GithubStage, github_stages
from tests.github import faults, schema
from tests.support.repos import git

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)
Ask = Callable[..., Any]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GithubStage]:
    """A repository on GitHub, its settings checked in, gh logged in as ``conductor``."""
    with github_stages(tmp_path) as stages:
        made = stages()
        for name, value in made.github.environment("conductor").items():
            if name.startswith(("GH_", "XDG_")):
                monkeypatch.setenv(name, value)
        config = made.root / ".taskmaestro" / "config.toml"
        config.parent.mkdir()
        config.write_text('[forge]\nkind = "github"\n[ci]\ngrace = 0\n')
        monkeypatch.chdir(made.root)
        yield made


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == code, capsys.readouterr().err
        out, err = capsys.readouterr()
        return json.loads(out) if out else json.loads(err)

    return run


def test_a_pull_request_is_opened_read_and_talked_about(stage: GithubStage, ask: Ask) -> None:
    head = stage.push("feature")
    issue = ask("issue", "create", "--title", "Do it", "--body", "- [ ] done")["number"]
    made = ask("pr", "create", "--head", "feature", "--title", "Work", "--body", f"Closes #{issue}", "--draft")
    number = str(made["number"])
    assert (made["head"], made["draft"], made["issue"], made["reused"]) == (head, True, issue, False)
    assert ask("pr", "create", "--head", "feature", "--title", "Again", "--body", "")["reused"]
    assert [one["number"] for one in ask("pr", "list")] == [made["number"]]
    assert not ask("pr", "ready", number)["draft"]
    assert "work.txt" in ask("pr", "diff", number)["diff"]
    stage.github.put_check(NAME, head, "unit", "FAILURE", log="the reason\n")
    checks = ask("pr", "checks", number, code=1)
    assert [(one["name"], one["tail"]) for one in checks["checks"]] == [("unit", "the reason")]
    ask("pr", "comment", number, "--body", "Resolved: done")
    assert ask("pr", "review", number, "--approve")["as_comment"]
    said = ask("pr", "view", number, "--comments")["comments"]
    assert said[0]["body"] == "Resolved: done"
    assert said[1]["body"].startswith("✅ Review complete - nothing to address")
    assert ask("pr", "close", number)["state"] == "closed"
    assert ask("pr", "reopen", number)["state"] == "open"
    assert ask("issue", "view", str(issue))["title"] == "Do it"


def test_a_fault_of_githubs_is_one_message_and_an_exit_code(stage: GithubStage, ask: Ask) -> None:
    stage.github.fault(faults.bad_credentials(count=-1))
    told = ask("pr", "list", code=4)
    assert "gh auth login" in json.dumps(told)
    stage.github.server.faults.clear()
    assert "there is no pull request #77 on GitHub" in ask("pr", "view", "77", code=1)["error"]
    git(stage.root, "remote", "set-url", "origin", "/nowhere")
    assert "names no repository" in ask("pr", "list", code=2)["error"]


def test_an_approval_of_a_head_that_moved_is_refused(stage: GithubStage, ask: Ask) -> None:
    opened = stage.open("feature", author="worker-1")
    stage.push("feature", "late.txt")
    told = ask("pr", "review", str(opened.number), "--approve", "--head", opened.head, code=1)
    assert "not the one that was reviewed" in told["error"]


def test_reading_the_status_loads_no_forge(stage: GithubStage) -> None:
    code = (
        "import sys; from conductor.cli.main import main; main(['status', '--json']); "
        "print([name for name in sys.modules if name.startswith(('conductor.forge.', 'stamina', 'git.'))])"
    )
    before = len(stage.github.server.requests)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
    assert len(stage.github.server.requests) == before
