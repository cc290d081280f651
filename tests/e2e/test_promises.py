"""Promises under attack: nothing of others is lost unseen, nothing is approved that is not green."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.fleet import WRONG, FleetWorld, add, good_work, turn, write, wrong_work
from tests.support.repos import commit_file, git
from tests.support.waiting import wait_until

WAIT_FOR = "until test -e {go}; do sleep 0.1; done"


def foreign_push(fleet: FleetWorld, branch: str) -> str:
    """A colleague puts a commit on the worker's branch, from a clone of their own. Answers its SHA."""
    clone = fleet.folder / "colleague"
    git(fleet.folder, "clone", "-q", str(fleet.layout.home / "forge" / "repo.git"), str(clone))
    git(clone, "checkout", "-q", branch)
    git(clone, "config", "user.name", "Colleague")
    git(clone, "config", "user.email", "colleague@example.invalid")
    commit_file(clone, "theirs.txt", "theirs\n")
    git(clone, "push", "-q", "origin", f"HEAD:{branch}")
    return git(clone, "rev-parse", "HEAD")


def waiting(go: Path) -> dict[str, object]:
    return {"run": ["sh", "-c", WAIT_FOR.format(go=go)]}


def test_a_colleagues_commit_that_a_worker_overwrites_is_kept_and_told(fleet_world: FleetWorld) -> None:
    go = fleet_world.folder / "go"
    forced = turn(
        1,
        "fix",
        waiting(go),
        {"delete": WRONG},
        write("right.txt", "right\n"),
        add(WRONG, "right.txt"),
        {"git": ["commit", "-q", "--amend", "--no-edit"]},
        {"git": ["push", "-q", "--force", "origin", "HEAD"]},
        {"report": {"kind": "addressed"}},
    )
    fleet_world.begin(wrong_work(1), forced)
    fleet_world.wait_status(1, "review_pending", cycle=1)
    theirs = foreign_push(fleet_world, fleet_world.git("branch", "--show-current", folder=fleet_world.worktree(1)))
    fleet_world.wait_event("head_moved")
    go.touch()
    pane = wait_until(
        lambda: fleet_world.attention(1) == "foreign_commits_lost", timeout=60, what="the loss to be told"
    )
    assert pane

    def kept() -> bool:
        refs = fleet_world.git("for-each-ref", "--format=%(objectname)", "refs/taskmaestro/backup/pr-*")
        return theirs in refs.split()

    wait_until(kept, timeout=60, what="the backup ref of the colleague's commit")
    assert "colleague@example.invalid" in fleet_world.told()


def test_ci_that_turns_red_while_the_review_runs_is_never_approved(fleet_world: FleetWorld) -> None:
    red, go = fleet_world.folder / "red", fleet_world.folder / "go"
    work = turn(
        1, "first", write("good.txt", "good\n"), add("good.txt"), {"ship": {"title": "Good", "body": "Done.\n"}}
    )
    fleet_world.begin(
        work,
        forge__local__checks={"quick": ["test", "!", "-e", str(red)]},
        review__verification={"slow": ["sh", "-c", WAIT_FOR.format(go=go)]},
    )
    fleet_world.wait_status(1, "reviewing")
    wait_until(lambda: fleet_world.pane(1)["awaiting"] == "the review", timeout=60, what="the review to run")
    red.touch()
    fleet_world.taskmaestro("pr", "checks", str(fleet_world.pane(1)["pr_number"]), "--rerun", code=None)
    fleet_world.wait_status(1, "working")
    go.touch()
    fleet_world.wait_settled()
    assert fleet_world.pane(1)["status"] == "working"
    assert fleet_world.reviews(fleet_world.pane(1)["pr_number"]) == []


def test_ci_that_turns_red_after_the_approval_withdraws_it_until_the_head_is_green_again(
    fleet_world: FleetWorld,
) -> None:
    red = fleet_world.folder / "red"
    fleet_world.begin(good_work(1), forge__local__checks={"quick": ["test", "!", "-e", str(red)]})
    fleet_world.wait_status(1, "approved")
    before = fleet_world.wait_settled()
    number = fleet_world.pane(1)["pr_number"]
    red.touch()
    fleet_world.taskmaestro("pr", "checks", str(number), "--rerun", code=None)
    fleet_world.wait_status(1, "working")
    fleet_world.wait_settled()
    assert "CI failed on your pull request" in (fleet_world.worktree(1) / "TASK.md").read_text()
    fleet_world.kill_conductor()
    red.unlink()
    fleet_world.taskmaestro("pr", "checks", str(number), "--rerun", code=None)
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved", attention=None)
    after = fleet_world.wait_settled()
    assert after.fleet.panes[1].approved_head == before.fleet.panes[1].approved_head
    assert [row["review_state"] for row in fleet_world.reviews(number)] == ["approved"]
    assert len(fleet_world.events("review_finished")) == len(fleet_world.events("review_posted")) == 1
    assert json.loads((fleet_world.worktree(1) / "RESULT.json").read_text())["status"] == "approved"
    assert "the approval of this commit stands" in (fleet_world.worktree(1) / "TASK.md").read_text()
    fleet_world.taskmaestro("replay")
