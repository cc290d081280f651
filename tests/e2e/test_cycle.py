"""The main job, end to end, with nothing played but the agents' wits."""

from __future__ import annotations

from tests.support.fleet import AMEND, RED, FleetWorld, add, good_work, mending, ship, turn, write, wrong_work
from tests.support.repos import commit_file


def test_one_pane_is_approved_and_one_is_sent_back_once(fleet_world: FleetWorld) -> None:
    fleet_world.begin(good_work(1), wrong_work(2), mending(2), issues=2)
    fleet_world.wait_status(1, "approved", attention=None, cycle=0)
    fleet_world.wait_status(2, "approved", attention=None, cycle=1)
    fleet_world.wait_settled()
    pulls = {index: fleet_world.pane(index)["pr_number"] for index in (1, 2)}
    assert [len(fleet_world.reviews(pulls[index])) for index in (1, 2)] == [1, 2]
    assert [fleet_world.turns_done(index) for index in (1, 2)] == [1, 2]
    fleet_world.taskmaestro("replay")


def test_an_amended_commit_after_red_ci_is_the_workers_own(fleet_world: FleetWorld) -> None:
    red = turn(1, "first", write(RED, "red\n"), write("ok.txt", "ok\n"), add(RED, "ok.txt"), ship("Red"))
    fleet_world.begin(red, turn(1, "ci", {"delete": RED}, add(RED), AMEND))
    fleet_world.wait_status(1, "approved", attention=None, cycle=0)
    assert fleet_world.git("for-each-ref", "refs/taskmaestro/backup/pr-*") == ""
    assert all(not event["lost"] for event in fleet_world.events("history_checked"))


def test_a_repository_with_packages_of_our_names_is_conducted_by_ours(fleet_world: FleetWorld) -> None:
    for name in ("conductor", "schemas", "worker"):
        commit_file(fleet_world.root, f"{name}/__init__.py", "raise SystemExit('not ours')\n")
    fleet_world.begin(good_work(1))
    fleet_world.wait_status(1, "approved", attention=None)
