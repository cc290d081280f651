"""What all parts of the github forge stand on: the acting login, and pull requests with the remote's heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from conductor.forge.github import queries
from conductor.forge.github.api import Api, missing_pull
from conductor.forge.github.heads import Heads
from conductor.forge.github.pace import moment
from conductor.forge.github.pulls import head_ref, is_ours, plain, refs_of, to_pull
from schemas.errors import BadInput, NotSo, Unavailable
from schemas.forge import PullRequest
from schemas.text import one_line

Node = Mapping[str, Any]
_AT_ONCE = 100
"""Pull requests in one query; GitHub counts the nodes that could come."""
_LARGEST = 2**31 - 1


class GithubBase:
    """The repository, the login, and reading pull requests."""

    def __init__(self, api: Api, heads: Heads, pushed_to: str) -> None:
        self._api = api
        self._heads = heads
        self._pushed_to = pushed_to
        """owner/name of the repository that the remote is; another one where work is pushed to a fork."""
        self._login: str | None = None
        self._login_lock = Lock()

    def login(self) -> str:
        """The login that the token belongs to; of an app without ``[bot]``, as GraphQL names it as an author."""
        with self._login_lock:
            if self._login is None:
                self._login = self._api.query(
                    queries.VIEWER, {}, lambda data: plain(data["viewer"]["login"]), what="the acting login", own=False
                )
            return self._login

    def repository(self) -> str:
        """``owner/name``, in lower case."""
        return self._api.place.full.lower()

    def default_branch(self) -> str:
        """The branch that pull requests go to unless another one is named."""
        branch = self._repository()["defaultBranchRef"]
        if branch is None:
            raise NotSo(f"{self._api.place.full} has no branch yet", "Push one first.")
        return str(branch["name"])

    def is_archived(self) -> bool:
        """Whether the repository is read-only. Raises ``NotSo`` where this login sees no such repository."""
        return bool(self._repository()["isArchived"])

    def _repository(self) -> Node:
        found: Node | None = self._api.query(
            queries.REPOSITORY, {}, lambda data: data["repository"], what="the repository"
        )
        if found is None:
            raise NotSo(
                f"{self._api.place.host} has no repository {self._api.place.full}, or this login may not see it",
                "Look at the remote's URL or `repository` in [forge.github], and at `gh auth status`.",
            )
        return found

    def _is_me(self, login: str) -> bool:
        return plain(login).lower() == self.login().lower()

    def _acts_as(self, author: str | None) -> None:
        """GitHub posts as the token's login, whoever is named."""
        if author is not None and not self._is_me(one_line(author, 100)):
            raise BadInput(
                f"cannot act as {one_line(author, 100)}: this token is {self.login()}'s",
                "Use a token of that login, or name nobody.",
            )

    # --- pull requests ---

    def _nodes(self, numbers: Sequence[int], document: Callable[[Sequence[int]], str], what: str) -> list[Node]:
        """These pull requests as GitHub has them, unknown ones left out; one query for up to a hundred."""
        known = sorted({number for number in numbers if 0 < number <= _LARGEST})
        found: list[Node] = []
        for start in range(0, len(known), _AT_ONCE):
            part = known[start : start + _AT_ONCE]

            def read(data: Node, part: Sequence[int] = part) -> list[Node]:
                self._told(data)
                asked = [(number, data["repository"][f"p{number}"]) for number in part]
                return [checked_number(node, number) for number, node in asked if node is not None]

            found += self._api.query(document(part), {}, read, what=what, absent=True)
        return found

    def _told(self, data: Node) -> None:
        budget = data["rateLimit"]
        if budget is not None:
            self._api.pace.told(budget["remaining"], budget["limit"], moment(budget["resetAt"]))

    def _node(self, number: int) -> Node:
        """One pull request. Raises ``NotSo`` where there is none."""
        found = self._nodes([number], queries.pulls, f"pull request #{number}")
        if not found:
            raise missing_pull(number)
        return found[0]

    def _to_pulls(self, nodes: Sequence[Node], *, must: bool = False) -> list[PullRequest]:
        """As values, with the remote's heads. ``must``: the remote has to answer, and to have the branches of those
        that are open in the repository behind it.
        """
        own = self._api.place.same(self._pushed_to)
        with self._api.shaped("pull requests"):
            wanted = refs_of(nodes, self._pushed_to, own=own)
        refs = self._heads.refs(wanted, must=must)
        with self._api.shaped("pull requests"):
            for node in nodes if must else ():
                self._check_branch(node, refs, own=own)
            return [to_pull(node, refs, self._pushed_to, own=own) for node in nodes]

    def _check_branch(self, node: Node, refs: Mapping[str, str], *, own: bool) -> None:
        """Raises ``NotSo`` where the branch of an open one is gone, though the API may not have seen that yet."""
        if node["state"] != "OPEN" or not is_ours(node, self._pushed_to, own=own):
            return
        if head_ref(node, self._pushed_to, own=own) not in refs:
            branch, number = one_line(node["headRefName"], 200), node["number"]
            raise NotSo(
                f"the branch {branch} of #{number} is not on the remote any more",
                f"Push it again (git push {self._heads.remote} {branch}), or close it: taskmaestro pr close {number}",
            )

    def pull_request(self, number: int) -> PullRequest:
        return self._to_pulls([self._node(number)])[0]

    def pull_requests(self, numbers: Sequence[int] | None = None) -> list[PullRequest]:
        if numbers is not None:
            return self._to_pulls(self._nodes(numbers, queries.pulls, "pull requests")) if numbers else []

        def read(data: Node) -> Node:
            self._told(data)
            found: Node = data["repository"]["pullRequests"]
            return found

        nodes = self._api.pages(queries.OPEN_PULLS, {}, read, what="the open pull requests") or []
        return sorted(self._to_pulls(nodes), key=lambda pull: pull.number)

    def _open_of_branch(self, branch: str) -> Node | None:
        """The open pull request of a branch of the repository that is pushed to."""
        return self._look_for(branch)[0]

    def _look_for(self, branch: str) -> tuple[Node | None, str]:
        """The open pull request of a branch, and the repository's id: what it takes to open one where there is none."""
        ids: list[str] = []

        def read(data: Node) -> Node:
            ids.append(str(data["repository"]["id"]))
            found: Node = data["repository"]["pullRequests"]
            return found

        what = f"the pull request of {one_line(branch)}"
        nodes = self._api.pages(queries.PULLS_OF_BRANCH, {"branch": branch}, read, what=what)
        own = self._api.place.same(self._pushed_to)
        return next((node for node in nodes or [] if is_ours(node, self._pushed_to, own=own)), None), ids[-1]

    def _settled(self, number: int) -> PullRequest:
        """A pull request just before something that cannot be taken back: read again, with the head of the remote."""
        return self._to_pulls([self._node(number)], must=True)[0]


def checked_number(node: Node, number: int) -> Node:
    if node["number"] != number:
        raise Unavailable(f"GitHub answered with #{node['number']} for #{number}", "Ask again.")
    return node
