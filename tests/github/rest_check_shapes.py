"""REST's picture of checks: check runs, statuses, jobs and workflow runs."""

from __future__ import annotations

from typing import Any

from tests.github import bare
from tests.github.check_fields import suite_state
from tests.github.model import CheckRun, CheckSuite, Status, Workflow, now, stamp
from tests.github.rest_shapes import Shapes


class AllShapes(Shapes):
    """With those of checks."""

    def check_run(self, run: CheckRun) -> dict[str, Any]:
        repository = run.suite.repository
        url = f"{self.api}/repos/{repository.full_name}/check-runs/{run.id}"
        page = self.run_page(run)
        output = {"title": run.title, "summary": run.summary, "text": None, "annotations_count": 0}
        return {
            "id": run.id,
            "node_id": run.node_id,
            "head_sha": run.suite.oid,
            "name": run.name,
            "external_id": str(run.id),
            "url": url,
            "html_url": page,
            "details_url": page,
            "status": run.status.lower(),
            "conclusion": run.conclusion.lower() if run.conclusion else None,
            "started_at": stamp(run.started_at),
            "completed_at": stamp(run.completed_at),
            "check_suite": {"id": run.suite.id},
            "output": {**output, "annotations_url": f"{url}/annotations"},
            "app": self._app(run.suite),
            "pull_requests": self._pulls(run.suite),
        }

    def _app(self, suite: CheckSuite) -> dict[str, Any]:
        made = stamp(suite.repository.created_at)
        page = f"{self.web}/apps/{suite.app}"
        return {
            "id": 15368,
            "node_id": f"A_{suite.app}",
            "slug": suite.app,
            "name": suite.app,
            "owner": self.user(suite.repository.owner),
            "description": None,
            "external_url": page,
            "html_url": page,
            "created_at": made,
            "updated_at": made,
            "permissions": {"checks": "write"},
            "events": [],
        }

    def _pulls(self, suite: CheckSuite) -> list[dict[str, Any]]:
        """The open pull requests of this repository that have this head."""
        repository = suite.repository
        url = f"{self.api}/repos/{repository.full_name}"
        repo = {"id": repository.id, "name": repository.name, "url": url}
        return [
            {
                "id": pull.id,
                "number": pull.number,
                "url": f"{url}/pulls/{pull.number}",
                "head": {"ref": pull.head_branch, "sha": pull.head, "repo": repo},
                "base": {"ref": pull.base_branch, "sha": pull.base_oid, "repo": repo},
            }
            for pull in repository.pulls
            if pull.state == "OPEN" and pull.head_repository is repository and pull.head == suite.oid
        ]

    def run_page(self, run: CheckRun) -> str:
        page, workflow = f"{self.web}/{run.suite.repository.full_name}", run.suite.workflow_run
        if workflow is None:
            return run.details_url or f"{page}/runs/{run.id}"
        return f"{page}/actions/runs/{workflow.id}/job/{run.id}"

    def status(self, status: Status) -> dict[str, Any]:
        url = f"{self.api}/repos/{status.repository.full_name}/statuses/{status.oid}"
        return {
            "id": status.id,
            "node_id": status.node_id,
            "context": status.context,
            "state": status.state.lower(),
            "description": status.description,
            "target_url": status.target_url,
            "url": url,
            "avatar_url": f"https://avatars.githubusercontent.com/u/{status.creator.id}",
            "created_at": stamp(status.created_at),
            "updated_at": stamp(status.created_at),
        }

    def job(self, run: CheckRun) -> dict[str, Any]:
        suite, workflow = run.suite, run.suite.workflow_run
        assert workflow is not None
        url = f"{self.api}/repos/{suite.repository.full_name}"
        runner = dict.fromkeys(("runner_id", "runner_name", "runner_group_id", "runner_group_name"))
        return {
            "id": run.id,
            "node_id": run.node_id,
            "run_id": workflow.id,
            "run_url": f"{url}/actions/runs/{workflow.id}",
            "head_sha": suite.oid,
            "head_branch": suite.branch,
            "workflow_name": workflow.workflow.name,
            "name": run.name,
            "status": run.status.lower(),
            "conclusion": run.conclusion.lower() if run.conclusion else None,
            "created_at": stamp(suite.created_at),
            "started_at": stamp(run.started_at or suite.created_at),
            "completed_at": stamp(run.completed_at),
            "url": f"{url}/actions/jobs/{run.id}",
            "html_url": self.run_page(run),
            "check_run_url": f"{url}/check-runs/{run.id}",
            "labels": [],
            "steps": [],
            **runner,
        }

    def workflow_run(self, suite: CheckSuite) -> dict[str, Any]:
        run, repository = suite.workflow_run, suite.repository
        assert run is not None
        status, conclusion = suite_state(suite)
        facts = bare.commit(repository.path, suite.oid)
        url = f"{self.api}/repos/{repository.full_name}/actions/runs/{run.id}"
        people = {
            "author": {"name": facts.author_name, "email": facts.author_email},
            "committer": {"name": facts.committer_name, "email": facts.committer_email},
        }
        commit = {"id": suite.oid, "tree_id": facts.tree, "message": facts.message, "timestamp": facts.committed_at}
        return {
            "id": run.id,
            "node_id": run.node_id,
            "name": run.workflow.name,
            "check_suite_id": suite.id,
            "check_suite_node_id": suite.node_id,
            "head_branch": suite.branch,
            "head_sha": suite.oid,
            "path": ".github/workflows/ci.yml",
            "run_number": run.run_number,
            "run_attempt": 1,
            "display_title": facts.headline,
            "event": run.event,
            "status": status.lower(),
            "conclusion": conclusion.lower() if conclusion else None,
            "workflow_id": run.workflow.id,
            "created_at": stamp(suite.created_at),
            "updated_at": stamp(now()),
            "url": url,
            "html_url": f"{self.web}/{repository.full_name}/actions/runs/{run.id}",
            **{f"{word}_url": f"{url}/{word}" for word in ("jobs", "logs", "cancel", "rerun", "artifacts")},
            "check_suite_url": f"{self.api}/repos/{repository.full_name}/check-suites/{suite.id}",
            "workflow_url": f"{self.api}/repos/{repository.full_name}/actions/workflows/{run.workflow.id}",
            "head_commit": {**commit, **people},
            "repository": self.repository(repository),
            "head_repository": self.repository(repository),
            "pull_requests": self._pulls(suite),
        }

    def workflow(self, workflow: Workflow) -> dict[str, Any]:
        place = f"repos/{workflow.repository.full_name}/actions/workflows/{workflow.id}"
        page = f"{self.web}/{workflow.repository.full_name}/actions/workflows/ci.yml"
        made = stamp(workflow.repository.created_at)
        return {
            "id": workflow.id,
            "node_id": workflow.node_id,
            "name": workflow.name,
            "path": ".github/workflows/ci.yml",
            "state": "active",
            "created_at": made,
            "updated_at": made,
            "url": f"{self.api}/{place}",
            "html_url": page,
            "badge_url": f"{page}/badge.svg",
        }
