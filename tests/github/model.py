"""The world of the stand-in: users, repositories, issues, pull requests, reviews, checks; one lock for all of it.

Heads are read from the real bare repositories (``refresh``); what is kept of them is when they moved.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from tests.github import bare

ReviewState = Literal["PENDING", "COMMENTED", "APPROVED", "CHANGES_REQUESTED", "DISMISSED"]


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime | None) -> str | None:
    """As GitHub writes it: UTC, whole seconds."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(eq=False)
class Thing:
    """Whatever has a node id. ``id`` is the number that REST calls ``id``, ``node_id`` the opaque string."""

    id: int
    node_id: str


@dataclass(eq=False)
class User(Thing):
    login: str
    token: str
    name: str = ""
    created_at: datetime = field(default_factory=now)


@dataclass(eq=False)
class Label(Thing):
    name: str
    color: str = "ededed"
    description: str = ""


@dataclass
class Protection:
    """The protection of the default branch."""

    checks: tuple[str, ...] = ()
    reviews: bool = False


@dataclass(eq=False)
class Repository(Thing):
    owner: User
    name: str
    path: Path
    default_branch: str = "main"
    archived: bool = False
    private: bool = True
    parent: Repository | None = None
    deleted: bool = False
    protection: Protection = field(default_factory=Protection)
    numbered: dict[int, Issue | PullRequest] = field(default_factory=dict)
    suites: list[CheckSuite] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    known_heads: dict[str, str] = field(default_factory=dict)
    checks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    created_at: datetime = field(default_factory=now)
    pushed_at: datetime = field(default_factory=now)

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    @property
    def pulls(self) -> list[PullRequest]:
        return [one for one in self.numbered.values() if isinstance(one, PullRequest)]

    @property
    def issues(self) -> list[Issue]:
        return [one for one in self.numbered.values() if isinstance(one, Issue)]


@dataclass(eq=False)
class Comment(Thing):
    subject: Issue | PullRequest
    author: User
    body: str
    created_at: datetime
    updated_at: datetime


@dataclass(eq=False)
class Issue(Thing):
    repository: Repository
    number: int
    title: str
    body: str
    author: User
    created_at: datetime
    updated_at: datetime
    state: Literal["OPEN", "CLOSED"] = "OPEN"
    state_reason: Literal["COMPLETED", "NOT_PLANNED", "REOPENED", "DUPLICATE"] | None = None
    closed_at: datetime | None = None
    comments: list[Comment] = field(default_factory=list)


@dataclass(frozen=True)
class Push:
    """The head moved. ``visible_at`` is when the API begins to show it."""

    oid: str
    before: str | None
    at: datetime
    visible_at: datetime
    forced: bool
    by: User | None = None


@dataclass(eq=False)
class ForcePush(Thing):
    """The event in the timeline of a pull request."""

    pull: PullRequest
    before: str
    after: str
    actor: User
    created_at: datetime


@dataclass(eq=False)
class PullCommit(Thing):
    """A commit as a part of a pull request."""

    pull: PullRequest
    oid: str


@dataclass(eq=False)
class CommitNode(Thing):
    repository: Repository
    oid: str


@dataclass(eq=False)
class ReviewRequest(Thing):
    pull: PullRequest
    user: User
    created_at: datetime


@dataclass(eq=False)
class RequestEvent(Thing):
    """A review was asked for, or the asking was taken back (``removed``): in the timeline."""

    pull: PullRequest
    actor: User
    user: User
    created_at: datetime
    removed: bool = False


@dataclass(eq=False)
class ReviewComment(Thing):
    thread: Thread
    review: Review
    author: User
    body: str
    created_at: datetime
    reply_to: ReviewComment | None = None


@dataclass(eq=False)
class Thread(Thing):
    """A review thread on a line; ``commit`` is the head that it was begun on."""

    pull: PullRequest
    path: str
    line: int
    start_line: int | None
    side: Literal["RIGHT", "LEFT"]
    commit: str
    hunk: str
    comments: list[ReviewComment] = field(default_factory=list)
    resolved_by: User | None = None


@dataclass(eq=False)
class Review(Thing):
    pull: PullRequest
    author: User
    body: str
    state: ReviewState
    commit: str
    created_at: datetime
    submitted_at: datetime | None = None

    @property
    def comments(self) -> list[ReviewComment]:
        return [one for thread in self.pull.threads for one in thread.comments if one.review is self]


