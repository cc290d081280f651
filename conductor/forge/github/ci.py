"""The checks of pull requests: one batched question, the grace after a push, logs of what failed, another run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from conductor.forge.github import queries
from conductor.forge.github.api import Json, at, next_page, nodes_of
from conductor.forge.github.base import Node
from conductor.forge.github.checks import Run, absent, newest, overall, read_run
from conductor.forge.github.history import heads_of
from conductor.forge.github.logs import Logs
from conductor.forge.github.reviews import ReviewsOnGithub
from conductor.ports import Polled
from schemas.errors import NotSo
from schemas.forge import Check, Checks, CheckState, PullRequest, Push
from schemas.text import one_line

_MOST_SEEN = 2000


class ChecksOnGithub(ReviewsOnGithub):
    """Checks and heads; a part of ``GithubForge``."""

    _logs: Logs
    _grace: float
    _only_required: bool
    _clock: Callable[[], float]
    _first_seen: dict[tuple[int, str], float]
    _seen_lock: Lock

    def checks(self, numbers: Sequence[int]) -> dict[int, Checks]:
        """As the port says. All of them decide, unless the configuration leaves that to the required ones."""
        if not numbers:
            return {}
        nodes = self._nodes(numbers, queries.checks, "the checks")
        return {
            pull.number: self._checks_now(node, pull) for node, pull in zip(nodes, self._to_pulls(nodes), strict=True)
        }

    def poll(self, numbers: Sequence[int], checks_of: Sequence[int]) -> Polled:
        """One query for all, with the checks of those whose checks are asked for."""
        wanted = set(checks_of) & set(numbers)
        nodes = self._nodes(numbers, lambda part: queries.poll(part, wanted), "the pull requests and checks")
        pulls = self._to_pulls(nodes)
        answers = {
            pull.number: self._checks_now(node, pull)
            for node, pull in zip(nodes, pulls, strict=True)
            if pull.number in wanted
        }
        return Polled({pull.number: pull for pull in pulls}, answers)

    def _checks_now(self, node: Node, pull: PullRequest) -> Checks:
        with self._api.shaped(f"the checks of #{pull.number}"):
            commits = node["commits"]["nodes"]
            commit = commits[-1]["commit"] if commits else None
            if commit is not None and commit["oid"] == pull.head:
                runs: list[Run] | None = self._runs(pull.number, pull.head, commit["statusCheckRollup"])
            else:
                runs = self._runs_of(pull.number, pull.head)  # the API is behind the remote
            fresh = self._is_fresh(pull, known=runs is not None, current=node["headRefOid"] == pull.head)
        awaited = _required_by(node) if pull.state == "open" else ()
        return self._judged(pull, pull.head, runs or [], fresh=fresh, awaited=awaited)

    def _judged(
        self, pull: PullRequest, head: str, runs: Sequence[Run], *, fresh: bool, awaited: Sequence[str] = ()
    ) -> Checks:
        """``awaited``: names that the base branch requires; one that has not appeared is pending."""
        known = {run.name for run in runs}
        counted = [*newest(runs), *(absent(name) for name in awaited if name not in known)]
        failed = [run for run in counted if run.state is CheckState.FAILED]
        tails = self._logs.tails(failed) if failed else {}
        state = overall(counted, only_required=self._only_required)
        if state is CheckState.NONE and fresh:
            state = CheckState.NOT_YET
        listed = tuple(
            Check(
                name=one_line(run.name),
                state=run.state,
                required=run.required,
                log_url=run.url or f"{pull.url}/checks",
                tail=tails.get(run.node, ""),
            )
            for run in counted
        )
        return Checks(head=head, state=state, checks=listed)

    def _is_fresh(self, pull: PullRequest, *, known: bool, current: bool) -> bool:
        """Whether checks of this head may still appear.

        GitHub does not tell when a commit was pushed. It cannot have been after this process first saw it, nor after
        the request's last change; each puts an end to the grace. The commit's own date says nothing: it may be old.
        """
        if pull.state != "open":
            return False
        now = self._clock()
        with self._seen_lock:
            while len(self._first_seen) >= _MOST_SEEN:
                self._first_seen.pop(next(iter(self._first_seen)))
            seen = self._first_seen.setdefault((pull.number, pull.head), now)
        if not known:
            return True
        changed = (self._api.pace.server_now() - pull.updated_at).total_seconds()
        return now - seen < self._grace and not (current and changed >= self._grace)

    def _runs(self, number: int, head: str, rollup: Json | None) -> list[Run]:
        """All runs of a commit, from the first page on."""
        if rollup is None:
            return []
        what = f"the checks of {head[:12]}"
        found = nodes_of(rollup["contexts"], what)
        after = next_page(rollup["contexts"], None, what)
        if after is not None:
            found = found + (self._contexts(number, head, after) or [])
        return [read_run(node) for node in found]

    def _runs_of(self, number: int, head: str) -> list[Run] | None:
        """All runs of any commit; None where GitHub does not know the commit (yet)."""
        found = self._contexts(number, head, None)
        with self._api.shaped(f"the checks of {head[:12]}"):
            return None if found is None else [read_run(node) for node in found]

    def _contexts(self, number: int, head: str, after: str | None) -> list[Any] | None:
        def read(data: Json) -> Json | None:
            commit = data["repository"]["commit"]
            if not commit:
                return None
            found: Json = at(commit, "statusCheckRollup", "contexts") or _NO_CONTEXTS
            return found

        return self._api.pages(
            queries.commit_checks(number),
            {"oid": head},
            read,
            what=f"the checks of {head[:12]}",
            absent=True,
            after=after,
        )

    def checks_of(self, number: int, head: str) -> Checks:
        pull = self.pull_request(number)
        if head == pull.head:
            return self.checks([number])[number]
        if head not in [push.head for push in self.pushes(number)]:
            raise NotSo(f"pull request #{number} never had the head {one_line(head)}", "See its history.")
        return self._judged(pull, head, self._runs_of(number, head) or [], fresh=False)

    def pushes(self, number: int) -> list[Push]:
        pull = self.pull_request(number)
        nodes = self._list(queries.HISTORY, number, "timelineItems", "the history")
        with self._api.shaped(f"the history of #{number}"):
            return heads_of(nodes, pull.head, self._api.pace.server_now())

    def rerun_checks(self, number: int) -> Checks:
        """Run the checks of the current head once more: of each workflow what failed, all of it where nothing did."""
        pull = self.pull_request(number)
        if pull.state != "open":
            raise NotSo(f"pull request #{number} is {pull.state}, so its checks do not run", "")
        runs = newest(self._runs_of(number, pull.head) or [])
        workflows = sorted({run.workflow_run for run in runs if run.workflow_run is not None})
        if not workflows:
            raise NotSo(
                f"#{number} has no checks that GitHub Actions runs, so they cannot be run again from here",
                "Run them again where they run, or push the branch again.",
            )
        failed = {run.workflow_run for run in runs if run.state is CheckState.FAILED}
        running = {run.workflow_run for run in runs if run.state is CheckState.PENDING}
        for workflow in workflows:
            if workflow not in running and (workflow in failed or not failed):
                verb = "rerun-failed-jobs" if workflow in failed else "rerun"
                self._rerun(pull, workflow, verb)
        return self.checks([number])[number]

    def _rerun(self, pull: PullRequest, workflow: int, verb: str) -> None:
        def change() -> bool:
            self._api.send("POST", f"actions/runs/{workflow}/{verb}", {}, what=f"the workflow run {workflow}")
            return True

        def look() -> bool | None:
            runs = newest(self._runs_of(pull.number, pull.head) or [])
            return any(run.workflow_run == workflow and run.state is CheckState.PENDING for run in runs) or None

        self._api.once(change, look)


def _required_by(node: Node) -> Sequence[str]:
    """The names of the checks that the base branch requires; none where GitHub shows no rule to this login."""
    return [str(name) for name in at(node, "rule", "refUpdateRule", "requiredStatusCheckContexts") or ()]


_NO_CONTEXTS: Json = {"nodes": [], "pageInfo": {"hasNextPage": False, "endCursor": None}}
