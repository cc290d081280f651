"""``GithubForge``: the ports of a forge on GitHub, through ``gh``; the factory behind the entry point ``github``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

from conductor.forge.github import queries
from conductor.forge.github.api import Api, Retries
from conductor.forge.github.base import Node
from conductor.forge.github.ci import ChecksOnGithub
from conductor.forge.github.faults import Missing, Refused, Transient
from conductor.forge.github.gh import Gh
from conductor.forge.github.heads import Heads
from conductor.forge.github.issues import IssuesOnGithub
from conductor.forge.github.logs import Logs
from conductor.forge.github.pace import pace_of
from conductor.forge.github.program import find_gh
from conductor.forge.github.redact import redacted
from conductor.forge.github.remote import GITHUB, Place, named, parse_remote
from conductor.forge.texts import checked_body, checked_title
from schemas.config import Config
from schemas.errors import BadInput, Fault, NotSo
from schemas.forge import TOKEN_VARIABLES, ApiBudget, PullRequest
from schemas.text import one_line

_DIFF = "application/vnd.github.diff"
_TOO_LARGE = ("too large", "exceeded the maximum", "not available")


def open_github(config: Config, root: Path) -> GithubForge:
    """The factory behind the entry point ``github``. Nothing is asked of GitHub yet.

    Raises ``Unavailable`` where gh is missing or too old, ``BadInput`` where no repository of GitHub is named.
    """
    return GithubForge.open(config, root)


class GithubForge(ChecksOnGithub, IssuesOnGithub):
    """A repository on GitHub under the login of gh's token. Safe to use from many threads."""

    name = "github"

    def __init__(
        self,
        api: Api,
        heads: Heads,
        *,
        remote: str = "origin",
        pushed_to: str | None = None,
        grace: float = 60.0,
        only_required: bool = False,
        log_lines: int = 40,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``grace`` in seconds, by ``clock``. ``pushed_to``: owner/name behind the remote where it is a fork."""
        super().__init__(api, heads, pushed_to or api.place.full)
        self.remote_name = remote
        self._grace = grace
        self._only_required = only_required
        self._logs = Logs(api, log_lines)
        self._clock = clock
        self._first_seen: dict[tuple[int, str], float] = {}
        self._seen_lock = Lock()

    @classmethod
    def open(
        cls,
        config: Config,
        root: Path,
        *,
        environment: Mapping[str, str] | None = None,
        retries: Retries | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> GithubForge:
        """As ``open_github``. ``environment``: for gh, in place of this process's own (another login)."""
        chosen, given = config.forge.github, os.environ if environment is None else environment
        heads = Heads(root.resolve(), config.remote, timeout=max(chosen.timeout, 30.0))
        place, pushed_to = _place(config, heads)
        gh = Gh(
            find_gh(chosen.program, given),
            place.host,
            timeout=chosen.timeout,
            environment=environment,
            read_off=chosen.host is None and place.host != GITHUB,
        )
        token = hash(tuple(given.get(name) for name in TOKEN_VARIABLES))
        pace = pace_of(place.host, f"{given.get('GH_CONFIG_DIR', '')} {token}")
        return cls(
            Api(gh, place, pace, retries=retries, environment=environment),
            heads,
            remote=config.remote,
            pushed_to=pushed_to,
            grace=config.ci.grace if chosen.grace is None else chosen.grace,
            only_required=chosen.only_required,
            log_lines=chosen.log_lines,
            clock=clock,
        )

    def remote_url(self) -> None:
        """None: GitHub's remote is the user's own."""
        return

    def wake_paths(self) -> tuple[Path, ...]:
        """None: GitHub tells nobody here, so it is asked."""
        return ()

    def budget(self) -> ApiBudget | None:
        """What was left of GitHub's hourly points at the last answer."""
        return self._api.pace.budget

    # --- pull requests ---

    def pull_request_of_branch(self, branch: str) -> PullRequest | None:
        found = self._open_of_branch(branch)
        return None if found is None else self._to_pulls([found])[0]

    def diff(self, number: int) -> str:
        pull = self.pull_request(number)
        return self.diff_of(pull, pull.head)

    def diff_of(self, pull: PullRequest, commit: str) -> str:
        """What the pull request changes at this commit: as GitHub has it, else by git from the remote's commits.

        It is not searched for tokens: a review must see one that somebody committed.
        """
        node = self._node(pull.number)
        if node["headRefOid"] == commit:
            try:
                answer = self._api.get(f"pulls/{pull.number}", what=f"the diff of #{pull.number}", accept=_DIFF)
            except Missing:
                raise
            except Refused as fault:
                if not any(words in fault.said for words in _TOO_LARGE):
                    raise
            else:
                # GitHub makes it of the head at that moment: a push meanwhile would make it another one's.
                if self._node(pull.number)["headRefOid"] == commit:
                    return answer.text
        return self._heads.diff(pull.base, commit)

    def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str, draft: bool, author: str | None = None
    ) -> PullRequest:
        existing, repository = self._look_for(branch)
        if existing is not None:
            return self._to_pulls([existing])[0]
        self._acts_as(author)
        line, text = redacted(checked_title(title)), redacted(checked_body(body))
        self._check_branches(branch, base)
        owner, _, _ = self._pushed_to.partition("/")
        given = {
            "repositoryId": repository,
            "baseRefName": base,
            "headRefName": branch if self._api.place.same(self._pushed_to) else f"{owner}:{branch}",
            "title": line,
            "body": text,
            "draft": draft,
        }

        def change() -> Node:
            try:
                return self._change(queries.CREATE_PULL, "createPullRequest", given, f"the pull request of {branch}")
            except Refused as fault:
                found = self._open_of_branch(branch) if "already exists" in fault.said else None
                if found is not None:
                    return found
                raise _creation_fault(fault, branch, base) from fault

        return self._to_pulls([self._api.once(change, lambda: self._open_of_branch(branch))])[0]

    def _check_branches(self, branch: str, base: str) -> None:
        """What GitHub refuses, in words of ours, by the remote's own refs."""
        if branch == base:
            raise BadInput(f"{branch} cannot be asked to go into itself", "Work on a branch of its own.")
        refs = self._heads.refs([f"refs/heads/{branch}", f"refs/heads/{base}"], must=True)
        if f"refs/heads/{branch}" not in refs:
            raise NotSo(f"the forge has no branch {branch}", f"Push it first: git push {self.remote_name} {branch}")
        if f"refs/heads/{base}" not in refs and self._api.place.same(self._pushed_to):
            raise NotSo(f"the forge has no branch {base} to go into", "Name another one with --base.")
        if refs[f"refs/heads/{branch}"] == refs.get(f"refs/heads/{base}"):
            raise NotSo(f"{branch} has no commit that {base} lacks", "Commit and push the work first.")

    def mark_ready(self, number: int) -> PullRequest:
        pull = self._api.retried(lambda: self._agreed(number))
        if pull.state != "open":
            raise NotSo(f"pull request #{number} is {pull.state}; only an open one can be made ready", "")
        if not pull.draft:
            return pull
        return self._turned(number, queries.READY, "markPullRequestReadyForReview", lambda node: not node["isDraft"])

    def _agreed(self, number: int) -> PullRequest:
        """The pull request at a head on which GitHub's API and the remote agree: readiness is for what was pushed."""
        node = self._node(number)
        pull = self._to_pulls([node], must=True)[0]
        if pull.head != node["headRefOid"]:
            raise Transient(
                f"GitHub's API has not seen the last push of #{number} yet ({pull.head[:12]})", "Try again in a minute."
            )
        return pull

    def close_pull_request(self, number: int) -> PullRequest:
        pull = self.pull_request(number)
        if pull.state == "merged":
            raise NotSo(f"pull request #{number} is merged, so it cannot be closed", "")
        if pull.state == "closed":
            return pull
        return self._turned(number, queries.CLOSE_PULL, "closePullRequest", lambda node: node["state"] != "OPEN")

    def reopen_pull_request(self, number: int) -> PullRequest:
        pull = self.pull_request(number)
        if pull.state == "merged":
            raise NotSo(f"pull request #{number} is merged, so it cannot be opened again", "Open a new one.")
        if pull.state == "open":
            return pull
        self._check_branches(pull.head_branch, pull.base_branch)
        other = self._open_of_branch(pull.head_branch)
        if other is not None:
            raise NotSo(
                f"{pull.head_branch} has an open pull request already, #{other['number']}",
                f"Go on with that one, or close it first: taskmaestro pr close {other['number']}",
            )
        try:
            return self._turned(number, queries.REOPEN_PULL, "reopenPullRequest", lambda node: node["state"] == "OPEN")
        except Refused as fault:
            raise NotSo(
                f"GitHub does not open #{number} again: {fault.said or fault.what}",
                "Open a new one; a branch that was pushed by force meanwhile cannot have its old one back.",
            ) from fault

    def _turned(self, number: int, document: str, verb: str, is_done: Callable[[Node], bool]) -> PullRequest:
        """Change the state of a pull request, once; ``is_done`` sees whether a lost attempt was made."""
        given = {"pullRequestId": self._node(number)["id"]}

        def look() -> Node | None:
            node = self._node(number)
            return node if is_done(node) else None

        node = self._api.once(lambda: self._change(document, verb, given, f"pull request #{number}"), look)
        return self._to_pulls([node])[0]

    def _change(self, document: str, verb: str, given: Mapping[str, object], what: str) -> Node:
        def read(data: Node) -> Node:
            found: Node = data[verb]["pullRequest"]
            return found

        return self._api.change(document, {"input": given}, read, what=what)


