"""``taskmaestro pr`` and ``taskmaestro issue``: what they print, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from conductor.cli.issue import issue
from conductor.cli.pr import pr
from tests.cli.pr.conftest import Desk
from tests.support.repos import git
from tests.support.waiting import wait_until

CODE = Path(__file__).resolve().parents[3]


def opened(desk: Desk, *arguments: str) -> int:
    """Push a branch, open its pull request and answer the number."""
    desk.push("feature")
    result = desk.pr("create", "--title", "Add it", "--body", "Closes #3", "--jq", ".number", *arguments)
    assert result.exit_code == 0, result.stderr
    return int(result.stdout)


def test_create_answers_the_pull_request(desk: Desk) -> None:
    head = desk.push("feature")
    result = desk.pr("create", "--title", "Add it", "--body-file", "-", "--json", stdin="Closes #3\n")
    assert result.exit_code == 0, result.stderr
    value = json.loads(result.stdout)
    assert (value["title"], value["body"], value["issue"]) == ("Add it", "Closes #3\n", 3)
    assert (value["head"], value["base_branch"], value["author"]) == (head, "main", "worker-1")
    assert (value["draft"], value["reused"]) == (False, False)


def test_create_uses_the_open_one_again_and_says_so_beside_the_answer(desk: Desk) -> None:
    number = opened(desk)
    result = desk.pr("create", "--title", "Other", "--json")
    assert json.loads(result.stdout)["number"] == number
    assert json.loads(result.stdout)["reused"] is True
    assert f"#{number}" in result.stderr


def test_draft_first_makes_drafts_and_refuses_ready(desk: Desk) -> None:
    desk.configure("[forge]\ndraft_first = true\n")
    desk.push("feature")
    refused = desk.pr("create", "--title", "T", "--ready")
    assert refused.exit_code == 2
    assert "draft_first" in refused.stderr
    assert refused.stdout == ""
    made = desk.pr("create", "--title", "T", "--jq", ".draft")
    assert made.stdout == "true\n"
    refused = desk.pr("ready")
    assert refused.exit_code == 1
    assert "stays a draft" in refused.stderr


def test_a_draft_is_made_ready_where_drafts_are_not_the_rule(desk: Desk) -> None:
    desk.push("feature")
    desk.pr("create", "--title", "T", "--draft")
    assert desk.pr("ready", "--jq", ".draft").stdout == "false\n"


def test_a_worker_in_its_worktree_means_its_own_branch_and_the_main_repository(desk: Desk) -> None:
    number = opened(desk)
    git(desk.root, "checkout", "--quiet", "main")
    worktree = desk.root / ".taskmaestro" / "wt-1"
    git(desk.root, "worktree", "add", "--quiet", str(worktree), "feature")
    (worktree / "deep").mkdir()
    desk.go(worktree / "deep")
    assert desk.pr("view", "--jq", ".number").stdout == f"{number}\n"
    assert not (worktree / ".taskmaestro").exists()


def test_view_shows_text_without_control_characters(desk: Desk) -> None:
    desk.push("feature")
    desk.pr("create", "--title", "Add \x1b[31mit", "--body", "one\x1b]0;x\x07\x9b2J\ntwo \u202ereversed")
    desk.pr("comment", "feature", "--body", "said \x1b[2J this")
    for arguments in (
        ("view", "--comments"),
        ("view", "--comments", "--json"),
        ("view", "--jq", ".body"),
        ("list",),
    ):
        shown = desk.pr(*arguments)
        assert shown.exit_code == 0
        assert not set("\x1b\x07\x9b\u202e") & set(shown.stdout)
    assert "said [2J this" in desk.pr("view", "--comments").stdout


def test_view_by_number_by_hash_and_by_branch(desk: Desk) -> None:
    number = opened(desk)
    shown = {desk.pr("view", which, "--jq", ".number").stdout for which in (str(number), f"#{number}", "feature")}
    assert shown == {f"{number}\n"}


def test_what_is_not_there_is_exit_1_and_with_json_an_object_on_stderr(desk: Desk) -> None:
    opened(desk)
    plain = desk.pr("view", "99")
    assert (plain.exit_code, plain.stdout) == (1, "")
    assert "#99" in plain.stderr
    told = desk.pr("view", "99", "--json")
    assert (told.exit_code, told.stdout) == (1, "")
    error = json.loads(told.stderr)
    assert error["ok"] is False
    assert "#99" in error["error"]
    assert desk.pr("view", "no-such-branch").exit_code == 1


def test_silent_prints_no_answer(desk: Desk) -> None:
    opened(desk)
    for arguments in (("view",), ("list",), ("diff",), ("checks",)):
        assert desk.pr(*arguments, "--silent").stdout == ""


def test_a_wrong_jq_filter_is_bad_input(desk: Desk) -> None:
    opened(desk)
    result = desk.pr("view", "--jq", ".[")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--jq" in result.stderr
    assert desk.pr("view", "--jq", ".title | error").exit_code == 2


def wait_for_checks(desk: Desk) -> Result:
    def settled() -> Result | None:
        result = desk.pr("checks")
        return None if result.exit_code == 8 else result

    found = wait_until(settled, 30, "the checks")
    assert found is not None
    return found


def test_checks_exit_1_for_none(desk: Desk) -> None:
    opened(desk)
    result = desk.pr("checks")
    assert result.exit_code == 1
    assert "none" in result.stdout


def test_checks_exit_8_while_pending_0_when_passed_and_1_when_failed(desk: Desk, tmp_path: Path) -> None:
    gate, verdict = tmp_path / "gate", tmp_path / "verdict"
    script = f"until test -f {gate}; do sleep 0.02; done; echo seen; test -f {verdict}"
    desk.configure(f"[forge.local.checks]\nunit = ['sh', '-c', {script!r}]\n")
    opened(desk)
    pending = desk.pr("checks", "--json")
    assert pending.exit_code == 8
    assert json.loads(pending.stdout)["state"] == "pending"
    gate.touch()
    failed = wait_for_checks(desk)
    assert failed.exit_code == 1
    assert "seen" in failed.stdout
    assert ".log" in failed.stdout
    verdict.touch()
    assert desk.pr("checks", "--rerun", "--silent").exit_code == 8
    assert wait_for_checks(desk).exit_code == 0


def test_diff_is_the_plain_diff(desk: Desk) -> None:
    opened(desk)
    assert desk.pr("diff").stdout.startswith("diff --git a/new.txt b/new.txt\n")
    assert json.loads(desk.pr("diff", "--json").stdout)["diff"].startswith("diff --git")


def test_review_of_ones_own_becomes_a_comment_and_of_anothers_an_approval(desk: Desk) -> None:
    number = opened(desk)
    own = desk.pr("review", "--approve", "--json")
    assert json.loads(own.stdout)["as_comment"] is True
    assert "comment" in own.stderr
    desk.patch.setenv("TASKMAESTRO_LOGIN", "reviewer")
    assert desk.pr("review", str(number), "--approve").exit_code == 0
    assert desk.pr("review", str(number), "--request-changes", "--body", "mend it").exit_code == 0
    assert desk.pr("review", str(number), "--comment", "--body", "hm").exit_code == 0
    states = desk.pr("view", str(number), "--comments", "--jq", ".comments[].review_state").stdout.split()
    assert states == ["commented", "approved", "changes_requested", "null"]


def test_a_review_of_an_old_head_is_refused(desk: Desk) -> None:
    number = opened(desk)
    old = git(desk.root, "rev-parse", "main")
    result = desk.pr("review", str(number), "--approve", "--head", old)
    assert result.exit_code == 1
    assert git(desk.root, "rev-parse", "feature") in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("review",),
        ("comment", "--body", "a", "--body-file", "b"),
        ("comment", "--body-file", "/no/such/file"),
        ("comment",),
        ("create", "--title", "T", "--draft", "--ready"),
        ("create", "--title", " "),
        ("create",),
        ("view", "../x"),
    ],
)
def test_bad_input_is_exit_2_or_1_and_leaves_stdout_empty(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.push("feature")
    if arguments[0] != "create":
        desk.pr("create", "--title", "T")
    result = desk.pr(*arguments)
    assert result.exit_code == (1 if arguments[0] == "view" else 2)
    assert result.stdout == ""
    assert result.stderr


def test_close_and_list(desk: Desk) -> None:
    number = opened(desk)
    assert desk.pr("list", "--jq", ".[].number").stdout == f"{number}\n"
    assert f"#{number}  open  feature -> main  Add it" in desk.pr("list").stdout
    assert desk.pr("close", "--jq", ".state").stdout == "closed\n"
    empty = desk.pr("list")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "no open pull requests" in empty.stderr
    assert desk.pr("list", "--json").stdout == "[]\n"


@pytest.mark.parametrize("verdicts", [["-a", "-r"], ["-a", "-c"], ["-r", "-c"], []])
def test_a_review_has_one_verdict(desk: Desk, verdicts: list[str]) -> None:
    number = opened(desk)
    refused = desk.pr("review", str(number), *verdicts, "-b", "x")
    assert refused.exit_code == 2
    assert "Give one of --approve" in refused.stderr
    assert desk.pr("view", "--comments", "--jq", ".comments | length").stdout == "0\n"


def test_a_title_that_is_too_long_is_refused_and_not_cut(desk: Desk) -> None:
    assert desk.issue("create", "--title", "x" * 300, "--jq", ".title").stdout == "x" * 300 + "\n"
    refused = desk.issue("create", "--title", "x" * 301)
    assert refused.exit_code == 2
    assert "the title has 301 characters, more than 300" in refused.stderr


def test_a_closed_one_is_opened_again(desk: Desk) -> None:
    number = opened(desk)
    desk.pr("close")
    assert desk.pr("reopen", str(number), "--jq", ".state").stdout == "open\n"
    assert desk.pr("list", "--jq", ".[].number").stdout == f"{number}\n"


def test_issues_are_filed_read_and_listed(desk: Desk) -> None:
    made = desk.issue("create", "--title", "Do it", "--body", "- [ ] done", "--jq", ".number")
    assert made.stdout == "1\n"
    assert desk.issue("view", "#1", "--jq", ".body").stdout == "- [ ] done\n"
    assert "- [ ] done" in desk.issue("view", "1").stdout
    assert desk.issue("list").stdout == "#1  open  Do it\n"
    assert desk.issue("view", "2").exit_code == 1
    assert desk.issue("view", "zwei").exit_code == 2
    assert desk.issue("close", "#1").stdout == "#1  closed  Do it\n"
    assert desk.issue("list", "--json").stdout == "[]\n"
    assert desk.issue("close", "2").exit_code == 1


def test_an_unknown_forge_names_the_known_ones(desk: Desk) -> None:
    desk.configure('[forge]\nkind = "gitea"\n')
    result = desk.pr("list")
    assert result.exit_code == 2
    assert "gitea" in result.stderr
    assert "local" in result.stderr


def test_outside_of_a_repository_it_says_so(desk: Desk, tmp_path: Path) -> None:
    desk.go(tmp_path)
    result = desk.pr("list")
    assert result.exit_code == 2
    assert str(tmp_path) in result.stderr


@pytest.mark.parametrize("group", [pr, issue])
def test_each_verb_has_help_with_an_example(group: click.Group) -> None:
    for name in group.commands:
        shown = CliRunner().invoke(group, [name, "--help"])
        assert shown.exit_code == 0
        assert f"Example: taskmaestro {group.name} {name}" in shown.stdout


def test_the_verbs_load_no_heavy_library(desk: Desk) -> None:
    opened(desk)
    script = (
        "import sys\nfrom conductor.cli.pr import pr\n"
        "pr(['list', '--json'], standalone_mode=False)\n"
        "heavy = {'git', 'libtmux', 'rich', 'textual', 'watchdog', 'jq', 'requests', 'httpx'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=desk.root,
        env={**os.environ, "PYTHONPATH": str(CODE)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