@dataclass(eq=False)
class PullRequest(Thing):
    repository: Repository
    number: int
    title: str
    body: str
    author: User
    head_repository: Repository | None
    head_owner: str
    head_branch: str
    base_branch: str
    base_oid: str
    created_at: datetime
    updated_at: datetime
    draft: bool = False
    state: Literal["OPEN", "CLOSED", "MERGED"] = "OPEN"
    closed_at: datetime | None = None
    merged_at: datetime | None = None
    merged_by: User | None = None
    merge_oid: str | None = None
    pushes: list[Push] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    requests: list[ReviewRequest] = field(default_factory=list)
    request_events: list[RequestEvent] = field(default_factory=list)
    force_pushes: list[ForcePush] = field(default_factory=list)
    commit_nodes: dict[str, PullCommit] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The head that the API shows now."""
        moment = now()
        return next(push.oid for push in reversed(self.pushes) if push.visible_at <= moment)

    def visible_reviews(self, viewer: User) -> list[Review]:
        """Oldest first; a pending one for its author alone."""
        return [one for one in self.reviews if one.state != "PENDING" or one.author is viewer]

    def visible_threads(self, viewer: User) -> list[Thread]:
        return [one for one in self.threads if self.visible_comments(one, viewer)]

    @staticmethod
    def visible_comments(thread: Thread, viewer: User) -> list[ReviewComment]:
        return [one for one in thread.comments if one.review.state != "PENDING" or one.review.author is viewer]


@dataclass(eq=False)
class Workflow(Thing):
    repository: Repository
    name: str


@dataclass(eq=False)
class WorkflowRun(Thing):
    suite: CheckSuite
    workflow: Workflow
    run_number: int
    event: str = "push"


@dataclass(eq=False)
class CheckSuite(Thing):
    """The runs of one app for one push; ``workflow_run`` where the app is GitHub Actions."""

    repository: Repository
    oid: str
    branch: str | None
    app: str
    created_at: datetime
    workflow_run: WorkflowRun | None = None
    runs: list[CheckRun] = field(default_factory=list)


@dataclass(eq=False)
class CheckRun(Thing):
    suite: CheckSuite
    name: str
    status: Literal["QUEUED", "IN_PROGRESS", "COMPLETED"]
    conclusion: str | None
    visible_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    details_url: str | None = None
    title: str | None = None
    summary: str | None = None
    log: str = ""


@dataclass(eq=False)
class Status(Thing):
    """A commit status, as older services give them."""

    repository: Repository
    oid: str
    context: str
    state: Literal["EXPECTED", "ERROR", "FAILURE", "PENDING", "SUCCESS"]
    description: str | None
    target_url: str | None
    creator: User
    created_at: datetime


@dataclass
class World:
    """Everything, behind ``lock``. ``head_lag`` is for how many seconds after a push the API shows the old head."""

    host: str = "github.com"
    users: dict[str, User] = field(default_factory=dict)
    repositories: dict[str, Repository] = field(default_factory=dict)
    nodes: dict[str, Thing] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    head_lag: float = 0.0
    _last_id: int = 1000

    def make(self, kind: type[Any], prefix: str, **values: Any) -> Any:
        """A new thing with its ids."""
        self._last_id += 1
        tail = base64.urlsafe_b64encode(f"{prefix}:{self._last_id}".encode()).decode().rstrip("=")
        thing = kind(id=self._last_id, node_id=f"{prefix}_kwDO{tail}", **values)
        self.nodes[thing.node_id] = thing
        return thing

    # --- who and where ---

    def add_user(self, login: str, token: str | None = None, name: str | None = None) -> User:
        with self.lock:
            if login.lower() not in self.users:
                made = self.make(
                    User, "U", login=login, token=token or f"gho_standin{login}", name=name or login.title()
                )
                self.users[login.lower()] = made
            return self.users[login.lower()]

    def user_of_token(self, token: str) -> User | None:
        return next((user for user in self.users.values() if user.token == token), None)

    def add_repository(self, full_name: str, path: Path, **more: Any) -> Repository:
        with self.lock:
            owner, _, name = full_name.partition("/")
            values = {"owner": self.add_user(owner), "name": name, "path": path, **more}
            made: Repository = self.make(Repository, "R", **values)
            made.known_heads = bare.heads(path)
            self.repositories[full_name.lower()] = made
            return made

    def repository(self, full_name: str) -> Repository | None:
        found = self.repositories.get(full_name.lower())
        return None if found is None or found.deleted else found

    def pull_commit(self, pull: PullRequest, oid: str) -> PullCommit:
        if oid not in pull.commit_nodes:
            pull.commit_nodes[oid] = self.make(PullCommit, "PURC", pull=pull, oid=oid)
        return pull.commit_nodes[oid]

    def next_number(self, repository: Repository) -> int:
        return max(repository.numbered, default=0) + 1

    # --- heads ---

    def refresh(self, by: User | None = None) -> list[tuple[Repository, str, str]]:
        """Read the branches again; note what moved. Answers (repository, branch, new head) of what was pushed."""
        with self.lock:
            moved = []
            for repository in self.repositories.values():
                for branch, oid in self._moves(repository):
                    moved.append((repository, branch, oid))
                    self._note(repository, branch, oid, by)
            return moved

    def _moves(self, repository: Repository) -> Iterator[tuple[str, str]]:
        if repository.deleted:
            return
        found, known = bare.heads(repository.path), repository.known_heads
        repository.known_heads = found
        for branch, oid in found.items():
            if known.get(branch) != oid:
                yield branch, oid

    def _note(self, repository: Repository, branch: str, oid: str, by: User | None) -> None:
        moment = now()
        repository.pushed_at = moment
        for target in self.repositories.values():
            for pull in target.pulls:
                if pull.head_repository is repository and pull.head_branch == branch and pull.state == "OPEN":
                    self.note_push(pull, oid, moment, by)

    def note_push(self, pull: PullRequest, oid: str, moment: datetime, by: User | None) -> None:
        """The head of an open pull request is another one from now on."""
        before = pull.pushes[-1].oid if pull.pushes else None
        if before == oid:
            return
        path = pull.repository.path
        if pull.head_repository is not None and pull.head_repository is not pull.repository:
            bare.git(path, "fetch", "--quiet", str(pull.head_repository.path), oid)
        bare.set_ref(path, f"refs/pull/{pull.number}/head", oid)
        forced = before is not None and not bare.is_ancestor(path, before, oid)
        visible = moment + timedelta(seconds=self.head_lag if before else 0)
        pull.pushes.append(Push(oid, before, moment, visible, forced, by))
        pull.updated_at = moment
        pull.base_oid = bare.heads(path).get(pull.base_branch, pull.base_oid)
        if forced and before is not None:
            event = {"before": before, "after": oid, "actor": by or pull.author, "created_at": moment}
            pull.force_pushes.append(self.make(ForcePush, "HRFPE", pull=pull, **event))
