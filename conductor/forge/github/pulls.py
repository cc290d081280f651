"""Pull requests as values, with the heads that the remote has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from conductor.core.description import closes
from conductor.forge.github.api import at
from conductor.forge.github.redact import redacted
from schemas.forge import PullRequest

GHOST = "ghost"
"""Whom GitHub shows as the author where the account is gone."""
_STATES: dict[str, Literal["open", "closed", "merged"]] = {"OPEN": "open", "CLOSED": "closed", "MERGED": "merged"}


def plain(login: str) -> str:
    """A login without the mark of an app, which only some of GitHub's answers carry."""
    return login.removesuffix("[bot]")


def author_of(node: Mapping[str, Any]) -> str:
    """The login that wrote something."""
    return str(at(node, "author", "login") or GHOST)


def is_ours(node: Mapping[str, Any], pushed_to: str, *, own: bool) -> bool:
    """Whether the head's branch is in the repository behind the remote. ``own``: that is the one of the pull requests
    itself, which may have been renamed since the remote's URL was written."""
    if own:
        return not node["isCrossRepository"]
    return str(at(node, "headRepository", "nameWithOwner") or "").lower() == pushed_to.lower()


def head_ref(node: Mapping[str, Any], pushed_to: str, *, own: bool) -> str:
    """The ref on the remote that says what the head is: the branch, or for a fork's what GitHub keeps of it."""
    if is_ours(node, pushed_to, own=own):
        return f"refs/heads/{node['headRefName']}"
    return f"refs/pull/{node['number']}/head"


def base_ref(node: Mapping[str, Any]) -> str:
    return f"refs/heads/{node['baseRefName']}"


def refs_of(nodes: Iterable[Mapping[str, Any]], pushed_to: str, *, own: bool) -> list[str]:
    """The refs to ask the remote for. One that is closed or merged stays as it was then. ``own``: the remote is the
    repository of the pull requests itself, so that it has their bases too."""
    found = []
    for node in nodes:
        if node["state"] == "OPEN":
            found += [head_ref(node, pushed_to, own=own), *([base_ref(node)] if own else [])]
    return found


def to_pull(node: Mapping[str, Any], refs: Mapping[str, str], pushed_to: str, *, own: bool) -> PullRequest:
    """The pull request, its head and base as the remote has them where it is open."""
    base = node["baseRefOid"]
    head = node["headRefOid"]
    if node["state"] == "OPEN":
        head = refs.get(head_ref(node, pushed_to, own=own), head)
        base = (refs.get(base_ref(node)) if own else None) or at(node, "baseRef", "target", "oid") or base
    return PullRequest(
        number=node["number"],
        title=redacted(node["title"]),
        body=redacted((node["body"] or "").replace("\r\n", "\n")),
        author=author_of(node),
        state=_STATES[node["state"]],
        draft=node["isDraft"],
        head_branch=node["headRefName"],
        head=head,
        base_branch=node["baseRefName"],
        base=base,
        url=node["url"] or "",
        issue=closes(node["body"] or ""),
        created_at=node["createdAt"],
        updated_at=node["updatedAt"],
    )
