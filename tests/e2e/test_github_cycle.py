"""The cycle on GitHub, in real panes and through the real gh, against the stand-in."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.github import faults
from tests.github.fixtures import github  # noqa: F401  # a fixture
from tests.github.model import PullRequest
from tests.github.world import GithubWorld
from tests.support.fleet import RED, FleetWorld, fleet_world, good_work, mending, wrong_work  # noqa: F401  # a fixture
from tests.support.waiting import wait_until

NAME = "octo/shop"


@pytest.fixture
def shop(fleet_world: FleetWorld, github: GithubWorld) -> Iterator[FleetWorld]:  # noqa: F811
    """A fleet whose pull requests are on GitHub: the conductor is ``maestro`` there, the workers are ``worker``."""
    github.adopt(fleet_world.root, NAME, login="worker", checks={"quick": ("test", "!", "-e", RED)})
    fleet_world.environment.update(github.environment("maestro"))
    worker = {"GH_CONFIG_DIR": github.environment("worker")["GH_CONFIG_DIR"]}
    # A hang is noticed after ten seconds here; thirty would only make the tests longer.
    github_table = {"timeout": 10.0}
    fleet_world.configure(forge={"kind": "github"}, forge__github=github_table, agents__scripted__env=worker)
    yield fleet_world
    fleet_world.taskmaestro("stop", "--panes", code=None)


def pull(world: GithubWorld) -> PullRequest:
    (found,) = world.repository(NAME).pulls
    return found


def posted(world: GithubWorld, state: str) -> list[Any]:
    """The reviews in this state; none before the pull request is there."""
    return [one for made in world.repository(NAME).pulls for one in made.reviews if one.state == state]


def begin(world: FleetWorld) -> None:
    world.begin(wrong_work(1), mending(1), issues=1)


def processes_under(pid: int) -> list[psutil.Process]:
    server = psutil.Process(pid)
    return [server, *server.children(recursive=True)]


def told_by(process: psutil.Process) -> str:
    """Its command line and its environment."""
    try:
        return "\0".join([*process.cmdline(), *(f"{name}={value}" for name, value in process.environ().items())])
    except psutil.Error:  # ended meanwhile
        return ""


def test_changes_are_asked_for_and_the_fixed_head_is_approved_by_another_login(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
) -> None:
    begin(shop)
    shop.wait_status(1, "approved", attention=None, cycle=1)
    shop.wait_settled()
    made = pull(github)
    assert (made.author.login, made.state) == ("worker", "OPEN")
    assert [(one.author.login, one.state, one.commit == made.head) for one in made.reviews] == [
        ("maestro", "CHANGES_REQUESTED", False),
        ("maestro", "APPROVED", True),
    ]
    shop.taskmaestro("replay")
    budget = shop.taskmaestro("status", "--jq", ".forge_budget.limit").stdout
    assert budget == "5000\n"


def test_no_token_is_in_a_file_a_command_line_or_a_panes_environment(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
    tmp_path: Path,
) -> None:
    tokens = [user.token for user in github.world.users.values()]
    shop.environment.update({"GH_TOKEN": github.user("maestro").token, "GITHUB_TOKEN": github.user("worker").token})
    begin(shop)
    seen: dict[int, str] = {}

    def approved() -> bool:
        server = int(shop.tmux("display-message", "-p", "#{pid}"))
        for process in processes_under(server):
            told = told_by(process)
            assert not [token for token in tokens if token in told], f"a token is in {process.cmdline()}"
            seen[process.pid] = told
        return bool(shop.pane(1).get("status") == "approved")

    try:
        wait_until(approved, 60, "the approval")
    except AssertionError:
        raise AssertionError(shop.told() + shop.capture(1)) from None
    assert any("/gh" in told for told in seen.values()), "gh was not seen at work"
    assert len([told for told in seen.values() if "TASKMAESTRO_PANE=1" in told]) > 1
    for folder, _, names in os.walk(shop.folder):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                content = path.read_bytes()
                assert not [token for token in tokens if token.encode() in content], f"a token is in {path}"


@pytest.mark.parametrize("state", ["CHANGES_REQUESTED", "APPROVED"])
def test_a_review_whose_answer_never_came_is_not_posted_again_by_the_next_conductor(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
    state: str,
) -> None:
    """The request arrived, the answer did not, and the conductor is killed while it waits."""
    skip = 1 if state == "APPROVED" else 0
    github.fault(faults.hang(operation="submitPullRequestReview", after=True, skip=skip))
    begin(shop)
    wait_until(lambda: posted(github, state), 90, "the first post")
    shop.kill_conductor()
    shop.taskmaestro("up")
    shop.wait_status(1, "approved", attention=None, cycle=1)
    shop.wait_settled()
    assert [one.state for one in pull(github).reviews] == ["CHANGES_REQUESTED", "APPROVED"]
    assert [event["already"] for event in shop.events("review_posted")].count(True) == 1
    shop.taskmaestro("replay")


def test_a_check_that_fails_after_the_approval_withdraws_it_and_nothing_is_posted_twice(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
) -> None:
    """A late check of the approved head, run again until it is green."""
    shop.begin(good_work(1), issues=1)
    shop.wait_status(1, "approved", attention=None)
    shop.wait_settled()
    head = pull(github).head
    github.put_check(NAME, head, "late", status="IN_PROGRESS")
    wait_until(lambda: shop.pane(1)["awaiting"] == "the merge; CI runs again", 30, "the late check")
    github.put_check(NAME, head, "late", "FAILURE", status="COMPLETED")
    shop.wait_status(1, "working", attention=None)
    assert shop.status()[1]["awaiting"] != "the merge"
    github.put_check(NAME, head, "late", "SUCCESS", status="COMPLETED")
    shop.wait_status(1, "approved", attention=None)
    shop.wait_settled()
    assert [(one.state, one.commit) for one in pull(github).reviews] == [("APPROVED", head)]
    assert len(shop.events("review_finished")) == 1
    shop.taskmaestro("replay")


def test_an_approval_whose_answer_never_came_is_known_though_ci_failed_meanwhile(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
) -> None:
    """It arrived, the conductor was killed before it heard so, and a late check failed before the next one looked."""
    github.fault(faults.hang(operation="submitPullRequestReview", after=True))
    shop.begin(good_work(1), issues=1)
    wait_until(lambda: posted(github, "APPROVED"), 90, "the post")
    shop.kill_conductor()
    head = pull(github).head
    github.put_check(NAME, head, "late", "FAILURE", status="COMPLETED")
    shop.taskmaestro("up")
    shop.wait_status(1, "working", attention=None)
    shop.wait_settled()
    assert [event["already"] for event in shop.events("review_posted")] == [True]
    github.put_check(NAME, head, "late", "SUCCESS", status="COMPLETED")
    shop.wait_status(1, "approved", attention=None)
    shop.wait_settled()
    assert [(one.state, one.commit) for one in pull(github).reviews] == [("APPROVED", head)]
    assert shop.events("ci_lost") == []


def test_a_limit_in_the_middle_of_a_review_is_waited_for_and_told(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
) -> None:
    """Longer than a caller waits by itself; nobody has to decide anything."""
    slow = ["sh", "-c", f"while ! test -e {shop.folder}/limited; do sleep 0.05; done"]
    shop.begin(good_work(1), issues=1, review__verification={"quick": slow})
    shop.wait_event("review_stage", 2)
    github.fault(faults.rate_limited(reset_in=25, operation="repository", count=2))
    (shop.folder / "limited").touch()
    shop.wait_status(1, "reviewing", attention="forge_unavailable")
    shop.wait_status(1, "approved", attention=None, timeout=90)
    shop.wait_settled()
    assert [one.state for one in pull(github).reviews] == ["APPROVED"]
    assert shop.events("user_decided") == []


def test_stop_ends_a_conductor_whose_forge_hangs_and_up_starts_the_next_one(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
) -> None:
    hanging = github.fault(faults.hang(count=-1, login="maestro", operation="submitPullRequestReview"))
    begin(shop)
    wait_until(lambda: hanging.happened, 90, "the hang")
    first = shop.conductor()
    began = time.monotonic()
    os.kill(first, signal.SIGTERM)
    hanging.count = 0
    shop.taskmaestro("up")
    assert time.monotonic() - began < 25
    assert shop.conductor() != first
    assert not psutil.pid_exists(first)
    shop.wait_status(1, "approved", attention=None, cycle=1)
    shop.wait_settled()
    assert [one.state for one in pull(github).reviews] == ["CHANGES_REQUESTED", "APPROVED"]


def test_up_is_refused_where_only_a_variable_holds_a_login(
    shop: FleetWorld,
    github: GithubWorld,  # noqa: F811
) -> None:
    shop.environment["GH_TOKEN"] = github.user("maestro").token
    (Path(shop.environment["GH_CONFIG_DIR"]) / "hosts.yml").write_text("{}\n")
    done = shop.taskmaestro("up", "1", code=4)
    assert "gh is logged in by GH_TOKEN alone, which no pane gets" in done.stderr
    assert "gh auth login" in done.stderr
    assert shop.pane(1) == {}
