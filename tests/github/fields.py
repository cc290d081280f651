"""Answers to GraphQL fields of users, repositories, commits, checks, issues and comments."""

from __future__ import annotations

from typing import Any

from tests.github import bare
from tests.github.graphql import FIELDS, TYPES, Context, Fields, Unmodelled, connection
from tests.github.model import (
    Comment,
    CommitNode,
    Issue,
    Label,
    PullRequest,
    Repository,
    Thing,
    User,
    stamp,
)
from tests.github.rules import Refused

WRITE_PERMISSIONS = {"viewerPermission": "WRITE", "viewerCanAdminister": False}
MERGE_SETTINGS = {
    "mergeCommitAllowed": True,
    "rebaseMergeAllowed": True,
    "squashMergeAllowed": True,
    "deleteBranchOnMerge": False,
    "autoMergeAllowed": False,
    "viewerDefaultMergeMethod": "MERGE",
}


def web(context: Context, path: str) -> str:
    return f"https://{context.world.host}/{path}"


def constant(value: Any) -> Any:
    return lambda _thing, _context: value


def empty(name: str, *filters: str) -> Any:
    """A connection that is empty in this world, because nothing in it can make one; so filters do not matter."""

    def answer(_thing: Any, _context: Context, **asked: Any) -> dict[str, Any]:
        return connection([], name, **{key: value for key, value in asked.items() if key not in filters})

    return answer


def known_filter(asked: Any, *modelled: Any) -> None:
    """Filters that are given must be among those that are modelled."""
    if asked is not None and asked not in modelled:
        raise Unmodelled(f"the filter {asked!r}")


def ordered(things: list[Any], order: Any) -> list[Any]:
    """By creation or update; numbers grow with creation."""
    if order is None:
        return things
    keys = {"CREATED_AT": lambda one: (one.created_at, one.id), "UPDATED_AT": lambda one: (one.updated_at, one.id)}
    if order["field"] not in keys:
        raise Unmodelled(f"the order {order['field']}")
    return sorted(things, key=keys[order["field"]], reverse=order["direction"] == "DESC")


# --- users ---

TYPES[User] = "User"
FIELDS["User"] = {
    "id": lambda user, _: user.node_id,
    "databaseId": lambda user, _: user.id,
    "login": lambda user, _: user.login,
    "name": lambda user, _: user.name,
    "url": lambda user, context: web(context, user.login),
    "resourcePath": lambda user, _: f"/{user.login}",
    "email": constant(""),
    "createdAt": lambda user, _: stamp(user.created_at),
    "isViewer": lambda user, context: user is context.viewer,
    "avatarUrl": lambda user, _: f"https://avatars.githubusercontent.com/u/{user.id}",
    "projectsV2": empty("projectsV2"),
}

# --- repositories ---


def _label(label: Label) -> dict[str, Any]:
    return {"id": label.node_id, "name": label.name, "description": label.description, "color": label.color}


def ref_of(repository: Repository, name: str) -> dict[str, Any] | None:
    oid = bare.heads(repository.path).get(name)
    if oid is None:
        return None
    return {
        "__typename": "Ref",
        "id": f"REF_{repository.id}_{name}",
        "name": name,
        "prefix": "refs/heads/",
        "target": lambda: commit_node(repository, oid),
        "branchProtectionRule": lambda: _protection_rule(repository, name),
        "refUpdateRule": lambda: _update_rule(repository, name),
        "repository": repository,
    }


def _update_rule(repository: Repository, branch: str) -> dict[str, Any] | None:
    """What everybody may see of the protection."""
    rule = _protection_rule(repository, branch)
    if rule is None:
        return None
    return {key: rule[key] for key in ("pattern", "requiredStatusCheckContexts", "requiredApprovingReviewCount")}


