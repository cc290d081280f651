"""REST endpoints of users, repositories, issues, commits, checks and workflow runs."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from tests.github import bare, rules
from tests.github.check_fields import rollup_state, visible_runs, visible_statuses
from tests.github.model import CheckRun, CheckSuite, Comment, Issue, PullRequest, Workflow, now
from tests.github.rest import Asked, NotModelledError, endpoint, missing, page
from tests.github.schema import openapi
from tests.github.web import Answer

REPO = "/repos/{owner}/{repo}"


@endpoint("GET", "/")
def root(asked: Asked) -> Answer:
    names = openapi()["components"]["schemas"]["root"]["required"]
    return Answer.of_json(200, {name: f"{asked.shapes.api}/{name.removesuffix('_url')}" for name in names})


@endpoint("GET", "/meta")
def meta(asked: Asked) -> Answer:
    more = {} if asked.world.host == "github.com" else {"installed_version": "3.19.0"}
    return Answer.of_json(200, {"verifiable_password_authentication": False, **more})


@endpoint("GET", "/user")
def me(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.public_user(asked.viewer))


@endpoint("GET", "/users/{username}")
def somebody(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.public_user(asked.user(asked.parameters["username"])))


@endpoint("GET", "/rate_limit")
def rate_limit(asked: Asked) -> Answer:
    def numbers(resource: str) -> dict[str, int]:
        server = asked.server
        used = server.used[asked.viewer.login, resource]
        left = max(0, server.limit - used)
        return {"limit": server.limit, "used": used, "remaining": left, "reset": int(server.reset_at)}

    resources = {name: numbers(name) for name in ("core", "search", "graphql")}
    return Answer.of_json(200, {"resources": resources, "rate": resources["core"]})


@endpoint("GET", REPO)
def repository(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.full_repository(asked.repository))


@endpoint("GET", f"{REPO}/readme")
def readme(asked: Asked) -> Answer:
    repo = asked.repository
    try:
        text = bare.git_bytes(repo.path, "show", f"{repo.default_branch}:README.md")
        sha = bare.git(repo.path, "rev-parse", f"{repo.default_branch}:README.md")
    except bare.GitError:
        raise missing() from None
    url = f"{asked.shapes.api}/repos/{repo.full_name}/contents/README.md"
    links = {"self": url, "git": url, "html": url}
    more = {"url": url, "git_url": url, "html_url": url, "download_url": url, "_links": links}
    content = base64.encodebytes(text).decode()
    file = {"type": "file", "encoding": "base64", "size": len(text), "name": "README.md", "path": "README.md"}
    return Answer.of_json(200, {**file, "content": content, "sha": sha, **more})


# --- issues ---


def _subject(asked: Asked) -> Issue | PullRequest:
    found = asked.repository.numbered.get(int(asked.parameters["issue_number"]))
    if found is None:
        raise missing()
    return found


@endpoint("GET", f"{REPO}/issues")
def issues(asked: Asked) -> Answer:
    """Pull requests are among them, as on GitHub. Newest first."""
    wanted = asked.queried("state").get("state", "open")
    chosen = [
        one
        for one in reversed(asked.repository.numbered.values())
        if wanted == "all" or (one.state == "OPEN") == (wanted == "open")
    ]
    return page(asked, chosen, asked.shapes.issue)


@endpoint("POST", f"{REPO}/issues")
def new_issue(asked: Asked) -> Answer:
    body = asked.taking("title", "body")
    made = rules.create_issue(asked.world, asked.repository, asked.viewer, str(body["title"]), body.get("body") or "")
    return Answer.of_json(201, asked.shapes.issue(made))


@endpoint("GET", f"{REPO}/issues/{{issue_number}}")
def issue(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.issue(_subject(asked)))


@endpoint("PATCH", f"{REPO}/issues/{{issue_number}}")
def change_issue(asked: Asked) -> Answer:
    body = asked.taking("title", "body", "state", "state_reason")
    subject = _subject(asked)
    if body.get("state") and not isinstance(subject, Issue):
        raise NotModelledError("the state of a pull request by its issue")
    rules.update_text(subject, body.get("title"), body.get("body"))
    if isinstance(subject, Issue) and body.get("state") == "closed":
        rules.close_issue(subject, "NOT_PLANNED" if body.get("state_reason") == "not_planned" else "COMPLETED")
    if isinstance(subject, Issue) and body.get("state") == "open" and subject.state == "CLOSED":
        rules.reopen_issue(subject)
    return Answer.of_json(200, asked.shapes.issue(subject))


@endpoint("GET", f"{REPO}/issues/{{issue_number}}/comments")
def issue_comments(asked: Asked) -> Answer:
    asked.queried()
    return page(asked, _subject(asked).comments, asked.shapes.comment)


@endpoint("POST", f"{REPO}/issues/{{issue_number}}/comments")
def new_issue_comment(asked: Asked) -> Answer:
    made = rules.add_comment(asked.world, _subject(asked), asked.viewer, asked.taking("body")["body"])
    return Answer.of_json(201, asked.shapes.comment(made))


def _comment(asked: Asked) -> Comment:
    wanted = int(asked.parameters["comment_id"])
    everything = (one for subject in asked.repository.numbered.values() for one in subject.comments)
    found = next((one for one in everything if one.id == wanted), None)
    if found is None:
        raise missing()
    return found


@endpoint("GET", f"{REPO}/issues/comments/{{comment_id}}")
def issue_comment(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.comment(_comment(asked)))


@endpoint("PATCH", f"{REPO}/issues/comments/{{comment_id}}")
def change_issue_comment(asked: Asked) -> Answer:
    found = _comment(asked)
    rules.update_comment(found, asked.viewer, asked.taking("body")["body"])
    return Answer.of_json(200, asked.shapes.comment(found))


@endpoint("DELETE", f"{REPO}/issues/comments/{{comment_id}}")
def delete_issue_comment(asked: Asked) -> Answer:
    rules.delete_comment(asked.world, _comment(asked), asked.viewer)
    return Answer(204)


# --- refs, commits and checks ---


@endpoint("GET", f"{REPO}/git/ref/{{ref}}")
def git_ref(asked: Asked) -> Answer:
    repo, name = asked.repository, f"refs/{asked.parameters['ref']}"
    oid = bare.resolve(repo.path, name)
    if oid is None:
        raise missing()
    url = f"{asked.shapes.api}/repos/{repo.full_name}/git"
    target = {"type": "commit", "sha": oid, "url": f"{url}/commits/{oid}"}
    told = {"ref": name, "node_id": f"REF_{repo.id}_{name}", "url": f"{url}/{name}", "object": target}
    return Answer.of_json(200, told)


@endpoint("DELETE", f"{REPO}/git/refs/{{ref}}")
def delete_git_ref(asked: Asked) -> Answer:
    repo, name = asked.repository, f"refs/{asked.parameters['ref']}"
    rules.writable(repo)
    if not name.startswith("refs/heads/") or bare.resolve(repo.path, name) is None:
        raise rules.Refused("Reference does not exist")
    bare.git(repo.path, "update-ref", "-d", name)
    return Answer(204)


@endpoint("GET", f"{REPO}/commits/{{ref}}")
def commit(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.commit(asked.repository, _oid(asked)))


def _oid(asked: Asked) -> str:
    repo, name = asked.repository, asked.parameters["ref"]
    found = bare.resolve(repo.path, f"refs/heads/{name}") or bare.resolve(repo.path, name)
    if found is None:
        raise rules.Refused(f"No commit found for SHA: {name}")
    return found


@endpoint("GET", f"{REPO}/commits/{{ref}}/check-runs")
def check_runs(asked: Asked) -> Answer:
    query = asked.queried("check_name", "status", "filter")
    oid = _oid(asked)
    runs = visible_runs(asked.repository, oid)
    if query.get("filter") == "all":
        everything = [run for suite in asked.repository.suites for run in suite.runs if suite.oid == oid]
        runs = [run for run in everything if run.visible_at <= now()]
    chosen = [
        run
        for run in runs
        if query.get("check_name") in (None, run.name) and query.get("status") in (None, run.status.lower())
    ]
    return page(asked, chosen, asked.shapes.check_run, "check_runs")


@endpoint("GET", f"{REPO}/check-runs/{{check_run_id}}")
def check_run(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.check_run(_run(asked, asked.parameters["check_run_id"])))


@endpoint("GET", f"{REPO}/commits/{{ref}}/statuses")
def statuses(asked: Asked) -> Answer:
    oid = _oid(asked)
    found = [one for one in reversed(asked.repository.statuses) if one.oid == oid]
    return page(asked, found, lambda one: {**asked.shapes.status(one), "creator": asked.shapes.user(one.creator)})


@endpoint("GET", f"{REPO}/commits/{{ref}}/status")
def combined_status(asked: Asked) -> Answer:
    repo, oid = asked.repository, _oid(asked)
    found = visible_statuses(repo, oid)
    state = rollup_state([], found).lower() if found else "pending"
    url = f"{asked.shapes.api}/repos/{repo.full_name}/commits/{oid}"
    told = {
        "state": "failure" if state == "error" else state,
        "sha": oid,
        "total_count": len(found),
        "statuses": [asked.shapes.status(one) for one in found],
        "repository": asked.shapes.repository(repo),
        "commit_url": url,
        "url": f"{url}/status",
    }
    return Answer.of_json(200, told)


@endpoint("GET", f"{REPO}/actions/runs")
def workflow_runs(asked: Asked) -> Answer:
    """Newest first."""
    query = asked.queried("branch", "head_sha", "event", "status", "exclude_pull_requests")
    chosen = []
    for suite in reversed(asked.repository.suites):
        shown = suite.workflow_run is not None and any(run.visible_at <= now() for run in suite.runs)
        fits = query.get("branch") in (None, suite.branch) and query.get("head_sha") in (None, suite.oid)
        if shown and fits:
            chosen.append(asked.shapes.workflow_run(suite))
    chosen = [one for one in chosen if query.get("event") in (None, one["event"])]
    chosen = [one for one in chosen if query.get("status") in (None, one["status"], one["conclusion"])]
    return page(asked, chosen, lambda one: one, "workflow_runs")


def _suite(asked: Asked) -> CheckSuite:
    wanted = int(asked.parameters["run_id"])
    found = (one for one in asked.repository.suites if one.workflow_run and one.workflow_run.id == wanted)
    suite = next(found, None)
    if suite is None:
        raise missing()
    return suite


@endpoint("GET", f"{REPO}/actions/runs/{{run_id}}")
def workflow_run(asked: Asked) -> Answer:
    asked.queried("exclude_pull_requests")
    return Answer.of_json(200, asked.shapes.workflow_run(_suite(asked)))


@endpoint("GET", f"{REPO}/actions/runs/{{run_id}}/jobs")
def jobs(asked: Asked) -> Answer:
    asked.queried("filter")
    return page(asked, [run for run in _suite(asked).runs if run.visible_at <= now()], asked.shapes.job, "jobs")


def _workflows(asked: Asked) -> list[Workflow]:
    runs = [one.workflow_run for one in asked.repository.suites if one.workflow_run is not None]
    return list({one.workflow.id: one.workflow for one in runs}.values())


@endpoint("GET", f"{REPO}/actions/workflows")
def workflows(asked: Asked) -> Answer:
    return page(asked, _workflows(asked), asked.shapes.workflow, "workflows")


@endpoint("GET", f"{REPO}/actions/workflows/{{workflow_id}}")
def workflow(asked: Asked) -> Answer:
    wanted = asked.parameters["workflow_id"]
    found = next((one for one in _workflows(asked) if str(one.id) == wanted), None)
    if found is None:
        raise missing()
    return Answer.of_json(200, asked.shapes.workflow(found))


def _run(asked: Asked, run_id: str) -> CheckRun:
    runs = (run for suite in asked.repository.suites for run in suite.runs)
    found = next((run for run in runs if run.id == int(run_id) and run.visible_at <= now()), None)
    if found is None:
        raise missing()
    return found


def _job(asked: Asked) -> CheckRun:
    found = _run(asked, asked.parameters["job_id"])
    if found.suite.workflow_run is None:
        raise missing()
    return found


@endpoint("GET", f"{REPO}/actions/jobs/{{job_id}}")
def job(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.job(_job(asked)))


@endpoint("GET", f"{REPO}/actions/jobs/{{job_id}}/logs")
def job_log(asked: Asked) -> Answer:
    """A redirection to where the text lies, which needs no token but the one in its address."""
    run = _job(asked)
    if run.status != "COMPLETED":
        raise missing()
    where = f"https://logs.actions.githubusercontent.com/_logs/{run.id}?sig={signature(run)}"
    return Answer(302, b"", {"Location": where, "Content-Type": "text/html"})


def signature(run: CheckRun) -> str:
    return hashlib.sha256(run.node_id.encode()).hexdigest()[:16]


def log_text(world: Any, path: str, query: dict[str, str]) -> Answer:
    """The log behind such an address; each line begins with a time, as in GitHub's."""
    for repo in world.repositories.values():
        for suite in repo.suites:
            for run in suite.runs:
                if path == f"/_logs/{run.id}" and query.get("sig") == signature(run):
                    moment = (run.completed_at or now()).strftime("%Y-%m-%dT%H:%M:%S.0000000Z")
                    text = "".join(f"{moment} {line}\n" for line in run.log.splitlines())
                    return Answer(200, text.encode(), {"Content-Type": "text/plain"})
    return Answer(404, b"", {"Content-Type": "text/plain"})
