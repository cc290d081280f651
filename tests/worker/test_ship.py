"""``ship`` takes staged changes to a reported pull request, and goes on where it was interrupted."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conductor.cli.ship import command
from schemas.errors import BadInput, NeedsPerson, NotSo, Unavailable
from tests.support.repos import git
from tests.worker.conftest import World
from worker import ship as ship_module
from worker.report import find_place, report_failure
from worker.ship import Wishes, ship

FIRST = Wishes(title="Add code")
AMEND = Wishes(amend=True)


def battery(world: World, code: str, slot: str = "format") -> None:
    world.configure(f"[battery]\n{slot} = {json.dumps([sys.executable, '-I', '-S', '-c', code])}\n")


def test_staged_changes_become_a_reported_pull_request(world: World) -> None:
    world.stage()
    (world.tree / "scratch.txt").write_text("not staged")
    done = ship(world.tree, FIRST)
    assert world.at_remote() == done.head == git(world.tree, "rev-parse", "HEAD")
    assert git(world.tree, "log", "-1", "--format=%s") == "Add code"
    assert git(world.tree, "show", "--name-only", "--format=") == "code.txt"
    assert (done.pr_number, done.pushed, done.reported) == (12, True, "success")
    assert world.result() == {"status": "success", "pr_number": 12, "issue": 7, "nonce": "n-1"}
    (call,) = world.pr_calls()
    assert call[:3] == ["pr", "create", "--json"]
    assert {"--head=issue-7", "--base=main", "--title=Add code", "--body=Closes #7"} <= set(call)
    assert "--draft" not in call


def test_a_draft_comes_first_where_it_is_configured(world: World) -> None:
    world.configure("[forge]\ndraft_first = true\n[battery]\ntest = 'true'\n")
    world.stage()
    ship(world.tree, FIRST)
    assert "--draft" in world.pr_calls()[0]


def test_a_fix_is_amended_pushed_over_the_reviewed_head_and_reported(world: World) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    world.task("fix", pr=12, cycle=1, lease=first.head, nonce="n-2")
    world.stage(text="two\n")
    done = ship(world.tree, AMEND)
    assert world.at_remote() == done.head != first.head
    assert git(world.tree, "rev-list", "--count", "main..HEAD") == "1"
    assert git(world.tree, "log", "-1", "--format=%s") == "Add code"
    assert world.result() == {
        "status": "review_addressed",
        "review_cycle": 1,
        "pr_number": 12,
        "issue": 7,
        "nonce": "n-2",
    }
    assert len(world.pr_calls()) == 1
    world.stage(text="three\n")
    again = ship(world.tree, AMEND)  # a second go within the same task overwrites what the first one pushed
    assert world.at_remote() == again.head


def test_a_ci_task_before_any_review_is_reported_as_success(world: World) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    world.task("ci", about="ci", pr=12, cycle=0, lease=first.head)
    world.stage(text="two\n")
    assert ship(world.tree, AMEND).reported == "success"


@pytest.mark.parametrize("fetched", [False, True])
def test_a_colleagues_commit_is_not_overwritten_even_after_a_fetch(world: World, tmp_path: Path, fetched: bool) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    world.task("fix", pr=12, cycle=1, lease=first.head)
    theirs = world.colleague_pushes(tmp_path / "other")
    if fetched:
        git(world.tree, "fetch", "--quiet")
    world.stage(text="two\n")
    (world.tree / "RESULT.json").unlink()
    with pytest.raises(NeedsPerson, match="somebody else pushed") as caught:
        ship(world.tree, AMEND)
    assert theirs[:12] in caught.value.what
    assert "git rebase" in caught.value.hint
    assert world.at_remote() == theirs
    result = world.result()
    assert (result["status"], result["reason"], result["pr_number"]) == ("failure", "lease_rejected", 12)
    assert theirs[:12] in result["error"]


def test_a_refused_push_is_no_reason_of_a_later_report(world: World, tmp_path: Path) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    world.task("fix", pr=12, cycle=1, lease=first.head)
    world.colleague_pushes(tmp_path / "other")
    world.stage(text="two\n")
    with pytest.raises(NeedsPerson):
        ship(world.tree, AMEND)
    assert world.result()["reason"] == "lease_rejected"
    report_failure(find_place(world.tree), "no disk")
    assert "reason" not in world.result()


def test_a_colleagues_commit_that_was_taken_in_is_pushed_on(world: World, tmp_path: Path) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    world.task("fix", pr=12, cycle=1, lease=first.head)
    theirs = world.colleague_pushes(tmp_path / "other")
    git(world.tree, "pull", "--quiet", "--ff-only", "origin", world.branch)
    world.stage(text="two\n")
    done = ship(world.tree, Wishes(message="On top"))
    assert world.at_remote() == done.head
    assert git(world.tree, "rev-parse", "HEAD~1") == theirs


def test_a_branch_that_was_deleted_on_the_remote_is_not_brought_back(world: World) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    world.task("fix", pr=12, cycle=1, lease=first.head)
    git(world.remote, "update-ref", "-d", f"refs/heads/{world.branch}")
    world.stage(text="two\n")
    with pytest.raises(NeedsPerson, match="deleted"):
        ship(world.tree, AMEND)
    assert git(world.remote, "for-each-ref", f"refs/heads/{world.branch}") == ""


def test_a_branch_of_that_name_by_somebody_else_is_not_overwritten(world: World) -> None:
    foreign = git(world.remote, "commit-tree", "-m", "Foreign", "main^{tree}")
    git(world.remote, "update-ref", f"refs/heads/{world.branch}", foreign)
    world.stage()
    with pytest.raises(NeedsPerson, match="somebody else pushed"):
        ship(world.tree, FIRST)
    assert world.at_remote() == foreign


def test_an_unreachable_remote_is_said_before_anything_is_done(world: World) -> None:
    shutil.move(world.remote, world.remote.with_suffix(".away"))
    world.stage()
    before = git(world.tree, "rev-parse", "HEAD")
    with pytest.raises(Unavailable, match="cannot be reached"):
        ship(world.tree, FIRST)
    assert git(world.tree, "rev-parse", "HEAD") == before


STEPS = ["_commit", "_push", "_pull_request", "report_done"]


@pytest.mark.parametrize("amend", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_crash_the_same_command_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, when: str, amend: bool
) -> None:
    wishes = FIRST
    world.stage()
    if amend:
        first = ship(world.tree, FIRST)
        world.task("fix", pr=12, cycle=1, lease=first.head)
        world.stage(text="two\n")
        wishes = AMEND
    real = getattr(ship_module, step)

    def crash(*args: object) -> object:
        if when == "after":
            real(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ship_module, step, crash)
        with pytest.raises(KeyboardInterrupt):
            ship(world.tree, wishes)
    done = ship(world.tree, wishes)
    assert world.at_remote() == done.head == git(world.tree, "rev-parse", "HEAD")
    assert git(world.tree, "rev-list", "--count", "main..HEAD") == "1"
    assert world.result()["status"] == ("review_addressed" if amend else "success")
    assert world.result()["pr_number"] == 12


def test_shipping_twice_changes_nothing(world: World) -> None:
    world.stage()
    first = ship(world.tree, FIRST)
    again = ship(world.tree, FIRST)
    assert (again.head, again.commit, again.pushed, again.stages) == (first.head, None, False, [])


def test_a_failing_battery_stops_everything(world: World) -> None:
    battery(world, "print('E42 in line 7'); raise SystemExit(1)", "lint")
    world.stage()
    before = git(world.tree, "rev-parse", "HEAD")
    with pytest.raises(NotSo, match="E42 in line 7"):
        ship(world.tree, FIRST)
    assert git(world.tree, "rev-parse", "HEAD") == before
    assert git(world.tree, "diff", "--cached", "--name-only") == "code.txt"
    assert git(world.remote, "for-each-ref", f"refs/heads/{world.branch}") == ""
    assert not (world.tree / "RESULT.json").exists()


def test_what_the_formatter_changed_is_staged_again_and_nothing_else(world: World) -> None:
    battery(
        world,
        "[open(n,'a').write('formatted\\n') for n in ('code.txt', 'README.md', 'new.txt', 'partly.txt')]",
    )
    world.stage()
    world.stage("partly.txt", "staged\n")
    (world.tree / "partly.txt").write_text("staged\nnot staged\n")
    done = ship(world.tree, FIRST)
    assert git(world.tree, "show", "HEAD:code.txt") == "one\nformatted"
    assert git(world.tree, "show", "HEAD:partly.txt") == "staged"
    assert set(git(world.tree, "show", "--name-only", "--format=").split()) == {"code.txt", "partly.txt"}
    assert any("README.md" in note for note in done.notes)
    assert any("partly.txt" in note for note in done.notes)


def test_a_formatter_that_changes_a_commit_waiting_for_its_push_is_said(world: World) -> None:
    world.stage()
    git(world.tree, "commit", "--quiet", "-m", "By hand")
    battery(world, "open('code.txt','a').write('x\\n')")
    with pytest.raises(NotSo, match=r"code\.txt") as caught:
        ship(world.tree, FIRST)
    assert "--amend" in caught.value.hint
    assert git(world.remote, "for-each-ref", f"refs/heads/{world.branch}") == ""


def test_hooks_of_the_repository_run_and_can_refuse(world: World) -> None:
    hook = world.main / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no tabs please' >&2\nexit 1\n")
    hook.chmod(0o755)
    world.stage()
    with pytest.raises(NotSo, match="no tabs please"):
        ship(world.tree, FIRST)
    hook.rename(hook.with_name("pre-push"))
    with pytest.raises(NotSo, match="no tabs please"):
        ship(world.tree, FIRST)
    hook.with_name("pre-push").unlink()
    assert ship(world.tree, FIRST).reported == "success"


@pytest.mark.parametrize("name", ["RESULT.json", "TASK.md", ".taskmaestro/state/x.json"])
def test_private_files_are_never_committed(world: World, name: str) -> None:
    path = world.tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name != "TASK.md":
        path.write_text("{}")
    git(world.tree, "add", "--force", "--", name)
    with pytest.raises(BadInput, match=name.replace(".", r"\.")):
        ship(world.tree, FIRST)
    git(world.tree, "commit", "--quiet", "-m", "By hand")
    with pytest.raises(BadInput, match="never to a commit") as caught:
        ship(world.tree, FIRST)
    assert "git rm --cached" in caught.value.hint
    git(world.tree, "rm", "--quiet", "--cached", "--", name)
    world.stage()
    assert ship(world.tree, AMEND).reported == "success"


def test_nothing_to_ship_says_what_to_do(world: World) -> None:
    (world.tree / "README.md").write_text("changed\n")
    with pytest.raises(NotSo, match=r"no commit beyond main; changed but not staged: README\.md") as caught:
        ship(world.tree, FIRST)
    assert "git add FILES" in caught.value.hint
    world.stage()
    first = ship(world.tree, FIRST)
    with pytest.raises(NotSo, match="pushed already"):
        ship(world.tree, FIRST)
    git(world.tree, "restore", "README.md")
    world.task("fix", pr=12, cycle=1, lease=first.head)
    with pytest.raises(NotSo, match="nothing is new") as caught:
        ship(world.tree, AMEND)
    assert "report addressed" in caught.value.hint


def test_a_commit_of_the_base_is_not_amended(world: World) -> None:
    world.stage()
    with pytest.raises(BadInput, match="no commit of its own to amend"):
        ship(world.tree, AMEND)


def test_a_commit_needs_a_message(world: World) -> None:
    world.stage()
    with pytest.raises(BadInput, match="message"):
        ship(world.tree, Wishes())


def test_the_wrong_branch_is_refused(world: World) -> None:
    git(world.tree, "switch", "--quiet", "-c", "other")
    world.stage()
    with pytest.raises(BadInput, match="the task is for issue-7"):
        ship(world.tree, FIRST)
    git(world.tree, "switch", "--quiet", "--detach")
    with pytest.raises(BadInput, match="on no branch"):
        ship(world.tree, FIRST)
    with pytest.raises(BadInput, match="itself"):
        ship(world.main, FIRST)


def test_outside_a_workers_worktree_everything_but_the_report_is_done(world: World) -> None:
    git(world.main, "switch", "--quiet", "-c", "solo")
    (world.main / "x").write_text("x")
    git(world.main, "add", "x")
    done = ship(world.main, FIRST)
    assert (done.reported, done.pr_number) == (None, 12)


def test_a_fault_of_the_forge_keeps_its_kind_and_text(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.stage()
    monkeypatch.setenv("FAKE_PR_FAULT", "the forge is away")
    with pytest.raises(Unavailable, match="the forge is away"):
        ship(world.tree, FIRST)
    monkeypatch.delenv("FAKE_PR_FAULT")
    assert ship(world.tree, FIRST).reported == "success"


def test_packages_of_the_worktree_do_not_stand_in_for_ours(world: World) -> None:
    evil = world.tree / "conductor" / "cli"
    evil.mkdir(parents=True)
    (world.tree / "conductor" / "__init__.py").write_text("raise SystemExit('hijacked')")
    world.stage()
    assert ship(world.tree, FIRST).pr_number == 12


def test_the_verb_prints_what_was_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.stage()
    monkeypatch.chdir(world.tree)
    answer = CliRunner().invoke(command, ["--title", "Add code", "--json"], catch_exceptions=False)
    assert answer.exit_code == 0
    data = json.loads(answer.stdout)
    assert (data["ok"], data["pr_number"], data["reported"]) == (True, 12, "success")
    assert data["battery"][0]["slot"] == "test"