def _protection_rule(repository: Repository, branch: str) -> dict[str, Any] | None:
    protection = repository.protection
    if branch != repository.default_branch or not (protection.checks or protection.reviews):
        return None
    return {
        "requiresStrictStatusChecks": False,
        "requiresStatusChecks": bool(protection.checks),
        "requiredStatusCheckContexts": list(protection.checks),
        "requiresApprovingReviews": protection.reviews,
        "requiredApprovingReviewCount": 1 if protection.reviews else 0,
        "pattern": branch,
    }


def _ref_named(repository: Repository, _: Context, qualifiedName: str) -> dict[str, Any] | None:
    return ref_of(repository, qualifiedName.removeprefix("refs/heads/"))


def find_numbered(repository: Repository, number: int, kind: type[Any] | None, words: str) -> Any:
    found = repository.numbered.get(number)
    if found is None or (kind is not None and not isinstance(found, kind)):
        raise Refused(f"Could not resolve to {words} with the number of {number}.", "NOT_FOUND")
    return found


def _issue(repository: Repository, _: Context, number: int) -> Issue:
    found: Issue = find_numbered(repository, number, Issue, "an Issue")
    return found


def pull_by_number(repository: Repository, _: Context, number: int) -> PullRequest:
    found: PullRequest = find_numbered(repository, number, PullRequest, "a PullRequest")
    return found


def _issue_or_pull(repository: Repository, _: Context, number: int) -> Issue | PullRequest:
    found: Issue | PullRequest = find_numbered(repository, number, None, "an issue or pull request")
    return found


def _issues(
    repository: Repository,
    _: Context,
    states: Any = None,
    orderBy: Any = None,
    filterBy: Any = None,
    labels: Any = None,
    **asked: Any,
) -> dict[str, Any]:
    chosen = [one for one in repository.issues if states is None or one.state in states]
    filters = dict(filterBy or {})
    if filters.get("states") is not None:
        chosen = [one for one in chosen if one.state in filters.pop("states")]
    if filters.pop("assignee", None) or filters.pop("mentioned", None):
        chosen = []  # nobody is assigned or mentioned here
    if since := filters.pop("since", None):
        chosen = [one for one in chosen if (stamp(one.updated_at) or "") >= since]
    if login := filters.pop("createdBy", None):
        chosen = [one for one in chosen if one.author.login == login]
    # Schema defaults come along unasked.
    known_filter({key: value for key, value in filters.items() if value}, {})
    known_filter(labels, [])
    return connection(ordered(chosen, orderBy), "issues", **asked)


def _pulls(
    repository: Repository,
    _: Context,
    states: Any = None,
    orderBy: Any = None,
    headRefName: str | None = None,
    baseRefName: str | None = None,
    labels: Any = None,
    **asked: Any,
) -> dict[str, Any]:
    known_filter(labels, [])
    chosen = [
        one
        for one in repository.pulls
        if (states is None or one.state in states)
        and headRefName in (None, one.head_branch)
        and baseRefName in (None, one.base_branch)
    ]
    return connection(ordered(chosen, orderBy), "pullRequests", **asked)


def _object(repository: Repository, context: Context, oid: str | None = None, expression: str | None = None) -> Any:
    found = bare.resolve(repository.path, oid or expression or "")
    return None if found is None else commit_node(repository, found)


def commit_node(repository: Repository, oid: str) -> CommitNode:
    return CommitNode(0, f"C_kwDO{repository.id}_{oid}", repository, oid)


def commit_of_id(context: Context, node_id: str) -> CommitNode | None:
    number, _, oid = node_id.removeprefix("C_kwDO").partition("_")
    found = (one for one in context.world.repositories.values() if str(one.id) == number)
    repository = next(found, None)
    known = repository is not None and bare.resolve(repository.path, oid) == oid
    return commit_node(repository, oid) if known and repository is not None else None


def _assignable(repository: Repository, context: Context, query: str | None = None, **asked: Any) -> dict[str, Any]:
    users = [one for one in context.world.users.values() if not query or query.lower() in one.login.lower()]
    return connection(users, "assignableUsers", **asked)