def _creation_fault(fault: Refused, branch: str, base: str) -> Fault:
    said = fault.said
    if "No commits between" in said:
        return NotSo(f"{branch} has no commit that {base} lacks", "Commit and push the work first.")
    if "can't be blank" in said or "not all refs are readable" in said or "must be a branch" in said:
        # The remote has both branches, as was just seen: the API is behind.
        return Transient(f"GitHub's API has not seen the push of {branch} yet", "Try again in a minute.")
    if "raft pull requests are not supported" in said:
        return NotSo("GitHub takes no drafts in this repository", "Set draft_first = false in [forge].")
    return fault


def _place(config: Config, heads: Heads) -> tuple[Place, str]:
    """The repository that pull requests are in, and owner/name of the one behind the remote."""
    chosen, url = config.forge.github, heads.url()
    try:
        behind = parse_remote(url, host=chosen.host) if url is not None else None
    except BadInput:
        if chosen.repository is None:
            raise
        behind = None
    if chosen.repository is not None:
        host = chosen.host or (behind.host if behind is not None else GITHUB)
        place = named(chosen.repository, host)
        return place, behind.full if behind is not None else place.full
    if behind is None:
        raise BadInput(
            f"this repository has no remote {one_line(config.remote)}, so its place on GitHub is not known",
            f"Add it: git remote add {one_line(config.remote)} git@github.com:OWNER/NAME.git, "
            "or set `repository` in [forge.github].",
        )
    return behind, behind.full
