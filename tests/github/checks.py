"""Continuous integration of the stand-in: the checks of a repository really run, on a scratch checkout of the head.

A newer head of the same branch cancels the runs of the older one, as workflows with a concurrency group do.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from datetime import timedelta
from pathlib import Path

from tests.github import bare
from tests.github.model import CheckRun, CheckSuite, Repository, Status, User, Workflow, WorkflowRun, World, now

WORKFLOW = "CI"
ACTIONS = "github-actions"


def add_suite(
    world: World,
    repository: Repository,
    oid: str,
    *,
    branch: str | None = None,
    app: str = ACTIONS,
    workflow: str | None = WORKFLOW,
    event: str = "push",
) -> CheckSuite:
    """The suite of one app for one head; with ``workflow`` it belongs to a new run of that workflow."""
    values = {"repository": repository, "oid": oid, "branch": branch, "app": app, "created_at": now()}
    suite: CheckSuite = world.make(CheckSuite, "CS", **values)
    if workflow is not None:
        runs = [one.workflow_run for one in repository.suites if one.workflow_run is not None]
        known = next((one.workflow for one in runs if one.workflow.name == workflow), None)
        file = known or world.make(Workflow, "W", repository=repository, name=workflow)
        more = {"workflow": file, "run_number": len(runs) + 1, "event": event}
        suite.workflow_run = world.make(WorkflowRun, "WFR", suite=suite, **more)
    repository.suites.append(suite)
    return suite


def add_run(
    world: World,
    suite: CheckSuite,
    name: str,
    *,
    status: str = "QUEUED",
    conclusion: str | None = None,
    delay: float = 0.0,
    log: str = "",
    details_url: str | None = None,
) -> CheckRun:
    """A run by hand; the API shows it after ``delay`` seconds."""
    moment = now()
    done = conclusion is not None
    run: CheckRun = world.make(
        CheckRun,
        "CR",
        suite=suite,
        name=name,
        status="COMPLETED" if done else status,
        conclusion=conclusion,
        visible_at=moment + timedelta(seconds=delay),
        started_at=moment if done or status != "QUEUED" else None,
        completed_at=moment if done else None,
        details_url=details_url,
        log=log,
    )
    suite.runs.append(run)
    return run


def add_status(
    world: World, repository: Repository, oid: str, context: str, state: str, creator: User, **more: str | None
) -> Status:
    """A commit status by hand; ``more``: description and target_url."""
    texts = {"description": None, "target_url": None, **more}
    values = {"repository": repository, "oid": oid, "context": context, "state": state, "creator": creator}
    status: Status = world.make(Status, "SC", created_at=now(), **values, **texts)
    repository.statuses.append(status)
    return status


class Runner:
    """Runs the checks of pushed heads in ``folder``; ``delay`` is for how long they do not show."""

    def __init__(self, world: World, folder: Path, *, delay: float = 0.0, timeout: float = 60.0) -> None:
        self.world = world
        self.folder = folder
        self.delay = delay
        self.timeout = timeout
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._ended = False

    def pushed(self, repository: Repository, branch: str, oid: str) -> None:
        """A branch has a new head."""
        with self.world.lock:
            self._cancel_older(repository, branch)
            if not repository.checks or self._ended:
                return
            suite = add_suite(self.world, repository, oid, branch=branch)
            for name, argv in repository.checks.items():
                run = add_run(self.world, suite, name, delay=self.delay)
                thread = threading.Thread(target=self._run, args=(run, argv), daemon=True)
                self._threads.append(thread)
                thread.start()

    def stop(self) -> None:
        """End what runs, and wait for it."""
        with self.world.lock:
            self._ended = True
            for process in self._processes.values():
                _end(process)
        for thread in self._threads:
            thread.join(20)

    def _cancel_older(self, repository: Repository, branch: str) -> None:
        for suite in repository.suites:
            if suite.branch == branch and suite.app == ACTIONS:
                for run in suite.runs:
                    if run.status != "COMPLETED":
                        self._complete(run, "CANCELLED")
                        if process := self._processes.get(run.id):
                            _end(process)

    @staticmethod
    def _complete(run: CheckRun, conclusion: str) -> None:
        run.status, run.conclusion, run.completed_at = "COMPLETED", conclusion, now()
        run.started_at = run.started_at or run.completed_at

    def _run(self, run: CheckRun, argv: tuple[str, ...]) -> None:
        checkout, log = self.folder / f"run-{run.id}", self.folder / f"run-{run.id}.log"
        self.folder.mkdir(parents=True, exist_ok=True)
        repository = run.suite.repository
        try:
            bare.git(
                repository.path, "clone", "--quiet", "--shared", "--no-checkout", str(repository.path), str(checkout)
            )
            bare.git(checkout / ".git", "--work-tree", str(checkout), "checkout", "--quiet", "--detach", run.suite.oid)
            with log.open("wb") as out:
                code = self._process(run, argv, checkout, out.fileno())
        except (bare.GitError, OSError) as error:
            log.write_text(f"{error}\n", encoding="utf-8")
            code = 127
        with self.world.lock:
            self._processes.pop(run.id, None)
            run.log = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            if run.status != "COMPLETED":
                outcome = "SUCCESS" if code == 0 else "TIMED_OUT" if code is None else "FAILURE"
                self._complete(run, outcome)
        shutil.rmtree(checkout, ignore_errors=True)
        log.unlink(missing_ok=True)

    def _process(self, run: CheckRun, argv: tuple[str, ...], checkout: Path, out: int) -> int | None:
        """Its exit code, None when it took too long."""
        with self.world.lock:
            if run.status == "COMPLETED" or self._ended:
                return 0
            process = subprocess.Popen(
                argv, cwd=checkout, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
            self._processes[run.id] = process
            run.status, run.started_at = "IN_PROGRESS", now()
        try:
            return process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            process.wait()
            return None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it ended just now
            return
