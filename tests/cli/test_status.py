"""``status`` shows every pane as its state file has it, for people and as JSON, and never falls over a broken file."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from conductor.cli.main import main
from conductor.dashboard.rows import MAX_CYCLES
from conductor.lock import ConductorLock
from conductor.loop.snapshots import write_budget
from schemas.config import CyclePolicy
from schemas.forge import ApiBudget
from schemas.pane import PaneState
from tests.cli.conftest import Taskmaestro
from tests.support.stories import Run

Out = pytest.CaptureFixture[str]


def test_json_is_the_state_files_and_the_conductor(run: Run, capsys: Out) -> None:
    lock = ConductorLock(run.layout.lock)
    lock.acquire()
    try:
        assert main(["status", "--json"]) == 0
    finally:
        lock.release()
    value = json.loads(capsys.readouterr().out)
    assert value["conductor"]["pid"] == os.getpid()
    assert [PaneState.model_validate(state).index for state in value["panes"]] == [1, 2, 3, 4]
    assert value["panes"] == [json.loads(run.layout.pane_file(index).read_text()) for index in (1, 2, 3, 4)]


def test_without_a_conductor_it_is_null(run: Run, capsys: Out) -> None:
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conductor"] is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"remaining": 1, "limit": 2, "reset_at": 5}'])
def test_a_rate_limit_that_cannot_be_read_is_left_out(run: Run, capsys: Out, text: str) -> None:
    run.layout.budget.write_text(text)
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forge_budget"] is None


def test_what_is_left_of_the_rate_limit_is_shown_until_its_window_is_over(run: Run, capsys: Out) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=30)
    write_budget(run.layout, ApiBudget(remaining=4321, limit=5000, reset_at=soon))
    assert main(["status", "--jq", ".forge_budget.remaining"]) == 0
    assert capsys.readouterr().out == "4321\n"
    lock = ConductorLock(run.layout.lock)
    lock.acquire()
    try:
        assert main(["status"]) == 0
    finally:
        lock.release()
    assert "forge: 4321 of 5000 points left until" in capsys.readouterr().out.splitlines()[0]
    write_budget(run.layout, ApiBudget(remaining=0, limit=5000, reset_at=soon - timedelta(hours=1)))
    assert main(["status", "--jq", ".forge_budget"]) == 0
    assert capsys.readouterr().out == "null\n"


def test_the_table_says_where_each_pane_is_and_who_is_wanted(run: Run, capsys: Out) -> None:
    assert main(["status"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "no conductor runs (`taskmaestro conduct` starts one)"
    assert shown[1].split() == ["PANE", "AGENT", "STATUS", "CYCLE", "PR", "HEAD", "LAST", "EVENT", "WHEN", "AWAITS"]
    assert "2     scripted  review_pending  1/3    #22  ccccccc  task delivered" in shown[3]
    assert shown[3].endswith("the fix")
    assert "! pane 3 needs a person: cycle_cap" in shown[6]
    assert "User decision required." in shown[-1]


def test_jq_picks_a_field_and_silent_prints_nothing(run: Run, capsys: Out) -> None:
    assert main(["status", "--jq", ".panes[] | select(.attention) | .index"]) == 0
    assert capsys.readouterr().out == "3\n"
    assert main(["status", "--silent"]) == 0
    assert capsys.readouterr().out == ""


def test_exit_code_4_only_on_request_and_only_where_a_person_is_wanted(run: Run) -> None:
    assert main(["status", "--silent"]) == 0
    assert main(["status", "--silent", "--exit-code"]) == 4
    run.layout.pane_file(3).unlink()
    assert main(["status", "--silent", "--exit-code"]) == 0


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b'{"index": "3"}', b""])
def test_a_file_that_holds_no_state_is_named_and_the_others_are_shown(run: Run, content: bytes, capsys: Out) -> None:
    run.layout.pane_file(3).write_bytes(content)
    assert main(["status", "--json"]) == 1
    told = capsys.readouterr()
    assert [state["index"] for state in json.loads(told.out)["panes"]] == [1, 2, 4]
    assert str(run.layout.pane_file(3)) in told.err


def test_control_characters_of_a_state_do_not_reach_the_terminal(run: Run, capsys: Out) -> None:
    state = json.loads(run.layout.pane_file(3).read_text())
    state["agent"] = "bad\x1b]0;title\x07"
    state["attention"]["message"] = "first\x1b[2J\nsecond\x9b31m"
    run.layout.pane_file(3).write_text(json.dumps(state))
    assert main(["status"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert main(["status", "--json"]) == 0
    assert "\x9b" not in capsys.readouterr().out


def test_the_configured_cap_is_shown_and_a_broken_configuration_does_not_matter(run: Run, capsys: Out) -> None:
    run.layout.config.write_text("[review]\nmax_cycles = 5\n")
    main(["status"])
    assert "1/5" in capsys.readouterr().out
    run.layout.config.write_text("[review\n")
    assert main(["status"]) == 0
    assert f"1/{MAX_CYCLES}" in capsys.readouterr().out


def test_the_cap_without_configuration_is_the_models() -> None:
    assert CyclePolicy().max_cycles == MAX_CYCLES


def test_without_panes_it_says_how_to_get_some(repository: object, capsys: Out) -> None:
    assert main(["status"]) == 0
    assert "taskmaestro up 3" in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"conductor": None, "panes": [], "forge_budget": None}


def test_a_worker_sees_it_from_its_worktree(run: Run, taskmaestro: Taskmaestro) -> None:
    from tests.support.repos import git

    git(run.layout.root, "worktree", "add", "--quiet", "-b", "taskmaestro/1", str(run.layout.worktree(1)))
    done = taskmaestro("status", "--jq", ".panes | length", cwd=run.layout.worktree(1))
    assert done.stdout == "4\n"