TYPES[Repository] = "Repository"
FIELDS["Repository"] = {
    "id": lambda repo, _: repo.node_id,
    "databaseId": lambda repo, _: repo.id,
    "name": lambda repo, _: repo.name,
    "nameWithOwner": lambda repo, _: repo.full_name,
    "owner": lambda repo, _: repo.owner,
    "url": lambda repo, context: web(context, repo.full_name),
    "sshUrl": lambda repo, context: f"git@{context.world.host}:{repo.full_name}.git",
    "description": constant(None),
    "homepageUrl": constant(None),
    "createdAt": lambda repo, _: stamp(repo.created_at),
    "updatedAt": lambda repo, _: stamp(repo.pushed_at),
    "pushedAt": lambda repo, _: stamp(repo.pushed_at),
    "isArchived": lambda repo, _: repo.archived,
    "isPrivate": lambda repo, _: repo.private,
    "visibility": lambda repo, _: "PRIVATE" if repo.private else "PUBLIC",
    "isFork": lambda repo, _: repo.parent is not None,
    "isEmpty": lambda repo, _: not bare.heads(repo.path),
    "isMirror": constant(False),
    "isTemplate": constant(False),
    "isInOrganization": constant(False),
    "isBlankIssuesEnabled": constant(True),
    "parent": lambda repo, _: repo.parent,
    "hasIssuesEnabled": constant(True),
    "hasWikiEnabled": constant(False),
    "hasProjectsEnabled": constant(False),
    "hasDiscussionsEnabled": constant(False),
    "defaultBranchRef": lambda repo, _: ref_of(repo, repo.default_branch),
    "ref": _ref_named,
    "object": _object,
    "issue": _issue,
    "pullRequest": pull_by_number,
    "issueOrPullRequest": _issue_or_pull,
    "issues": _issues,
    "pullRequests": _pulls,
    "assignableUsers": _assignable,
    "labels": empty("labels", "orderBy", "query"),
    "milestones": empty("milestones"),
    "projects": empty("projects"),
    "projectsV2": empty("projectsV2"),
    "issueTemplates": constant([]),
    "pullRequestTemplates": constant([]),
    **{name: constant(value) for name, value in (WRITE_PERMISSIONS | MERGE_SETTINGS).items()},
}

# --- comments and issues ---


def association(thing: Any, author: User) -> str:
    repository: Repository = thing.repository
    return "OWNER" if author is repository.owner else "MEMBER"


_REACTIONS = ("THUMBS_UP", "THUMBS_DOWN", "LAUGH", "HOORAY", "CONFUSED", "HEART", "ROCKET", "EYES")


def _reactions(content: str) -> dict[str, Any]:
    """Nobody has reacted: GitHub tells all groups, each without users."""
    return {"content": content, "users": lambda **asked: connection([], "users", **asked), "viewerHasReacted": False}


#: What any thing with a text has and what cannot happen in this world.
TEXT: Fields = {
    "isMinimized": constant(False),
    "minimizedReason": constant(None),
    "includesCreatedEdit": constant(False),
    "reactionGroups": lambda _thing, _context: [_reactions(content) for content in _REACTIONS],
    "viewerDidAuthor": lambda thing, context: thing.author is context.viewer,
}

TYPES[Comment] = "IssueComment"
FIELDS["IssueComment"] = TEXT | {
    "id": lambda comment, _: comment.node_id,
    "databaseId": lambda comment, _: comment.id,
    "fullDatabaseId": lambda comment, _: str(comment.id),
    "author": lambda comment, _: comment.author,
    "authorAssociation": lambda comment, _: association(comment.subject, comment.author),
    "body": lambda comment, _: comment.body,
    "createdAt": lambda comment, _: stamp(comment.created_at),
    "updatedAt": lambda comment, _: stamp(comment.updated_at),
    "url": lambda comment, context: comment_url(comment, context),
    "repository": lambda comment, _: comment.subject.repository,
}


