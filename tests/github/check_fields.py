"""Answers to GraphQL fields of commits and of their checks: check runs, suites, workflow runs and statuses."""

from __future__ import annotations

from typing import Any

from tests.github import bare
from tests.github.fields import commit_node, known_filter, node_of, pull_by_number, web
from tests.github.graphql import FIELDS, TYPES, Context, connection
from tests.github.model import (
    CheckRun,
    CheckSuite,
    CommitNode,
    PullRequest,
    Repository,
    Status,
    Workflow,
    WorkflowRun,
    now,
    stamp,
)
from tests.github.rules import Refused


def _git_actor(name: str, email: str, date: str) -> dict[str, Any]:
    return {"name": name, "email": email, "date": date, "user": None}


def _facts(node: CommitNode) -> bare.Commit:
    return bare.commit(node.repository.path, node.oid)


def _authors(node: CommitNode, _: Context, **asked: Any) -> dict[str, Any]:
    facts = _facts(node)
    return connection([_git_actor(facts.author_name, facts.author_email, facts.authored_at)], "authors", **asked)


def _parents(node: CommitNode, _: Context, **asked: Any) -> dict[str, Any]:
    return connection([commit_node(node.repository, oid) for oid in _facts(node).parents], "parents", **asked)


def visible_runs(repository: Repository, oid: str) -> list[CheckRun]:
    """The newest run of each name in each suite; a run that is to appear late is not there yet."""
    found: list[CheckRun] = []
    for suite in repository.suites:
        newest = {run.name: run for run in suite.runs if suite.oid == oid and run.visible_at <= now()}
        found += newest.values()
    return found


def visible_statuses(repository: Repository, oid: str) -> list[Status]:
    """The newest of each context."""
    return list({one.context: one for one in repository.statuses if one.oid == oid}.values())


def rollup_state(runs: list[CheckRun], statuses: list[Status]) -> str:
    states = {one.state for one in statuses}
    for run in runs:
        if run.status != "COMPLETED":
            states.add("PENDING")
        elif run.conclusion in ("SUCCESS", "NEUTRAL", "SKIPPED"):
            states.add("SUCCESS")
        else:
            states.add("FAILURE")
    return next(one for one in ("ERROR", "FAILURE", "PENDING", "EXPECTED", "SUCCESS") if one in states)


def _counts(values: list[str]) -> list[dict[str, Any]]:
    return [{"state": value, "count": values.count(value)} for value in sorted(set(values))]


def _rollup(node: CommitNode, _: Context) -> dict[str, Any] | None:
    runs, statuses = visible_runs(node.repository, node.oid), visible_statuses(node.repository, node.oid)
    if not runs and not statuses:
        return None
    states = [run.conclusion or run.status if run.status == "COMPLETED" else run.status for run in runs]
    more = {
        "checkRunCount": len(runs),
        "checkRunCountsByState": _counts(states),
        "statusContextCount": len(statuses),
        "statusContextCountsByState": _counts([one.state for one in statuses]),
    }
    return {
        "id": f"SCR_{node.repository.id}_{node.oid}",
        "state": rollup_state(runs, statuses),
        "commit": node,
        "contexts": lambda **asked: connection([*runs, *statuses], "contexts", **asked) | more,
    }


def _suites(node: CommitNode, _: Context, filterBy: Any = None, **asked: Any) -> dict[str, Any]:
    known_filter(filterBy, {})
    return connection([one for one in node.repository.suites if one.oid == node.oid], "checkSuites", **asked)


TYPES[CommitNode] = "Commit"
FIELDS["Commit"] = {
    "id": lambda node, _: node.node_id,
    "oid": lambda node, _: node.oid,
    "abbreviatedOid": lambda node, _: node.oid[:7],
    "url": lambda node, context: web(context, f"{node.repository.full_name}/commit/{node.oid}"),
    "message": lambda node, _: _facts(node).message,
    "messageHeadline": lambda node, _: _facts(node).headline,
    "messageBody": lambda node, _: _facts(node).body,
    "committedDate": lambda node, _: _facts(node).committed_at,
    "authoredDate": lambda node, _: _facts(node).authored_at,
    "author": lambda node, _: _git_actor(_facts(node).author_name, _facts(node).author_email, _facts(node).authored_at),
    "committer": lambda node, _: _git_actor(
        _facts(node).committer_name, _facts(node).committer_email, _facts(node).committed_at
    ),
    "authors": _authors,
    "parents": _parents,
    "repository": lambda node, _: node.repository,
    "statusCheckRollup": _rollup,
    "checkSuites": _suites,
}

