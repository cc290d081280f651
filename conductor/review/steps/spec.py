"""Step ``spec``: the issue's acceptance criteria against what the pull request's body claims for each.

Its findings point into the pull request's body or the issue, which have no path in the repository: they say
``(pull request body)`` or ``(issue #N)`` and the line there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conductor.core.diff import parse_diff
from conductor.core.filekinds import FileKind, kind_of
from conductor.core.spec import Gap, claims, criteria, gaps
from conductor.ports import Cancelled, ReviewStep
from conductor.review.context import Budget, StepContext
from schemas.finding import Finding, Severity
from schemas.review import ReviewPacket, StepReport

MOST_TEST_FILE_BYTES = 2 * 1024 * 1024
_UNREAD = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", "dist"})

_IMPACT = {
    "no claim": "Nobody says that this was done: the issue would be closed with a part of it open.",
    "unchecked": "The author's own list says that this is not done.",
    "no evidence": "It cannot be verified: nothing shows where it was done or that it works.",
    "evidence not found": "What should prove it is neither in the diff nor in the checkout.",
}


@dataclass
class SpecStep:
    """Spec compliance, read from texts alone."""

    context: StepContext
    name: str = "spec"

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        if cancelled():
            raise Cancelled
        budget = Budget(self.context.config.review.step_timeout)
        if packet.issue is None:
            return self._not_configured("the task has no issue")
        wanted = criteria(packet.issue.body)
        if not wanted:
            return self._not_configured(f"issue #{packet.issue.number} has no acceptance criteria")
        tree = _Tree(Path(packet.checkout), packet.diff)
        missing = gaps(
            wanted,
            claims(packet.pr.body),
            issue=f"(issue #{packet.issue.number})",
            exists=tree.exists,
            has_test=tree.has_test,
        )
        return budget.report(
            self.name,
            findings=[self._finding(gap) for gap in missing],
            detail=f"{len(wanted) - len(missing)} of {len(wanted)} criteria claimed with evidence",
        )

    def _not_configured(self, why: str) -> StepReport:
        return StepReport(step=self.name, outcome="not_configured", detail=why)

    def _finding(self, gap: Gap) -> Finding:
        return Finding(
            path=gap.path,
            line=gap.line,
            severity=Severity.HIGH,
            message=gap.message,
            impact=_IMPACT[gap.kind],
            rule=f"spec:{gap.kind.replace(' ', '-')}",
            step=self.name,
        )


class _Tree:
    """What a claim's evidence is looked up in: the diff, then the checkout."""

    def __init__(self, checkout: Path, diff: str) -> None:
        self._checkout = checkout
        self._changes = parse_diff(diff)
        self._changed = {name for change in self._changes for name in (change.path, change.old_path) if name}
        self._tests: list[str] | None = None

    def exists(self, name: str) -> bool:
        path = (self._checkout / name).resolve()
        inside = path.is_relative_to(self._checkout.resolve())
        bare = "/" not in name and any(changed.endswith(f"/{name}") for changed in self._changed)
        return name in self._changed or bare or (inside and path.exists())

    def has_test(self, name: str) -> bool:
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        added = (line.text for change in self._changes for line in change.added)
        return any(pattern.search(text) for text in added) or any(pattern.search(text) for text in self._test_files())

    def _test_files(self) -> list[str]:
        if self._tests is None:
            self._tests = []
            for folder, folders, files in os.walk(self._checkout):
                folders[:] = [name for name in folders if name not in _UNREAD]
                paths = [Path(folder, name) for name in files]
                self._tests += [_read(path) for path in paths if self._is_test(path)]
        return self._tests

    def _is_test(self, path: Path) -> bool:
        return kind_of(path.relative_to(self._checkout).as_posix()) is FileKind.TEST and _is_plain(path)


def _is_plain(path: Path) -> bool:
    """A file, not a link to one, a FIFO or a device: those belong to somebody else or never end."""
    return path.is_file() and not path.is_symlink()


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MOST_TEST_FILE_BYTES).decode("utf-8", "replace")


def spec(context: StepContext) -> list[ReviewStep]:
    """The one step of this module."""
    return [SpecStep(context)]
