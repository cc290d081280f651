"""``loop startup``, ``loop outer`` and the watches where something is over, missing or somebody else's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.loops.desk import LiveDesk
from tests.support.repos import git


def checkpoint(live: LiveDesk, number: int) -> Path:
    return live.root / ".taskmaestro/state/checkpoints/local/dates" / f"pr-{number}.json"


def merge(live: LiveDesk, branch: str = "feature") -> None:
    git(live.root, "checkout", "--quiet", "main")
    git(live.root, "merge", "--quiet", "--no-ff", "-m", "merge", branch)
    git(live.root, "push", "--quiet", "origin", "main")


def issue(live: LiveDesk) -> None:
    live.ok("issue", "create", "--title", "Parse ISO weeks", "--body", "- [ ] parsed", "--json")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"pr": 9}, "is of #9, not of #1"),
        ({"repo": "acme/other"}, "is of acme/other#1, not of #1"),
        ({"copilotState": "pr_weird"}, "copilotState is 'pr_weird', which is no state"),
        ({"reviewerState": "done"}, "reviewerState is 'done', which is no state"),
        ({"repo": "../.."}, "repo"),
    ],
)
def test_a_checkpoint_of_something_else_is_not_resumed(live: LiveDesk, changed: dict[str, Any], words: str) -> None:
    number, _ = live.open()
    live.ok("loop", "outer", "--pr", str(number))
    path = checkpoint(live, number)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}), encoding="utf-8")
    kept = path.read_bytes()
    for verb in ("startup", "outer"):
        told = live.call("loop", verb, "--pr", str(number))
        assert (told.code, told.out) == (2, "")
        assert words in told.error
        assert told.error.count(str(path)) == 1
    assert path.read_bytes() == kept


def test_a_checkpoint_that_is_no_json_is_told_with_its_path_once(live: LiveDesk) -> None:
    number, _ = live.open()
    live.ok("loop", "outer", "--pr", str(number))
    path = checkpoint(live, number)
    path.write_text("{", encoding="utf-8")
    told = live.call("loop", "startup", "--pr", str(number))
    assert (told.code, told.error.count(str(path))) == (2, 1)


@pytest.mark.parametrize("verb", ["outer", "watch"])
def test_a_number_that_is_no_pull_request_leaves_no_checkpoint(live: LiveDesk, verb: str) -> None:
    issue(live)
    for number, words in ((1, "it is an issue"), (77, "no pull request #77")):
        told = live.call("loop", verb, "--pr", str(number))
        assert (told.code, told.out) == (1, "")
        assert words in told.error
        assert not checkpoint(live, number).exists()


@pytest.mark.parametrize("how", ["merged", "closed"])
def test_nothing_is_resumed_on_a_pull_request_that_is_over(live: LiveDesk, how: str) -> None:
    issue(live)
    number, _ = live.open()
    live.ok("loop", "outer", "--pr", str(number))
    if how == "merged":
        merge(live)
    else:
        live.call("pr", "close", str(number))
    told = live.ok("loop", "startup", "--pr", str(number))
    assert (told["resume"], told["prState"]) == ("done", how)
    assert told["checkpoint"]["outerAction"] == "continue_wait"
    assert f"#{number} is {how}: nothing is left to do" in told["nextAction"]


def test_an_issue_whose_pull_request_was_merged_is_not_started_anew(live: LiveDesk) -> None:
    issue(live)
    number, _ = live.open()
    merge(live)
    told = live.ok("loop", "startup", "--issue", "1")
    assert (told["issueState"], told["pr"], told["prState"], told["resume"]) == ("closed", number, "merged", "done")


def test_a_closed_issue_is_not_started_anew(live: LiveDesk) -> None:
    issue(live)
    live.ok("issue", "close", "1", "--json")
    told = live.ok("loop", "startup", "--issue", "1")
    assert (told["issueState"], told["pr"], told["resume"]) == ("closed", None, "done")
    number, _ = live.open()
    told = live.ok("loop", "startup", "--issue", "1")
    assert (told["pr"], told["prState"], told["resume"]) == (number, "open", "ask_for_direction")


def test_an_open_issue_whose_pull_request_was_given_up_is_started_anew(live: LiveDesk) -> None:
    issue(live)
    number, _ = live.open()
    live.call("pr", "close", str(number))
    told = live.ok("loop", "startup", "--issue", "1")
    assert (told["issueState"], told["prState"], told["resume"]) == ("open", "closed", "fresh_start")
    assert f"#{number} was closed unmerged" in told["nextAction"]


def test_one_wait_takes_no_more_than_half_an_hour_unless_a_person_allows_it(live: LiveDesk) -> None:
    for verb in ("watch", "watch-ci"):
        told = live.call("loop", verb, "--pr", "77", "--budget", "1801")
        assert (told.code, "1800" in told.error) == (2, True)
        assert live.call("loop", verb, "--pr", "77", "--budget", "1800").code == 1, "no such pull request"
    live.configure("[loops]\nbudget = 3600\n")
    assert live.call("loop", "watch", "--pr", "77", "--budget", "3600").code == 1
    for endless in ("inf", "nan"):
        live.configure(f"[loops]\nbudget = {endless}\n")
        assert live.call("loop", "watch", "--pr", "77").code == 2


def test_an_abbreviated_head_is_the_head_that_it_names(live: LiveDesk) -> None:
    number, head = live.open()
    moved = live.push("feature", "later.py")

    def watched(name: str) -> Any:
        return live.call(
            "loop", "watch-ci", "--pr", str(number), "--head", name, "--interval", "0.05", "--budget", "0.1"
        )

    for name in (moved[:7], moved[:12].upper(), moved):
        told = watched(name)
        assert (told.value["status"], told.value["head"]) == ("timeout", moved)
    earlier = watched(head[:7])
    assert (earlier.value["status"], earlier.value["head"], earlier.value["headNow"]) == ("changed", head, moved)
    for name in (moved[:6], "", "feature", "0" * 7, f"{moved}0"):
        told = watched(name)
        assert (told.code, told.out) == (2, "")
        assert "--head" in told.error


def test_a_pipe_in_place_of_a_watch_lock_is_not_waited_for(live: LiveDesk) -> None:
    number, _ = live.open()
    lock = live.root / ".taskmaestro/state/watches/local/dates" / f"pr-{number}.lock"
    lock.parent.mkdir(parents=True)
    os.mkfifo(lock)
    for verb in ("watch", "startup"):
        told = live.call("loop", verb, "--pr", str(number))
        assert told.code == 3, told.err
        assert f"{lock} is a named pipe (FIFO)" in told.error


def test_a_file_in_place_of_a_folder_is_no_defect_of_ours(live: LiveDesk) -> None:
    number, _ = live.open()
    folder = live.root / ".taskmaestro/state/checkpoints"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("", encoding="utf-8")
    told = live.call("loop", "outer", "--pr", str(number))
    assert told.code == 2, told.err
