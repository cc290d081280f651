"""A project in a real repository with a base and a head, and the packet and worktrees that a review gets of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from conductor.core.diff import parse_diff
from conductor.ports import ReviewRequest, ReviewStep
from conductor.review.changes import diff_of
from conductor.review.context import DetectedCommand, StepContext
from schemas.config import Config
from schemas.finding import Finding
from schemas.forge import Issue, PullRequest
from schemas.review import ReviewPacket, StepReport
from tests.support.repos import git, make_repository
from worker.tools.process import run

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PYTHON = sys.executable


def never() -> bool:
    return False


@dataclass
class Project:
    """A repository whose branch ``work`` is ahead of ``main``; checked out at ``work``."""

    root: Path
    base: str = ""
    body: str = ""
    issue: Issue | None = None
    detected: Mapping[str, DetectedCommand] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, base: Mapping[str, str | bytes], head: Mapping[str, str | bytes | None]) -> Project:
        """``base`` and ``head`` give files by path; None in ``head`` deletes one."""
        root = make_repository(folder / "pro ject")
        made = cls(root)
        made.write(base)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--allow-empty", "-m", "Base")
        made.base = git(root, "rev-parse", "HEAD")
        git(root, "switch", "--quiet", "-c", "work")
        made.write(head)
        git(root, "add", "--all", "--force")
        git(root, "commit", "--quiet", "--allow-empty", "-m", "Work")
        return made

    @property
    def head(self) -> str:
        return git(self.root, "rev-parse", "HEAD")

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)

    def context(self, **review: object) -> StepContext:
        config = Config.model_validate({"review": review})
        return StepContext(config, self.root, lambda checkout, root: self.detected)

    def pull_request(self) -> PullRequest:
        return PullRequest(
            number=7,
            title="Work",
            body=self.body,
            author="worker-one",
            state="open",
            head_branch="work",
            head=self.head,
            base_branch="main",
            base=self.base,
            created_at=NOW,
            updated_at=NOW,
        )

    def packet(self) -> ReviewPacket:
        diff = diff_of(self.root, self.base, self.head, run)
        return ReviewPacket(
            review_id="r-1",
            cycle=0,
            pane=1,
            pr=self.pull_request(),
            head=self.head,
            base=self.base,
            issue=self.issue,
            diff=diff,
            changed_files=tuple(change.path for change in parse_diff(diff)),
            checkout=str(self.root),
        )

    def request(self, **more: object) -> ReviewRequest:
        given: dict[str, object] = {
            "review_id": "r-1",
            "pane": 1,
            "cycle": 0,
            "pr_number": 7,
            "head": self.head,
            "base": self.base,
            "issue": None,
            "earlier": (),
        }
        return ReviewRequest(**{**given, **more})  # type: ignore[arg-type]


def only_step(steps: list[ReviewStep]) -> ReviewStep:
    assert len(steps) == 1
    return steps[0]


def found(report: StepReport) -> list[tuple[str, str, str]]:
    """(location, severity, rule) of each finding."""
    return [(f.location, str(f.severity), f.rule) for f in report.findings]


def checked(findings: tuple[Finding, ...]) -> None:
    """Every finding says where and why."""
    assert all(f.path and f.line >= 1 and f.impact and f.rule and f.step for f in findings)


def script(folder: Path, name: str, code: str) -> tuple[str, str]:
    """A Python program and how to run it."""
    path = folder / name
    path.write_text(code, encoding="utf-8")
    return (PYTHON, str(path))
