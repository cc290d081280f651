"""The review pane: its verdicts count, its result is removed, and the conductor takes over where it fails."""

from __future__ import annotations

from typing import Any

from tests.support.fleet import AMEND, FleetWorld, Turn, add, good_work, turn, write

FINDING = {
    "path": "good-1.txt",
    "line": 1,
    "severity": "high",
    "message": "it says good and does not say why",
    "impact": "readers have to guess",
    "rule": "review",
}


def verdict(result: str, *findings: dict[str, Any], **more: Any) -> Turn:
    """One turn of the reviewer. Its tasks carry the issue of the pane under review."""
    return {
        "task": "review",
        "steps": [{"report": {"kind": "review", "result": result, "findings": list(findings)}}],
        **more,
    }


def begin(world: FleetWorld, *turns: Turn, **tables: Any) -> None:
    world.turns.extend(turns)
    world.configure(**tables)
    world.up(world.issue("One"), count=1, more=["--review-pane"])


def reviewer(world: FleetWorld) -> int:
    return next(index for index in (1, 2, 3) if world.pane(index).get("role") == "reviewer")


MENDING = turn(1, "fix", write("good-1.txt", "good, because\n"), add("good-1.txt"), AMEND)


def test_the_review_panes_verdicts_count_and_its_result_is_removed_after_each(fleet_world: FleetWorld) -> None:
    begin(fleet_world, good_work(1), MENDING, verdict("changes_requested", FINDING), verdict("approve"))
    fleet_world.wait_status(1, "approved", cycle=1, attention=None)
    fleet_world.wait_settled()
    bodies = [row["body"] for row in fleet_world.reviews(2)]
    assert len(bodies) == 2
    assert "it says good and does not say why" in bodies[0]
    assert "took over" not in "".join(bodies)
    assert "The conductor reviewed" not in "".join(bodies)
    assert fleet_world.turns_done(reviewer(fleet_world)) == 2
    assert not (fleet_world.worktree(reviewer(fleet_world)) / "RESULT.json").exists()
    seen = [event for event in fleet_world.events("result_seen") if event["pane"] == reviewer(fleet_world)]
    assert [event["result"]["review_result"] for event in seen] == ["changes_requested", "approve"]


def test_the_conductor_takes_over_from_a_review_pane_that_dies_and_says_so(fleet_world: FleetWorld) -> None:
    begin(fleet_world, good_work(1), {"task": "review", "steps": [{"die": 3}]})
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.wait_settled()
    (body,) = [row["body"] for row in fleet_world.reviews(2)]
    assert "the review pane died. The conductor reviewed." in body


def test_the_conductor_takes_over_from_a_review_pane_that_says_nothing_and_says_so(fleet_world: FleetWorld) -> None:
    begin(fleet_world, good_work(1), {"task": "review", "steps": [{"silent": True}]}, review={"pane_budget": 4.0})
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.wait_settled()
    (body,) = [row["body"] for row in fleet_world.reviews(2)]
    assert "the review pane said nothing within 4 s. The conductor reviewed." in body


def test_a_verdict_given_while_no_conductor_lived_is_not_lost(fleet_world: FleetWorld) -> None:
    hold = {"run": ["sh", "-c", f"until test -e '{fleet_world.folder}/go'; do sleep 0.05; done"]}
    slow = verdict("changes_requested", FINDING)
    slow["steps"].insert(0, hold)
    begin(fleet_world, good_work(1), MENDING, slow, verdict("approve"))
    fleet_world.wait_status(1, "reviewing")
    index = reviewer(fleet_world)
    from tests.support.fleet import DEADLINE
    from tests.support.waiting import wait_until

    wait_until(lambda: fleet_world.turns_done(index) == 1, DEADLINE, "the reviewer's start")
    fleet_world.kill_conductor()
    (fleet_world.folder / "go").touch()
    wait_until(lambda: (fleet_world.worktree(index) / "RESULT.json").exists(), DEADLINE, "the verdict")
    fleet_world.taskmaestro("up")
    fleet_world.wait_status(1, "approved", cycle=1, attention=None)
    fleet_world.wait_settled()
    assert len(fleet_world.reviews(2)) == 2
    assert fleet_world.turns_done(index) == 2
    assert "The conductor reviewed" not in "".join(row["body"] for row in fleet_world.reviews(2))
