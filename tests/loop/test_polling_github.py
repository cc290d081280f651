"""The poller before the stand-in for GitHub: a round costs the same, however many panes wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conductor.core.state import Fleet
from conductor.core.watches import ci_watches
from conductor.git.worktrees import GitWorktrees
from conductor.loop.polling import Poller
from schemas.config import Config
from schemas.events import CiRead, Event
from schemas.forge import ApiBudget, CheckState
from tests.core.cycle_play import START, Play
from tests.forge.github_stage import NAME, GithubStage, github_stages
from tests.github import schema
from tests.support.repos import git

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[GithubStage]:
    with github_stages(tmp_path) as stages:
        yield stages()


def open_pulls(stage: GithubStage, count: int) -> dict[int, str]:
    """Number -> head of so many pull requests whose check is pending; few processes make them."""
    for n in range(count):
        tree = git(stage.root, "rev-parse", "main^{tree}")
        made = git(stage.root, "commit-tree", tree, "-p", "main", "-m", f"work {n}")
        git(stage.root, "branch", f"wt-{n}", made)
    stage.send("refs/heads/wt-*:refs/heads/wt-*")
    repository = stage.github.repository(NAME).node_id
    asked = "\n".join(
        f'p{n}: createPullRequest(input: {{repositoryId: "{repository}", baseRefName: "main", headRefName: "wt-{n}", '
        f'title: "Work {n}"}}) {{ pullRequest {{ number headRefOid }} }}'
        for n in range(count)
    )
    made_now = stage.forge._api.change(f"mutation {{ {asked} }}", {}, lambda data: data, what="the pull requests")
    heads = {one["pullRequest"]["number"]: one["pullRequest"]["headRefOid"] for one in made_now.values()}
    for head in heads.values():
        stage.github.put_check(NAME, head, "unit", status="IN_PROGRESS")
    return heads


def fleet_at_gates(stage: GithubStage, heads: dict[int, str], *, approved: bool = False) -> Fleet:
    """A pane for each pull request, whose gate opened just now, or that is approved."""
    play = Play()
    play.seconds = int((datetime.now(UTC) - START).total_seconds())
    fleet = (play.to_approved() if approved else play.to_gate()).memory.fleet
    pane, base = fleet.panes[1], git(stage.root, "rev-parse", "main")
    assert pane.gate is not None
    panes = {}
    for index, (number, head) in enumerate(heads.items(), start=1):
        gate = pane.gate.model_copy(update={"gate_id": f"{index}-1", "head": head, "base": base})
        more = {"index": index, "pr_number": number, "head": head, "base": base, "gate": gate}
        more |= {"approved_head": head, "granted_head": head} if approved else {}
        panes[index] = pane.model_copy(update=more)
    found = fleet.model_copy(update={"panes": panes})
    assert len(ci_watches(found)) == len(heads)
    return found


@pytest.mark.parametrize(("panes", "approved"), [(1, False), (16, False), (16, True)])
def test_a_round_is_one_query_and_one_look_at_the_remote(stage: GithubStage, panes: int, approved: bool) -> None:
    heads = open_pulls(stage, panes)
    fleet = fleet_at_gates(stage, heads, approved=approved)
    events: list[Event] = []
    budgets: list[ApiBudget] = []
    worktrees = GitWorktrees(stage.root, Config())
    poller = Poller(
        stage.forge,
        lambda: fleet,
        events.append,
        interval=60.0,
        remote_head=worktrees.remote_head,
        on_budget=budgets.append,
    )
    server = stage.github.server
    before, git_before = len(server.requests), server.git.copy()
    poller.ask()
    (asked,) = server.requests[before:]
    assert (asked.name, asked.path, asked.points) == ("Poll", "/graphql", 1)
    assert server.git - git_before == {"git-upload-pack": 1}
    read = [event for event in events if isinstance(event, CiRead)]
    assert {event.pane: event.head for event in read} == {index: pane.head for index, pane in fleet.panes.items()}
    assert {event.state for event in read} == {CheckState.PENDING}
    (budget,) = budgets
    used = server.used["conductor", "graphql"]
    assert (budget.remaining, budget.limit) == (server.limit - used, server.limit)


def test_checks_are_read_of_those_only_whose_checks_are_awaited(stage: GithubStage) -> None:
    first, second = open_pulls(stage, 2)
    told = stage.forge.poll([first, second], [second])
    assert (sorted(told.requests), sorted(told.checks)) == ([first, second], [second])
    assert stage.github.server.requests[-1].document.count("statusCheckRollup") == 1
