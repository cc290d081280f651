"""Findings of a review: where, how severe, why it matters, who says so."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from schemas.base import Frozen


class Severity(StrEnum):
    """Code review severities (review protocol, severity classification). Not incident levels."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return list(Severity).index(self)

    @property
    def blocks(self) -> bool:
        """Critical always blocks an approval; high blocks unless it was deferred."""
        return self in (Severity.CRITICAL, Severity.HIGH)


class Deferral(Frozen):
    """A high finding that was explicitly accepted for later: why, and the issue that follows it up."""

    reason: str = Field(min_length=1)
    follow_up_issue: int = Field(ge=1)


class Finding(Frozen):
    """One finding. ``path`` is relative to the repository; ``line`` counts from 1 in the new file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str = Field(min_length=1)
    line: int = Field(ge=1)
    severity: Severity
    message: str = Field(min_length=1)
    impact: str = Field(min_length=1)
    rule: str = Field(min_length=1, description="the rule or reviewer that raised it, e.g. ruff:F401")
    step: str = ""
    deferred: Deferral | None = None

    @model_validator(mode="after")
    def _only_high_can_be_deferred(self) -> Self:
        if self.deferred is not None and self.severity is Severity.CRITICAL:
            raise ValueError("a critical finding cannot be deferred")
        return self

    @property
    def location(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def fingerprint(self) -> str:
        """Names the same finding across reviews although lines move: rule, path and message."""
        return f"{self.rule}|{self.path}|{self.message.casefold()}"

    @property
    def blocking(self) -> bool:
        return self.severity.blocks and self.deferred is None
