"""The review cycle with the real Claude Code in its pane: task, pull request, changes requested, fix, approved."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.claude_cycle import DUMMY_KEY, ClaudeFleet, Plan, by_task
from tests.support.claude_world import CLAUDE, MISSING
from tests.support.model_server import ModelServer
from tests.support.repos import git
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(CLAUDE is None, reason=MISSING), pytest.mark.timeout(240)]

DISCOUNT = '"""A discount."""\n\n\ndef discount(price, percent):\n    return price * (100 - percent) / 100\n'
TEST = (
    "import unittest\n\nfrom discount import discount\n\n\nclass DiscountTest(unittest.TestCase):\n"
    "    def test_lowers(self):\n        self.assertEqual(discount(10, 50), 5)\n"
)
BODY = "Closes #1\n\n## Acceptance criteria\n\n- [x] `discount` lowers a price by a percentage: discount.py\n"
FIRST = (
    {"write": ["discount.py", DISCOUNT], "text": "Writing discount; tests can wait."},
    {"bash": "git add discount.py"},
    {"write": [".taskmaestro/body.md", BODY]},
    {"bash": 'taskmaestro ship --title "Add a discount" --body-file .taskmaestro/body.md'},
)
FIX = (
    {"write": ["test_discount.py", TEST], "text": "The review is right."},
    {"bash": "git add test_discount.py"},
    {"bash": "taskmaestro ship --amend"},
)
GOOD: Plan = {"first": FIRST, "fix": FIX}
ALL_AT_ONCE: Plan = {
    "first": (
        {"write": ["test_discount.py", TEST]},
        FIRST[0],
        {"bash": "git add discount.py test_discount.py"},
        *FIRST[2:],
    )
}
ASKS = 'python3 -c \'open("asked", "w")\''
MakeFleet = Callable[..., ClaudeFleet]


@pytest.fixture
def make_fleet(tmp_path: Path, private_tmux: Path) -> Iterator[MakeFleet]:
    """Make the world of a test; its conductor and agents are ended afterwards."""
    with ExitStack() as stack:

        def make(plans: Plan | None = None, *, turns: tuple[dict[str, Any], ...] = (), **how: Any) -> ClaudeFleet:
            server = stack.enter_context(ModelServer(turns or [by_task(plans or GOOD)]))
            fleet = ClaudeFleet(tmp_path, private_tmux, server, how.pop("more_env", {}))
            fleet.make(**how)
            stack.callback(fleet.taskmaestro, "stop", "--panes", check=False)
            return fleet

        yield make


def delivered(fleet: ClaudeFleet) -> list[tuple[str, str]]:
    """(task, evidence) of each delivery."""
    return [(event["task_id"], event["evidence"]) for event in fleet.events("task_delivered")]


def assert_each_task_came_once(fleet: ClaudeFleet, count: int) -> None:
    """In the journal, in the receipts of its hooks, and in what the model was asked."""
    tasks = [task for task, _ in delivered(fleet)]
    assert len(tasks) == len(set(tasks)) == count
    assert [msg for event, msg in fleet.receipts() if event == "prompt"] == tasks
    asked = [prompt.split("]")[0].removeprefix("[msg ") for prompt in fleet.server.prompts()]
    assert asked == tasks


def assert_nothing_else_was_written(fleet: ClaudeFleet) -> None:
    result = fleet.worktree(1) / "RESULT.json"
    wait_until(lambda: json.loads(result.read_bytes())["status"] == "approved", 10, "the conductor's last word")
    ours = fleet.worktree(1)
    listed = git(ours, "status", "--short", "-uall", "--ignored").splitlines()
    # body.md is what the model wrote, where TASK.md told it to.
    mine = ["!! .taskmaestro/body.md", "!! RESULT.json", "!! TASK.md"]
    assert sorted(line for line in listed if "__pycache__" not in line) == mine
    assert not (fleet.home / ".claude" / "settings.json").exists()
    assert not (fleet.home / ".claude" / "settings.local.json").exists()


def assert_nothing_secret_is_kept(fleet: ClaudeFleet) -> None:
    for path in (fleet.root / ".taskmaestro").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert DUMMY_KEY.encode() not in path.read_bytes(), path


def test_task_pull_request_changes_requested_fix_approved(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    fleet.up()
    fleet.wait_for_status("approved")

    pull = json.loads(fleet.taskmaestro("pr", "view", str(fleet.pane()["pr_number"]), "--comments", "--json"))
    head = git(fleet.worktree(1), "rev-parse", "HEAD")
    assert pull["head"] == fleet.pane()["head_sha"] == head
    reviews = [one for one in pull["comments"] if "<!-- taskmaestro: review=" in one["body"]]
    assert "The change adds logic and no test at all" in reviews[0]["body"]
    assert len(reviews) == 2
    assert head in reviews[1]["body"]
    assert fleet.pane()["review_cycle"] == 1
    assert git(fleet.worktree(1), "log", "--format=%s", "main..HEAD") == "Add a discount"

    assert_each_task_came_once(fleet, 2)
    assert all("hook recorded" in evidence for _, evidence in delivered(fleet)), delivered(fleet)
    wait_until(lambda: fleet.pane()["awaiting"] == "the merge", 5, "the end")
    states = fleet.agent_states()
    assert "busy" in states
    assert "idle" in states
    assert set(states) <= {"starting", "busy", "idle"}
    assert fleet.attention() == ""
    assert_nothing_else_was_written(fleet)
    assert_nothing_secret_is_kept(fleet)
    assert fleet.reached == {"127.0.0.1"}


def test_the_trust_dialog_is_a_persons_and_the_task_goes_on_when_it_is_answered(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(ALL_AT_ONCE, trusted=False)
    fleet.up()
    said = fleet.wait_for_attention("trust")
    assert str(fleet.worktree(1)) in said
    before = fleet.screen()
    wait_until(lambda: fleet.events("task_queued"), 60, "the task to be queued")
    assert (fleet.server.prompts(), fleet.receipts(), fleet.screen().lines) == ((), [], before.lines)

    fleet.keys("Enter")
    fleet.wait_for_status("approved")
    assert_each_task_came_once(fleet, 1)
    assert fleet.attention() == ""


def test_nothing_is_typed_into_a_permission_dialog_also_when_a_task_waits(make_fleet: MakeFleet) -> None:
    plan = {"first": ({"bash": ASKS}, *ALL_AT_ONCE["first"])}
    fleet = make_fleet(plan)
    fleet.up()
    said = fleet.wait_for_attention("asks for leave")
    assert f"Do you want to proceed? Bash command {ASKS}" in said
    before = fleet.screen()
    fleet.taskmaestro("decide", "1", "retry", "--why", "a person who did not look")
    wait_until(lambda: fleet.events("task_queued"), 60, "the task to be queued")
    assert "permission" in fleet.events("task_queued")[-1]["reason"]
    assert fleet.screen().lines == before.lines
    assert not (fleet.worktree(1) / "asked").exists()

    fleet.keys("Enter")
    fleet.wait_for_status("approved")
    assert (fleet.worktree(1) / "asked").exists()
    assert_each_task_came_once(fleet, 1)
    assert fleet.attention() == ""


def test_an_api_error_is_told_and_the_task_goes_on_when_a_person_says_so(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(turns=({"steps": [{"fail": 500}]},))
    fleet.up()
    assert "API Error: 500" in fleet.wait_for_attention("shows an error")
    first = [task for task, _ in delivered(fleet)]
    fleet.server.script.turns = [by_task(ALL_AT_ONCE)]
    fleet.taskmaestro("decide", "1", "retry", "--why", "the service is back")
    fleet.wait_for_status("approved")
    assert len(delivered(fleet)) == len(first) + 1 == 2
    assert fleet.attention() == ""


def test_a_usage_limit_is_told_and_the_task_goes_on_by_itself_after_the_reset(make_fleet: MakeFleet) -> None:
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(time.time()) + 5),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    # Limits are told to subscribers only: a dummy token in place of the dummy key.
    subscriber = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "scripted"}
    fleet = make_fleet(turns=({"steps": [{"fail": 429, "headers": headers}]},), more_env=subscriber)
    fleet.up()
    assert "hit your session limit · resets" in fleet.wait_for_attention("usage limit")
    fleet.server.script.turns = [by_task(ALL_AT_ONCE)]
    fleet.keys("Enter")
    fleet.wait_for_status("approved")
    assert fleet.attention() == ""


def test_a_conductor_that_is_killed_while_the_agent_works_delivers_nothing_twice(make_fleet: MakeFleet) -> None:
    plan = {"first": ({"text": "Thinking.", "bash": "git add shop.py", "slow": 2.0}, *FIRST), "fix": FIX}
    fleet = make_fleet(plan)
    fleet.up()
    wait_until(lambda: delivered(fleet), 60, "the first task")
    fleet.kill_conductor()
    fleet.taskmaestro("up")
    fleet.wait_for_status("approved")
    assert_each_task_came_once(fleet, 2)
    assert fleet.pane()["review_cycle"] == 1
    assert_nothing_else_was_written(fleet)