# --- checks ---


def _required(thing: CheckRun | Status, context: Context, **asked: Any) -> bool:
    repository = thing.suite.repository if isinstance(thing, CheckRun) else thing.repository
    if "pullRequestNumber" in asked:
        pull = pull_by_number(repository, context, asked["pullRequestNumber"])
    elif "pullRequestId" in asked:
        pull = node_of(context, asked["pullRequestId"], PullRequest)
    else:
        raise Refused("isRequired needs pullRequestId or pullRequestNumber")
    name = thing.name if isinstance(thing, CheckRun) else thing.context
    return pull.base_branch == repository.default_branch and name in repository.protection.checks


def run_url(run: CheckRun, context: Context) -> str:
    """A GitHub Actions job's page, or what the other app gave."""
    if run.suite.workflow_run is None:
        return run.details_url or web(context, f"{run.suite.repository.full_name}/runs/{run.id}")
    return web(context, f"{run.suite.repository.full_name}/actions/runs/{run.suite.workflow_run.id}/job/{run.id}")


def suite_state(suite: CheckSuite) -> tuple[str, str | None]:
    """(status, conclusion) from its runs."""
    if not suite.runs or any(run.status != "COMPLETED" for run in suite.runs):
        started = any(run.status != "QUEUED" for run in suite.runs)
        return ("IN_PROGRESS" if started else "QUEUED"), None
    conclusions = [str(run.conclusion) for run in suite.runs]
    worst = ("FAILURE", "TIMED_OUT", "ACTION_REQUIRED", "STARTUP_FAILURE", "CANCELLED", "STALE", "SUCCESS")
    return "COMPLETED", next((one for one in worst if one in conclusions), conclusions[0])


def _suite_runs(suite: CheckSuite, _: Context, filterBy: Any = None, **asked: Any) -> dict[str, Any]:
    known_filter(filterBy, {})
    return connection([run for run in suite.runs if run.visible_at <= now()], "checkRuns", **asked)


TYPES.update({CheckRun: "CheckRun", Status: "StatusContext", CheckSuite: "CheckSuite"})
TYPES.update({Workflow: "Workflow", WorkflowRun: "WorkflowRun"})
FIELDS["CheckRun"] = {
    "id": lambda run, _: run.node_id,
    "databaseId": lambda run, _: run.id,
    "name": lambda run, _: run.name,
    "status": lambda run, _: run.status,
    "conclusion": lambda run, _: run.conclusion,
    "startedAt": lambda run, _: stamp(run.started_at),
    "completedAt": lambda run, _: stamp(run.completed_at),
    "detailsUrl": run_url,
    "url": run_url,
    "permalink": run_url,
    "title": lambda run, _: run.title,
    "summary": lambda run, _: run.summary,
    "checkSuite": lambda run, _: run.suite,
    "isRequired": _required,
}
FIELDS["StatusContext"] = {
    "id": lambda status, _: status.node_id,
    "context": lambda status, _: status.context,
    "state": lambda status, _: status.state,
    "description": lambda status, _: status.description,
    "targetUrl": lambda status, _: status.target_url,
    "createdAt": lambda status, _: stamp(status.created_at),
    "creator": lambda status, _: status.creator,
    "isRequired": _required,
}
FIELDS["CheckSuite"] = {
    "id": lambda suite, _: suite.node_id,
    "databaseId": lambda suite, _: suite.id,
    "status": lambda suite, _: suite_state(suite)[0],
    "conclusion": lambda suite, _: suite_state(suite)[1],
    "createdAt": lambda suite, _: stamp(suite.created_at),
    "workflowRun": lambda suite, _: suite.workflow_run,
    "app": lambda suite, _: {"id": f"A_{suite.app}", "slug": suite.app, "name": suite.app},
    "commit": lambda suite, _: commit_node(suite.repository, suite.oid),
    "checkRuns": _suite_runs,
}
FIELDS["WorkflowRun"] = {
    "id": lambda run, _: run.node_id,
    "databaseId": lambda run, _: run.id,
    "event": lambda run, _: run.event,
    "runNumber": lambda run, _: run.run_number,
    "workflow": lambda run, _: run.workflow,
    "url": lambda run, context: web(context, f"{run.suite.repository.full_name}/actions/runs/{run.id}"),
}
FIELDS["Workflow"] = {
    "id": lambda workflow, _: workflow.node_id,
    "databaseId": lambda workflow, _: workflow.id,
    "name": lambda workflow, _: workflow.name,
}
