"""Agents that misbehave, through the whole conductor: each ends well, or with a line that says what is wrong."""

from __future__ import annotations

import json

from tests.support.fleet import (
    AMEND,
    DEADLINE,
    WRONG,
    FleetWorld,
    Step,
    Turn,
    add,
    good_work,
    mending,
    ship,
    turn,
    write,
    wrong_work,
)
from tests.support.waiting import wait_until


def stays(index: int = 1) -> Turn:
    """What an agent does that was told of a problem and does nothing about it."""
    return turn(index, "notice", {"say": "I see"}, repeat=True)


def told(world: FleetWorld, index: int = 1) -> str:
    """What the pane's person reads."""
    held = world.pane(index).get("attention")
    return str(held["message"]) if held else ""


def test_an_agent_that_drops_enter_after_a_paste_gets_its_fix_task_once(fleet_world: FleetWorld) -> None:
    fleet_world.options["drop_enter_ms"] = 300
    fleet_world.begin(wrong_work(1), mending(1))
    fleet_world.wait_status(1, "approved", cycle=1, attention=None)
    assert fleet_world.turns_done(1) == 2
    assert len(set(fleet_world.receipts(1))) == len(fleet_world.receipts(1)) == 2


def test_a_draft_in_the_input_line_does_not_mix_with_the_task(fleet_world: FleetWorld) -> None:
    fleet_world.options["draft"] = "half a thought"
    fleet_world.begin(wrong_work(1), mending(1))
    fleet_world.wait_status(1, "approved", cycle=1, attention=None)
    assert fleet_world.turns_done(1) == 2
    assert "half a thought[msg" not in fleet_world.capture(1).replace(" ", "")


def test_a_trust_dialog_holds_the_task_until_a_person_answers_it(fleet_world: FleetWorld) -> None:
    fleet_world.options["trust"] = True
    fleet_world.begin(good_work(1))
    fleet_world.wait_status(1, "working", attention="unresponsive")
    assert "trust" in told(fleet_world)
    assert fleet_world.turns_done(1) == 0
    fleet_world.wait_event("task_queued")
    fleet_world.keys(1, "Down", "Enter")
    fleet_world.wait_status(1, "approved", attention=None)
    assert fleet_world.turns_done(1) == 1


def test_a_silent_agent_is_reported_and_its_neighbour_goes_on(fleet_world: FleetWorld) -> None:
    quiet = turn(1, "first", {"say": "Starting"}, {"silent": True})
    fleet_world.tables[""] = {"silent_after": 2.0}
    fleet_world.begin(quiet, good_work(2), issues=2)
    fleet_world.wait_status(1, "working", attention="unresponsive")
    assert "silent" in told(fleet_world)
    fleet_world.wait_status(2, "approved", attention=None)


def test_an_agent_that_dies_in_its_turn_is_started_again_with_its_task(fleet_world: FleetWorld) -> None:
    fleet_world.begin(turn(1, "first", {"say": "Oh"}, {"die": 9}), good_work(1))
    fleet_world.wait_status(1, "working", attention="pane_dead")
    assert "status 9" in told(fleet_world)
    fleet_world.decide(1, "retry")
    fleet_world.wait_status(1, "approved", attention=None)
    assert fleet_world.turns_done(1) == 2
    assert len(fleet_world.reviews(fleet_world.pane(1)["pr_number"])) <= 1


def by_hand() -> list[Step]:
    """Good work up to the open pull request #2, without a report."""
    return [
        *good_work(1)["steps"][:-1],
        {"git": ["commit", "-q", "-m", "Good"]},
        {"git": ["push", "-q", "-u", "origin", "HEAD"]},
        {"run": ["taskmaestro", "pr", "create", "--title", "Good", "--body", "Good."]},
    ]


def report_of(issue: int, pull: int, **more: object) -> str:
    return json.dumps({"status": "success", "issue": issue, "pr_number": pull, **more}, indent=1)


def test_half_a_result_that_is_finished_in_time_counts(fleet_world: FleetWorld) -> None:
    half = {"half": {"text": report_of(1, 2, summary="x" * 200), "finish_after": 0.3}}
    fleet_world.begin(turn(1, "first", *by_hand(), half))
    fleet_world.wait_status(1, "approved", attention=None)
    assert fleet_world.events("result_invalid") == []


