"""The search for issues and pull requests, as far as gh uses it. A qualifier that is not modelled is an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.github.graphql import FIELDS, Context, Unmodelled, connection
from tests.github.model import Issue, PullRequest, User

Subject = Issue | PullRequest
_WORD = re.compile(r'(-?)(?:([a-z-]+):)?(?:"([^"]*)"|(\S+))')

#: What `is:`, `state:` and `type:` may say.
_IS: dict[str, Callable[[Subject], bool]] = {
    "pr": lambda one: isinstance(one, PullRequest),
    "issue": lambda one: isinstance(one, Issue),
    "open": lambda one: one.state == "OPEN",
    "closed": lambda one: one.state != "OPEN",
    "merged": lambda one: one.state == "MERGED",
    "unmerged": lambda one: isinstance(one, PullRequest) and one.state != "MERGED",
    "draft": lambda one: isinstance(one, PullRequest) and one.draft,
}


def _person(value: str, viewer: User) -> str:
    return viewer.login if value == "@me" else value.lower()


def _asked(one: Subject) -> list[str]:
    return [request.user.login for request in one.requests] if isinstance(one, PullRequest) else []


def _fits(one: Subject, key: str, value: str, viewer: User) -> bool:
    if key == "":
        return value.lower() in f"{one.title}\n{one.body}".lower()
    if key == "repo":
        return one.repository.full_name.lower() == value.lower()
    if key in ("is", "state", "type") and value in _IS:
        return _IS[value](one)
    if key == "draft":
        return isinstance(one, PullRequest) and one.draft == (value == "true")
    if key == "author":
        return one.author.login.lower() == _person(value, viewer).lower()
    if key == "head":
        return isinstance(one, PullRequest) and one.head_branch == value
    if key == "base":
        return isinstance(one, PullRequest) and one.base_branch == value
    if key in ("review-requested", "user-review-requested"):
        return _person(value, viewer).lower() in map(str.lower, _asked(one))
    if key == "archived":
        return one.repository.archived == (value == "true")
    if key in ("assignee", "mentions", "label", "milestone"):
        return False  # nobody and nothing is assigned, mentioned, labelled or planned here
    raise Unmodelled(f"the search for {key}:{value}")


def find(context: Context, query: str) -> list[Subject]:
    """Newest first, as without `sort:`."""
    plain_query = query.replace("( ", " ").replace(" )", " ")  # a group of words that all count is no group
    words = [(minus, key, quoted or plain) for minus, key, quoted, plain in _WORD.findall(plain_query)]
    if grouped := [word for _, key, word in words if not key and (word in ("AND", "OR", "NOT") or word[0] in "()")]:
        raise Unmodelled(f"the search with {grouped[0]}")
    repositories = (one for one in context.world.repositories.values() if not one.deleted)
    found = [one for repository in repositories for one in repository.numbered.values()]
    for minus, key, value in words:
        if (key, value) == ("sort", "created-desc"):
            continue
        found = [one for one in found if _fits(one, key, value, context.viewer) != bool(minus)]
    return sorted(found, key=lambda one: one.id, reverse=True)


def _search(_: Any, context: Context, query: str, type: str, **asked: Any) -> dict[str, Any]:
    if type not in ("ISSUE", "ISSUE_ADVANCED"):
        raise Unmodelled(f"the search for {type}")
    found = find(context, query)
    return connection(found, "search", **asked) | {"issueCount": len(found)}


FIELDS["Query"]["search"] = _search
