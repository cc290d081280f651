"""REST endpoints that run the jobs of a workflow run once more."""

from __future__ import annotations

from tests.github.rest import Asked, endpoint
from tests.github.rest_general import REPO, _suite
from tests.github.rules import Refused
from tests.github.web import Answer


def _again(asked: Asked, *, failed_only: bool) -> Answer:
    asked.taking("enable_debug_logging")
    suite = _suite(asked)
    if any(run.status != "COMPLETED" for run in suite.runs):
        raise Refused("This workflow is already running", "FORBIDDEN")
    assert asked.server.runner is not None
    asked.server.runner.again(suite, failed_only=failed_only)
    return Answer.of_json(201, {})


@endpoint("POST", f"{REPO}/actions/runs/{{run_id}}/rerun")
def rerun(asked: Asked) -> Answer:
    return _again(asked, failed_only=False)


@endpoint("POST", f"{REPO}/actions/runs/{{run_id}}/rerun-failed-jobs")
def rerun_failed_jobs(asked: Asked) -> Answer:
    return _again(asked, failed_only=True)
