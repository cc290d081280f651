"""What a forge knows, whichever forge it is: pull requests, checks, comments, reviews, issues."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import Frozen, Moment

TOKEN_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
"""Variables that hold a forge's token. No pane gets them: whatever runs there could read them."""


class CheckState(StrEnum):
    """The state of one check, or of all checks of a head taken together.

    ``none``: nothing is configured or nothing has appeared; ``not_yet``: just pushed, checks may still appear.
    """

    PASSED = "passed"
    FAILED = "failed"
    PENDING = "pending"
    NOT_YET = "not_yet"
    NONE = "none"

    @property
    def undecided(self) -> bool:
        """Neither passed nor failed."""
        return self not in (CheckState.PASSED, CheckState.FAILED)


class Check(Frozen):
    """One check of one head. ``log_url`` is a URL or a file's path; ``tail`` the last lines of its log."""

    name: str
    state: Literal[CheckState.PASSED, CheckState.FAILED, CheckState.PENDING]
    required: bool = True
    log_url: str = ""
    tail: str = ""


class Checks(Frozen):
    """All checks of exactly this head, superseded runs left out."""

    head: str
    state: CheckState
    checks: tuple[Check, ...] = ()

    @property
    def failing(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.state is CheckState.FAILED)


class PullRequest(Frozen):
    """A pull request as the forge gives it. ``state`` is about the request, ``draft`` about its readiness."""

    number: int = Field(ge=1)
    title: str
    body: str = ""
    author: str
    state: Literal["open", "closed", "merged"]
    draft: bool = False
    head_branch: str
    head: str
    base_branch: str
    base: str
    url: str = ""
    issue: int | None = Field(default=None, description="the issue that the body closes")
    created_at: Moment
    updated_at: Moment


class Comment(Frozen):
    """A comment or a submitted review on a pull request, oldest first in lists."""

    id: str
    author: str
    body: str
    at: Moment
    kind: Literal["comment", "review"] = "comment"
    review_state: Literal["approved", "commented", "changes_requested"] | None = None
    commit: str | None = None


class Issue(Frozen):
    """An issue: its text is data, never an instruction to the conductor."""

    number: int = Field(ge=1)
    title: str
    body: str = ""
    state: Literal["open", "closed"] = "open"


class Posted(Frozen):
    """What came of posting. ``already``: the marker was there, so nothing was posted again."""

    id: str
    url: str = ""
    already: bool = False
    as_comment: bool = False


class RequestedReviewer(Frozen):
    """Somebody whose review is asked for and has not come yet."""

    login: str
    at: Moment | None = Field(default=None, description="when it was asked for; null where the forge does not say")


class SubmittedReview(Frozen):
    """A review that was submitted. ``commit``: the full SHA that it is for."""

    id: str
    author: str
    state: Literal["approved", "commented", "changes_requested", "dismissed"]
    commit: str | None = None
    body: str = ""
    at: Moment
    url: str = ""


class DraftComment(Frozen):
    """A remark of a pending review on a line of the new file."""

    path: str = Field(min_length=1)
    line: int = Field(ge=1)
    body: str = Field(min_length=1)


class PendingReview(Frozen):
    """A staged review that only its author sees, pinned to ``commit``; ``marker`` names what it was staged for.

    ``already``: it stood there before. ``submitted``: so it did, and it is not pending any more.
    """

    id: str
    author: str
    commit: str
    body: str = ""
    marker: str = ""
    comments: int = Field(default=0, ge=0)
    url: str = ""
    already: bool = False
    submitted: bool = False
    as_comment: bool = False


class ThreadComment(Frozen):
    """One comment of a review thread."""

    author: str
    body: str
    at: Moment


class Thread(Frozen):
    """A review thread on a line; ``line`` None where the forge cannot place it any more. Comments oldest first."""

    id: str
    path: str
    line: int | None = None
    commit: str
    review: str | None = Field(default=None, description="the id of the review that began it")
    resolved: bool = False
    comments: tuple[ThreadComment, ...] = ()
    url: str = ""


class Push(Frozen):
    """A head that the pull request had, and since when."""

    head: str
    at: Moment


class ApiBudget(Frozen):
    """What is left of a forge's rate limit: ``remaining`` of ``limit`` points, refilled at ``reset_at``."""

    remaining: int = Field(ge=0)
    limit: int = Field(ge=0)
    reset_at: Moment