def test_half_a_result_is_invalid_until_it_is_finished(fleet_world: FleetWorld) -> None:
    text = report_of(1, 2, summary="x" * 200)
    finish = turn(1, "notice", {"result": text}, {"say": "Finished"})
    fleet_world.begin(turn(1, "first", *by_hand(), {"half": {"text": text}}), finish)
    fleet_world.wait_event("result_invalid")
    fleet_world.wait_status(1, "approved", attention=None)
    assert len(fleet_world.events("result_invalid")) == 1
    assert fleet_world.turns_done(1) == 2


def test_the_pull_request_of_another_pane_is_no_success(fleet_world: FleetWorld) -> None:
    liar = turn(
        2,
        "first",
        {"run": ["sh", "-c", "until taskmaestro pr view 3 --silent; do :; done"]},
        {"report": {"kind": "success", "pr": 3}},
    )
    fleet_world.begin(good_work(1), liar, stays(2), issues=2)
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.wait_status(2, "working", attention="invalid_result")
    assert "#3 is of branch" in told(fleet_world, 2)
    fleet_world.wait_settled()
    assert len(fleet_world.reviews(3)) == 1


def test_success_with_nothing_pushed_is_told_to_the_worker_who_then_pushes(fleet_world: FleetWorld) -> None:
    early = turn(
        1,
        "first",
        *by_hand(),
        write("more.txt", "more\n"),
        add("more.txt"),
        {"git": ["commit", "-q", "--amend", "--no-edit"]},
        {"report": {"kind": "success", "pr": 2}},
    )
    fleet_world.begin(early, turn(1, "notice", ship("Good")))
    fleet_world.wait_status(1, "approved", attention=None)
    assert fleet_world.git("show", "--name-only", "--format=", "origin/" + fleet_world.pane(1)["branch"]).split() == [
        "good-1.txt",
        "more.txt",
    ]


def test_a_closed_pull_request_is_no_success(fleet_world: FleetWorld) -> None:
    close = {"run": ["taskmaestro", "pr", "close", "2"]}
    closing = turn(1, "first", *by_hand(), close, {"report": {"kind": "success", "pr": 2}})
    fleet_world.begin(closing, stays())
    state = wait_until(lambda: fleet_world.pane(1) if "closed" in told(fleet_world) else None, DEADLINE, "the word")
    assert state is not None
    assert state["status"] in ("working", "done")
    assert fleet_world.reviews(2) == []


def test_addressed_without_a_new_head_or_a_reply_is_not_reviewed_again(fleet_world: FleetWorld) -> None:
    lazy = turn(1, "fix", {"report": {"kind": "addressed"}})
    fleet_world.begin(wrong_work(1), lazy, turn(1, "notice", *mending(1)["steps"]))
    fleet_world.wait_status(1, "approved", cycle=1, attention=None)
    fleet_world.wait_settled()
    assert len(fleet_world.reviews(2)) == 2
    assert fleet_world.turns_done(1) == 3
    assert "Nothing changed since the review" in (fleet_world.worktree(1) / "TASK.md").read_text()


def test_a_worker_cannot_approve_itself(fleet_world: FleetWorld) -> None:
    sly = turn(
        1,
        "first",
        {"result": {"status": "approved", "pr_number": 1, "issue": 1, "written_by": "worker"}},
    )
    fleet_world.begin(sly, turn(1, "notice", *good_work(1)["steps"]))
    fleet_world.wait_status(1, "approved", attention=None)
    fleet_world.wait_settled()
    rules = fleet_world.taskmaestro("explain", "1").stdout
    assert "Only the conductor grants that" in rules or "grant by a worker" in rules
    assert len(fleet_world.reviews(2)) == 1
    assert fleet_world.turns_done(1) == 2


def test_a_fix_on_top_of_wrong_work_is_amended(fleet_world: FleetWorld) -> None:
    fleet_world.begin(
        wrong_work(1), turn(1, "fix", {"delete": WRONG}, write("ok.txt", "ok\n"), add(WRONG, "ok.txt"), AMEND)
    )
    fleet_world.wait_status(1, "approved", cycle=1)
    assert fleet_world.git("rev-list", "--count", f"main..{fleet_world.pane(1)['branch']}") == "1"
