"""``taskmaestro pr`` and ``issue`` on GitHub: the same words as on the embedded forge."""

from __future__ import annotations

import json
import re
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


def test_a_comment_as_long_as_github_takes_is_refused_with_what_fits(stage: GithubStage, ask: Ask) -> None:
    number = str(stage.open("feature").number)
    text = stage.root / "long.md"
    text.write_text("x" * 65_536)
    told = ask("pr", "comment", number, "--body-file", str(text), code=2)["error"]
    found = re.search(r"has 65536 characters, more than (\d+): .*hidden line", told)
    assert found, told
    text.write_text("x" * int(found[1]))
    ask("pr", "comment", number, "--body-file", str(text))
    (only,) = stage.github.pull(NAME, int(number)).comments
    assert len(only.body) == 65_536


def test_optional_checks_are_marked_and_a_missing_log_is_no_empty_one(
    stage: GithubStage, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = stage.open("feature")
    shown = ["pr", "checks", str(opened.number)]
    stage.github.put_status(NAME, opened.head, "opt", "FAILURE", target_url="https://ci.example/9")
    stage.github.put_check(NAME, opened.head, "unit", "SUCCESS")
    assert main(shown) == 1
    assert "(optional)" not in capsys.readouterr().out
    stage.github.repository(NAME).protection.checks = ("unit",)
    config = stage.root / ".taskmaestro" / "config.toml"
    config.write_text(config.read_text() + "[forge.github]\nonly_required = true\n")
    stage.github.put_check(NAME, opened.head, "lint", "FAILURE", log="lint says no\n")
    assert main(shown) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("passed at ")
    assert "fail    opt (optional)  https://ci.example/9" in lines
    assert any(line.startswith("fail    lint (optional)  ") for line in lines)
    assert any(line.startswith("pass    unit  ") for line in lines)
    assert "--- opt, its log: https://ci.example/9" in lines
    assert lines[lines.index("--- lint, last lines:") + 1] == "lint says no"


def test_a_branch_that_is_gone_is_not_approved(stage: GithubStage, ask: Ask) -> None:
    opened = stage.open("feature", author="worker-1")
    git(stage.github.repository(NAME).path, "update-ref", "-d", "refs/heads/feature")
    told = ask("pr", "review", str(opened.number), "--approve", code=1)["error"]
    assert "the branch feature of #1 is not on the remote any more" in told
    assert stage.forge.submitted_reviews(opened.number) == []


def test_the_reviewed_head_may_be_abbreviated(stage: GithubStage, ask: Ask) -> None:
    opened = stage.open("feature", author="worker-1")
    number = str(opened.number)
    review = ("pr", "review", number, "--approve", "--head")
    for wrong in (opened.head[:6], "", "feature", f"{opened.head[:7]}g"):
        assert "names no commit" in ask(*review, wrong, code=2)["error"]
    other = ("0" if opened.head[6] != "0" else "1").join((opened.head[:6], opened.head[7:12]))
    for moved in (other, opened.head + "0"):
        assert "not the one that was reviewed" in ask(*review, moved, code=1)["error"]
    assert stage.forge.submitted_reviews(opened.number) == []
    for right in (opened.head[:7], opened.head[:12].upper(), opened.head):
        ask(*review, right)
    assert {one.commit for one in stage.forge.submitted_reviews(opened.number)} == {opened.head}


def test_a_pull_request_that_is_used_again_says_where_it_goes(
    stage: GithubStage, capsys: pytest.CaptureFixture[str]
) -> None:
    number = stage.open("feature", body="Closes #9").number
    create = ["pr", "create", "--head", "feature", "--title", "T", "--json"]
    for more, words in (
        ([], f"#{number} into main; that one"),
        (["--another"], f"#{number} into main; that one"),
        (["--base", "main"], f"#{number} into main; that one"),
        (["--base", "nobase"], f"#{number} into main, not into nobase; that one"),
        (["--another", "--base", "nobase"], f"#{number} into main, not into nobase; that one"),
        (
            ["--head", "other", "--body", "Closes #9", "--base", "nobase"],
            f"#{number} into main, not into nobase, of feature; that one",
        ),
    ):
        assert main([*create, *more]) == 0
        out, err = capsys.readouterr()
        value = json.loads(out)
        assert words in err
        assert (value["number"], value["base_branch"], value["reused"]) == (number, "main", True)


def test_reading_the_status_loads_no_forge(stage: GithubStage) -> None:
    code = (
        "import sys; from conductor.cli.main import main; main(['status', '--json']); "
        "print([name for name in sys.modules if name.startswith(('conductor.forge.', 'stamina', 'git.'))])"
    )
    before = len(stage.github.server.requests)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
    assert len(stage.github.server.requests) == before
