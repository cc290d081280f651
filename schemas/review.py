"""A review: what goes in (the packet), what each step reports, and what comes out."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import Frozen
from schemas.finding import Finding
from schemas.forge import Issue, PullRequest


class Verdict(StrEnum):
    """The outcome of a review."""

    APPROVE = "approve"
    CHANGES = "changes_requested"


class StepReport(Frozen):
    """What one step of a review found. A step that could not run says so; it never means "no findings"."""

    step: str
    outcome: Literal["ran", "could_not_run", "not_configured"]
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    seconds: float = Field(default=0.0, ge=0)


class EarlierReview(Frozen):
    """What an earlier review of this pull request asked for, so that a re-review checks that first."""

    cycle: int
    head: str
    findings: tuple[Finding, ...]


class ReviewPacket(Frozen):
    """All that a step may read: also the JSON that a judging reviewer gets on its standard input."""

    review_id: str
    cycle: int
    pane: int
    pr: PullRequest
    head: str
    base: str
    issue: Issue | None = None
    diff: str = ""
    changed_files: tuple[str, ...] = ()
    earlier: tuple[EarlierReview, ...] = ()
    checkout: str = Field(description="absolute path of a scratch worktree at the head")
    lenses: dict[str, str] = Field(
        default_factory=dict, description="lens = angle: what a judging reviewer is asked to look through, too"
    )


class Review(Frozen):
    """A finished review of exactly this head and base."""

    review_id: str
    cycle: int
    head: str
    base: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    steps: tuple[StepReport, ...] = ()
    reviewer: str = "conductor"
    angles: tuple[str, ...] = Field(default=(), description="the angles that its steps covered")
    lenses: tuple[str, ...] = Field(default=(), description="the configured lenses that they covered")
    limitations: tuple[str, ...] = Field(default=(), description="what it could not do, such as lenses left out")

    @property
    def blocking(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.blocking)
