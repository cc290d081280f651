"""The main job, end to end, with nothing played but the agents' wits."""

from __future__ import annotations

from tests.support.fleet import FleetWorld, good_work, mending, wrong_work


def test_one_pane_is_approved_and_one_is_sent_back_once(fleet_world: FleetWorld) -> None:
    fleet_world.begin(good_work(1), wrong_work(2), mending(2), issues=2)
    fleet_world.wait_status(1, "approved", attention=None, cycle=0)
    fleet_world.wait_status(2, "approved", attention=None, cycle=1)
    fleet_world.wait_settled()
    pulls = {index: fleet_world.pane(index)["pr_number"] for index in (1, 2)}
    assert [len(fleet_world.reviews(pulls[index])) for index in (1, 2)] == [1, 2]
    assert [fleet_world.turns_done(index) for index in (1, 2)] == [1, 2]
    fleet_world.taskmaestro("replay")
