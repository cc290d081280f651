"""From the check runs and commit statuses of a head to one state. Pure: tables and a reduction, no clock.

GitHub Actions and any other provider are the same here. Of runs with one name the newest counts, so that a run which a
newer one superseded is left out; a newest run that was cancelled failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from schemas.forge import Check, CheckState

State = Literal[CheckState.PASSED, CheckState.FAILED, CheckState.PENDING]

CONCLUSIONS: dict[str, State] = {
    "SUCCESS": CheckState.PASSED,
    "NEUTRAL": CheckState.PASSED,
    "SKIPPED": CheckState.PASSED,
    "FAILURE": CheckState.FAILED,
    "CANCELLED": CheckState.FAILED,
    "TIMED_OUT": CheckState.FAILED,
    "ACTION_REQUIRED": CheckState.FAILED,
    "STARTUP_FAILURE": CheckState.FAILED,
    "STALE": CheckState.FAILED,
}
"""What a completed check run's conclusion means; one that is not here is not taken for success."""
UNFINISHED = frozenset({"QUEUED", "IN_PROGRESS", "WAITING", "REQUESTED", "PENDING"})
STATUSES: dict[str, State] = {
    "SUCCESS": CheckState.PASSED,
    "FAILURE": CheckState.FAILED,
    "ERROR": CheckState.FAILED,
    "PENDING": CheckState.PENDING,
    "EXPECTED": CheckState.PENDING,
}
"""What a commit status means."""
_JOB = re.compile(r"/actions/runs/\d+/job/(\d{1,18})(?:[/?#]|\Z)")


class Run(NamedTuple):
    """One check run or commit status. ``key``: what a newer run of it supersedes; ``age`` orders runs of one key."""

    key: tuple[str, ...]
    age: tuple[int, str]
    name: str
    state: State
    required: bool
    url: str
    node: str = ""
    number: int | None = None
    """A check run's; that of a GitHub Actions job too, under which its log is found."""
    is_job: bool = False
    workflow_run: int | None = None
    words: str = ""
    """What its provider says in one line."""


def read_run(node: Mapping[str, Any]) -> Run:
    """A context as GraphQL gives it."""
    if node["__typename"] == "StatusContext":
        return Run(
            key=("status", node["context"]),
            age=(0, node["createdAt"] or ""),
            name=node["context"],
            state=STATUSES.get(node["state"], CheckState.PENDING),
            required=bool(node["isRequired"]),
            url=node["targetUrl"] or "",
            node=node["id"],
            words=node["description"] or "",
        )
    suite = node["checkSuite"] or {}
    app = (suite.get("app") or {}).get("slug") or ""
    run = suite.get("workflowRun") or {}
    workflow = (run.get("workflow") or {}).get("name") or ""
    url = node["detailsUrl"] or ""
    # GitHub's numbers have outgrown GraphQL's; a job's stands in its address too.
    job = _JOB.search(url)
    number = node["databaseId"] or (int(job[1]) if job else None)
    return Run(
        # A workflow that runs for a push and for the request has two runs that both count.
        key=("run", node["name"], workflow, run.get("event") or "", app),
        age=(number or 0, node["startedAt"] or ""),
        name=node["name"],
        state=_state_of(node["status"], node["conclusion"]),
        required=bool(node["isRequired"]),
        url=url,
        node=node["id"],
        number=number,
        is_job=app == "github-actions" and bool(run),
        workflow_run=run.get("databaseId"),
        words=""
        if node["conclusion"] in (None, "FAILURE", "SUCCESS")
        else node["conclusion"].lower().replace("_", " "),
    )


def _state_of(status: str, conclusion: str | None) -> State:
    if status in UNFINISHED or (status != "COMPLETED" and conclusion is None):
        return CheckState.PENDING
    return CONCLUSIONS.get(conclusion or "", CheckState.FAILED)


def newest(runs: Iterable[Run]) -> list[Run]:
    """The runs that count, in the order in which their names came first."""
    found: dict[tuple[str, ...], Run] = {}
    for run in runs:
        held = found.get(run.key)
        if held is None or run.age >= held.age:
            found[run.key] = run
    return list(found.values())


def absent(name: str) -> Run:
    """A check that the base branch requires and that has not appeared on the head."""
    return Run(key=("awaited", name), age=(0, ""), name=name, state=CheckState.PENDING, required=True, url="", node="")


def overall(runs: Sequence[Run | Check], *, only_required: bool = False) -> CheckState:
    """The state of a head with these runs; ``NONE`` without any.

    All of them decide (review protocol, CI gate); with ``only_required`` those that are required, where any is.
    """
    required = [run for run in runs if run.required]
    states = {run.state for run in (required if required and only_required else runs)}
    for state in (CheckState.FAILED, CheckState.PENDING, CheckState.PASSED):
        if state in states:
            return state
    return CheckState.NONE