def comment_url(comment: Comment, context: Context) -> str:
    return f"{page_url(comment.subject, context)}#issuecomment-{comment.id}"


def page_url(subject: Issue | PullRequest, context: Context) -> str:
    kind = "pull" if isinstance(subject, PullRequest) else "issues"
    return web(context, f"{subject.repository.full_name}/{kind}/{subject.number}")


def _comments(subject: Issue | PullRequest, _: Context, orderBy: Any = None, **asked: Any) -> dict[str, Any]:
    return connection(ordered(subject.comments, orderBy), "comments", **asked)


#: What issues and pull requests have in common.
SUBJECT: Fields = TEXT | {
    "id": lambda one, _: one.node_id,
    "databaseId": lambda one, _: one.id,
    "fullDatabaseId": lambda one, _: str(one.id),
    "number": lambda one, _: one.number,
    "title": lambda one, _: one.title,
    "body": lambda one, _: one.body,
    "state": lambda one, _: one.state,
    "closed": lambda one, _: one.state != "OPEN",
    "author": lambda one, _: one.author,
    "authorAssociation": lambda one, _: association(one, one.author),
    "url": page_url,
    "createdAt": lambda one, _: stamp(one.created_at),
    "updatedAt": lambda one, _: stamp(one.updated_at),
    "closedAt": lambda one, _: stamp(one.closed_at),
    "repository": lambda one, _: one.repository,
    "comments": _comments,
    "labels": empty("labels", "orderBy"),
    "assignees": empty("assignees"),
    "assignedActors": empty("assignedActors"),
    "projectItems": empty("projectItems", "includeArchived", "query"),
    "projectCards": empty("projectCards", "archivedStates"),
    "milestone": constant(None),
    "locked": constant(False),
    "activeLockReason": constant(None),
}
TYPES[Issue] = "Issue"
FIELDS["Issue"] = SUBJECT | {
    "stateReason": lambda issue, _, enableDuplicate=False: issue.state_reason,
    "subIssuesSummary": constant({"total": 0, "completed": 0, "percentCompleted": 0}),
    "blockedBy": empty("blockedBy"),
    "blocking": empty("blocking"),
    "isPinned": constant(False),
    "parent": constant(None),
    "issueType": constant(None),
    "subIssues": empty("subIssues"),
}


# --- the root ---


def node_of(context: Context, node_id: str, kind: type[Any] = Thing) -> Any:
    found = commit_of_id(context, node_id) if node_id.startswith("C_") else context.world.nodes.get(node_id)
    if found is None or not isinstance(found, kind):
        raise Refused(f"Could not resolve to a node with the global id of '{node_id}'.", "NOT_FOUND")
    return found


def _repository(_: Any, context: Context, owner: str, name: str, followRenames: bool | None = True) -> Repository:
    found = context.world.repository(f"{owner}/{name}")
    if found is None:
        message = f"Could not resolve to a Repository with the name '{owner}/{name}'."
        raise Refused(message, "NOT_FOUND")
    return found


def _user(_: Any, context: Context, login: str) -> User:
    found = context.world.users.get(login.lower())
    if found is None:
        raise Refused(f"Could not resolve to a User with the login of '{login}'.", "NOT_FOUND")
    return found


def _rate_limit(_: Any, context: Context, dryRun: bool | None = False) -> dict[str, Any]:
    known_filter(dryRun, False)
    return {"cost": context.cost, "nodeCount": context.node_count, **context.limits}


FIELDS["Query"] = {
    "viewer": lambda _, context: context.viewer,
    "repository": _repository,
    "user": _user,
    "repositoryOwner": _user,
    "rateLimit": _rate_limit,
    "node": lambda _, context, id: node_of(context, id),
    "nodes": lambda _, context, ids: [node_of(context, one) for one in ids],
}
