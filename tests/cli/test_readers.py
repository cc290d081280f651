"""``explain``, ``journal``, ``replay`` and ``schema`` tell what the journal and the contracts say, and nothing else."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from conductor import inbox
from conductor.cli.main import main
from conductor.docs.published import PUBLISHED
from conductor.lock import ConductorLock
from schemas.events import PaneRemoved, TaskGiven
from schemas.forge import CheckState
from tests.support.stories import Run, finding, sha

Out = pytest.CaptureFixture[str]


# --- explain ---


def test_explain_tells_events_rules_effects_and_what_would_move_it(run: Run, capsys: Out) -> None:
    assert main(["explain", "2"]) == 0
    shown = capsys.readouterr().out
    assert "review asks for changes: 2 findings, 1 blocking, at ccccccc → review_pending (cycle 1)" in shown
    assert "rule: posted, counted, and sent to the worker" in shown
    assert "did: post the review on #22: changes_requested" in shown
    assert "Now: pane 2 is review_pending, cycle 1, #22 at ccccccc." in shown
    assert "Awaited: the fix." in shown
    assert "the worker reports that it answered → review_addressed" in shown
    assert "pane 1" not in shown


def test_explain_offers_the_decisions_that_the_rules_would_take(run: Run, capsys: Out) -> None:
    assert main(["explain", "3"]) == 0
    shown = capsys.readouterr().out
    assert "taskmaestro decide 3 approve --follow-up ISSUE --why TEXT" in shown
    assert "taskmaestro decide 3 another-cycle --why TEXT" in shown
    assert "not retry: the cap of reviews is reached" in shown
    assert "the worker reports that it answered" not in shown


def test_explain_says_which_effects_are_open_and_which_failed(run: Run, capsys: Out) -> None:
    run.answer_review(2, sha("9"))
    assert main(["explain", "2", "--json", "--last", "1"]) == 0
    (event,) = json.loads(capsys.readouterr().out)["events"]
    assert (event["rule"], event["effects"][0]["outcome"]) == ("CI passed", "done")
    run.ci(4, CheckState.PASSED)
    run.event_left_open(4, finding())
    assert main(["explain", "4", "--json", "--last", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [effect["outcome"] for effect in told["events"][0]["effects"]] == ["failed", "begun", None]
    assert told["events"][0]["effects"][0]["detail"] == "no such pull request"
    assert main(["explain", "4", "--last", "1"]) == 0
    shown = capsys.readouterr().out
    assert "FAILED: post the review" in shown
    assert "begun: write RESULT.json" in shown
    assert "to do: send the fix task" in shown


def test_explain_of_an_unknown_pane_names_the_known_ones(run: Run, capsys: Out) -> None:
    assert main(["explain", "9"]) == 2
    assert "there is no pane 9\nPanes: 1, 2, 3, 4." in capsys.readouterr().err


def test_explain_before_anything_happened(repository: Path, capsys: Out) -> None:
    assert main(["explain", "1"]) == 1
    assert "taskmaestro up" in capsys.readouterr().err


# --- journal ---


def test_journal_json_is_the_journal_itself(run: Run, capsys: Out) -> None:
    assert main(["journal", "--json"]) == 0
    assert capsys.readouterr().out == run.layout.journal.read_text()


def test_journal_tells_what_happened_without_what_goes_without_saying(run: Run, capsys: Out) -> None:
    assert main(["journal"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "2026-03-01 09:00:20 all     conductor started (pid 4711)"
    assert any(line.endswith("CI failed: at ddddddd (tests) → working (cycle 0)") for line in shown)
    assert not any("begins:" in line for line in shown)
    assert main(["journal", "--all"]) == 0
    everything = capsys.readouterr().out
    assert "begins: post review" in everything
    assert len(everything.splitlines()) == run.memory.last_seq


def test_journal_of_one_pane(run: Run, capsys: Out) -> None:
    assert main(["journal", "--pane", "4"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown
    assert all(" pane 4 " in line for line in shown)
    assert main(["journal", "--pane", "4", "--jq", ".seq"]) == 0
    numbers = [int(line) for line in capsys.readouterr().out.split()]
    assert numbers == sorted(numbers)
    assert len(numbers) < run.memory.last_seq


def test_journal_of_a_pane_that_never_was_is_refused(run: Run, capsys: Out) -> None:
    assert main(["journal", "--pane", "77"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "taskmaestro: there is no pane 77\nPanes: 1, 2, 3, 4.\n")


def test_a_torn_last_line_is_left_out_and_a_broken_one_is_named(run: Run, capsys: Out) -> None:
    whole = run.layout.journal.read_bytes()
    run.layout.journal.write_bytes(whole + b'{"seq": 108, "at"')
    assert main(["journal", "--json"]) == 0
    assert capsys.readouterr().out.encode() == whole
    run.layout.journal.write_bytes(whole + b'{"seq": 108}\n')
    assert main(["journal"]) == 2
    assert f"journal.jsonl, line {run.memory.last_seq + 1}: not a journal line" in capsys.readouterr().err


def test_a_missing_line_is_noticed(run: Run, capsys: Out) -> None:
    lines = run.layout.journal.read_bytes().splitlines(keepends=True)
    run.layout.journal.write_bytes(b"".join(lines[:40] + lines[41:]))
    assert main(["replay"]) == 2
    assert "line 41: sequence number 42, expected 41" in capsys.readouterr().err


# --- replay ---


def test_replay_agrees_with_the_state_files(run: Run, capsys: Out) -> None:
    assert main(["replay"]) == 0
    assert "4 panes: states and files agree" in capsys.readouterr().out
    assert main(["replay", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["agree"], value["differences"], value["lines"]) == (True, [], run.memory.last_seq)
    assert value["panes"][1] == json.loads(run.layout.pane_file(2).read_text())


def test_replay_names_each_field_that_differs(run: Run, capsys: Out) -> None:
    state = json.loads(run.layout.pane_file(2).read_text())
    state["review_cycle"] = 0
    state["extra"] = True
    del state["issue"]
    run.layout.pane_file(2).write_text(json.dumps(state))
    run.layout.pane_file(3).unlink()
    run.layout.pane_file(7).write_text('{"index": 7}')
    run.layout.pane_file(4).write_text("{")
    assert main(["replay", "--json"]) == 1
    told = capsys.readouterr()
    found = {(one["pane"], one["field"]): (one["journal"], one["file"]) for one in json.loads(told.out)["differences"]}
    assert found[2, "review_cycle"] == (1, 0)
    assert found[2, "extra"] == (None, True)
    assert found[2, "issue"] == (12, None)
    assert found[3, "(whole file)"] == ("a pane", "no file")
    assert found[7, "(whole file)"] == ("no such pane", "a file")
    assert found[4, "(whole file)"][0] == "a pane's state"
    assert len(found) == 6
    assert "the conductor writes the files anew" in told.err
    assert main(["replay"]) == 1
    assert "pane 2, review_cycle: journal 1, file 0" in capsys.readouterr().out


def test_replay_waits_for_what_a_living_conductor_is_just_writing(run: Run, capsys: Out) -> None:
    lock = ConductorLock(run.layout.lock)
    lock.acquire()
    run.answer_review(2, sha("9"))
    late = threading.Timer(0.6, run.settle)
    late.start()
    try:
        assert main(["replay"]) == 0
    finally:
        late.join()
        lock.release()
    assert "states and files agree" in capsys.readouterr().out


def test_replay_reports_a_difference_that_stays_while_a_conductor_lives(run: Run) -> None:
    lock = ConductorLock(run.layout.lock)
    lock.acquire()
    try:
        run.layout.pane_file(1).unlink()
        assert main(["replay", "--silent"]) == 1
    finally:
        lock.release()


def test_a_pane_whose_removal_waits_for_a_conductor_does_not_differ_and_that_is_said(run: Run, capsys: Out) -> None:
    inbox.put(run.layout.inbox, "1-a", [PaneRemoved(pane=2, at=run.tick(), why="cleaned up")])
    run.layout.pane_file(2).unlink()
    assert main(["replay"]) == 0
    shown = capsys.readouterr().out
    assert "4 panes: states and files agree" in shown
    assert "1 request waits for a conductor" in shown
    assert "1-a: pane 2, pane_removed" in shown
    assert main(["replay", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["waiting"] == [{"request": "1-a", "pane": 2, "event": "pane_removed"}]


def test_requests_that_wait_explain_nothing_but_a_pane_that_was_removed(run: Run, capsys: Out) -> None:
    inbox.put(run.layout.inbox, "1-a", [TaskGiven(pane=2, at=run.tick(), title="More", body="")])
    inbox.put(run.layout.inbox, "2-b", [PaneRemoved(pane=1, at=run.tick())])
    (run.layout.inbox / "3-c.json").write_text("{")
    run.layout.pane_file(2).unlink()
    state = json.loads(run.layout.pane_file(1).read_text())
    run.layout.pane_file(1).write_text(json.dumps({**state, "review_cycle": 9}))
    assert main(["replay", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(one["pane"], one["field"]) for one in told["differences"]] == [(1, "review_cycle"), (2, "(whole file)")]
    assert [tuple(one.values()) for one in told["waiting"]] == [
        ("1-a", 2, "task_given"),
        ("2-b", 1, "pane_removed"),
        ("3-c", None, None),
    ]
    assert main(["replay"]) == 1
    shown = capsys.readouterr().out
    assert "3 requests wait for a conductor" in shown
    assert "3-c: cannot be read" in shown


# --- schema ---


def test_schema_lists_and_prints(repository: Path, capsys: Out) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.split() == sorted(PUBLISHED)
    assert main(["schema", "result"]) == 0
    Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))
    assert main(["schema", "../config"]) == 2
    assert "there is no schema" in capsys.readouterr().err


def test_the_published_files_hold_against_their_schemas(run: Run, capsys: Out) -> None:
    main(["schema", "journal-line"])
    line_schema = Draft202012Validator(json.loads(capsys.readouterr().out))
    main(["schema", "pane-state"])
    state_schema = Draft202012Validator(json.loads(capsys.readouterr().out))
    lines = run.layout.journal.read_text().splitlines()
    states = list(run.layout.panes.iterdir())
    assert len(lines) > 10
    assert len(states) == 4
    for line in lines:
        line_schema.validate(json.loads(line))
    for path in states:
        state_schema.validate(json.loads(path.read_text()))
