"""What may be done in the world, with GitHub's own refusals. GraphQL and REST both come through here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from tests.github import bare
from tests.github.model import (
    Comment,
    Issue,
    PullRequest,
    Repository,
    RequestEvent,
    ReviewRequest,
    User,
    World,
    now,
)

BODY_LIMIT = 65536


class Refused(Exception):
    """GitHub says no. ``kind`` is GraphQL's error type; ``field`` is named by REST's "Validation Failed"."""

    def __init__(self, message: str, kind: str = "UNPROCESSABLE", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.field = field


def writable(repository: Repository) -> None:
    if repository.archived:
        raise Refused("Repository was archived so is read-only.", "FORBIDDEN")


def checked_body(body: str, what: str = "Body") -> str:
    if not body.strip():
        raise Refused(f"{what} can't be blank")
    if len(body) > BODY_LIMIT:
        raise Refused(f"{what} is too long (maximum is {BODY_LIMIT} characters)")
    return body


# --- issues ---


def create_issue(world: World, repository: Repository, viewer: User, title: str, body: str) -> Issue:
    writable(repository)
    moment = now()
    issue: Issue = world.make(
        Issue,
        "I",
        repository=repository,
        number=world.next_number(repository),
        title=checked_body(title, "Title"),
        body=body,
        author=viewer,
        created_at=moment,
        updated_at=moment,
    )
    repository.numbered[issue.number] = issue
    return issue


def close_issue(issue: Issue, reason: Literal["COMPLETED", "NOT_PLANNED"] = "COMPLETED") -> None:
    writable(issue.repository)
    issue.state, issue.state_reason = "CLOSED", reason
    issue.closed_at = issue.updated_at = now()


def reopen_issue(issue: Issue) -> None:
    writable(issue.repository)
    issue.state, issue.state_reason, issue.closed_at, issue.updated_at = "OPEN", "REOPENED", None, now()


def update_text(subject: Issue | PullRequest, title: str | None, body: str | None) -> None:
    writable(subject.repository)
    if title is not None:
        subject.title = checked_body(title, "Title")
    if body is not None:
        subject.body = checked_body(body) if body else body
    subject.updated_at = now()


def add_comment(world: World, subject: Issue | PullRequest, viewer: User, body: str) -> Comment:
    writable(subject.repository)
    moment = now()
    values = {"subject": subject, "author": viewer, "created_at": moment, "updated_at": moment}
    comment: Comment = world.make(Comment, "IC", body=checked_body(body), **values)
    subject.comments.append(comment)
    subject.updated_at = moment
    return comment


def update_comment(comment: Comment, viewer: User, body: str) -> None:
    writable(comment.subject.repository)
    _own(comment, viewer)
    comment.body, comment.updated_at = checked_body(body), now()


def delete_comment(world: World, comment: Comment, viewer: User) -> None:
    writable(comment.subject.repository)
    _own(comment, viewer)
    comment.subject.comments.remove(comment)
    world.nodes.pop(comment.node_id, None)


def _own(comment: Comment, viewer: User) -> None:
    if comment.author is not viewer:
        raise Refused(f"{viewer.login} does not have the correct permissions to change this comment", "FORBIDDEN")


# --- pull requests ---


def create_pull_request(
    world: World,
    repository: Repository,
    viewer: User,
    *,
    title: str,
    body: str,
    base: str,
    head: str,
    draft: bool = False,
    head_repository: Repository | None = None,
) -> PullRequest:
    """``head`` is a branch, or ``owner:branch`` of a fork."""
    writable(repository)
    owner, _, branch = head.rpartition(":")
    source = head_repository or repository
    if owner and owner.lower() != source.owner.login.lower():
        forks = (one for one in world.repositories.values() if one.parent is repository and not one.deleted)
        source = next((one for one in forks if one.owner.login.lower() == owner.lower()), repository)
    checked_body(title, "Title")
    if body:
        checked_body(body)
    base_oid, head_oid = bare.heads(repository.path).get(base), bare.heads(source.path).get(branch)
    if base_oid is None or head_oid is None:
        blank = [f"{name} sha can't be blank" for name, oid in (("Head", head_oid), ("Base", base_oid)) if oid is None]
        refs = [f"{name} ref must be a branch" for name, oid in (("Head", head_oid), ("Base", base_oid)) if oid is None]
        raise Refused(", ".join([*blank, f"No commits between {base} and {branch}", *refs]))
    if source is not repository:
        bare.git(repository.path, "fetch", "--quiet", str(source.path), head_oid)
    if other := open_pull_of(repository, source, branch, base):
        raise Refused(f"A pull request already exists for {source.owner.login}:{other.head_branch}.")
    if not bare.commits_between(repository.path, base_oid, head_oid):
        raise Refused(f"No commits between {base} and {branch}")
    moment = now()
    pull: PullRequest = world.make(
        PullRequest,
        "PR",
        repository=repository,
        number=world.next_number(repository),
        title=title,
        body=body,
        author=viewer,
        head_repository=source,
        head_owner=source.owner.login,
        head_branch=branch,
        base_branch=base,
        base_oid=base_oid,
        created_at=moment,
        updated_at=moment,
        draft=draft,
    )
    repository.numbered[pull.number] = pull
    world.note_push(pull, head_oid, moment, viewer)
    return pull


def open_pull_of(repository: Repository, source: Repository, branch: str, base: str) -> PullRequest | None:
    wanted = (source, branch, base, "OPEN")
    found = (
        one for one in repository.pulls if (one.head_repository, one.head_branch, one.base_branch, one.state) == wanted
    )
    return next(found, None)


def mark_ready(pull: PullRequest, *, draft: bool) -> None:
    writable(pull.repository)
    if pull.state != "OPEN":
        raise Refused("Pull request is closed")
    if pull.draft == draft:
        raise Refused("Pull request is already in draft" if draft else "Pull request is not in draft state")
    pull.draft, pull.updated_at = draft, now()


def close_pull_request(pull: PullRequest) -> None:
    writable(pull.repository)
    if pull.state != "OPEN":
        raise Refused("Could not close the pull request.")
    pull.state, pull.closed_at = "CLOSED", now()
    pull.updated_at = pull.closed_at


def reopen_pull_request(world: World, pull: PullRequest) -> None:
    writable(pull.repository)
    source = pull.head_repository
    gone = source is None or source.deleted
    head = None if gone or source is None else bare.heads(source.path).get(pull.head_branch)
    if pull.state != "CLOSED" or head is None or source is None:
        raise Refused("Could not open the pull request.")
    if open_pull_of(pull.repository, source, pull.head_branch, pull.base_branch):
        raise Refused("Could not open the pull request.")
    if source is not pull.repository:
        bare.git(pull.repository.path, "fetch", "--quiet", str(source.path), head)
    last = pull.pushes[-1].oid
    base = bare.heads(pull.repository.path).get(pull.base_branch)
    nothing_new = base is None or not bare.commits_between(pull.repository.path, base, head)
    # What was pushed by force while it was closed keeps it closed.
    if nothing_new or not bare.is_ancestor(pull.repository.path, last, head):
        raise Refused("Could not open the pull request.")
    pull.state, pull.closed_at = "OPEN", None
    pull.updated_at = now()
    world.note_push(pull, head, pull.updated_at, None)


def merge_pull_request(world: World, pull: PullRequest, viewer: User, method: str, expected: str | None) -> None:
    """A merge commit or a squashed one; for what happens meanwhile in tests."""
    writable(pull.repository)
    if pull.state != "OPEN" or pull.draft:
        raise Refused("Pull Request is still a draft" if pull.draft else "Pull Request is not mergeable")
    path, head = pull.repository.path, pull.pushes[-1].oid
    if expected not in (None, head):
        raise Refused("Head branch was modified. Review and try the merge again.")
    base = bare.heads(path)[pull.base_branch]
    try:
        tree = bare.git(path, "merge-tree", "--write-tree", base, head).splitlines()[0]
    except bare.GitError:
        raise Refused("Pull Request is not mergeable") from None
    parents = ["-p", base] if method == "SQUASH" else ["-p", base, "-p", head]
    subject = f"Merge pull request #{pull.number} from {pull.head_owner}/{pull.head_branch}\n\n{pull.title}"
    message = f"{pull.title} (#{pull.number})" if method == "SQUASH" else subject
    who = ("-c", f"user.name={viewer.name}", "-c", f"user.email={viewer.login}@users.noreply.github.com")
    made = bare.git(path, *who, "commit-tree", tree, *parents, "-m", message)
    pull.base_oid = base
    bare.set_ref(path, f"refs/heads/{pull.base_branch}", made)
    pull.state, pull.merge_oid, pull.merged_by = "MERGED", made, viewer
    pull.merged_at = pull.closed_at = pull.updated_at = now()
    closes = re.findall(r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b", pull.body)
    for number in map(int, closes):
        issue = pull.repository.numbered.get(number)
        if isinstance(issue, Issue) and issue.state == "OPEN":
            close_issue(issue)
    world.refresh(viewer)


def request_reviews(world: World, pull: PullRequest, viewer: User, users: Sequence[User]) -> None:
    writable(pull.repository)
    if pull.state != "OPEN":
        raise Refused("Pull request is closed")
    if pull.author in users:
        raise Refused("Review cannot be requested from pull request author.")
    for user in users:
        if all(one.user is not user for one in pull.requests):
            moment = now()
            pull.requests.append(world.make(ReviewRequest, "RRQ", pull=pull, user=user, created_at=moment))
            values = {"pull": pull, "actor": viewer, "user": user, "created_at": moment}
            pull.request_events.append(world.make(RequestEvent, "RRE", **values))
            pull.updated_at = moment


def withdraw_requests(world: World, pull: PullRequest, viewer: User, users: Sequence[User]) -> None:
    writable(pull.repository)
    for gone in [one for one in pull.requests if one.user in users]:
        pull.requests.remove(gone)
        values = {"pull": pull, "actor": viewer, "user": gone.user, "created_at": now(), "removed": True}
        pull.request_events.append(world.make(RequestEvent, "RRRE", **values))
