"""Step ``hygiene``: files that are taskmaestro's own must not be in any commit of the pull request.

``RESULT.json`` and ``TASK.md`` at the top and whatever lies in ``.taskmaestro/`` but the shared settings
(contracts, "Files in a managed repository"). Looked for in each commit, since one may add what the next takes
out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conductor.core.diff import parse_diff
from conductor.ports import Cancelled, ReviewStep
from conductor.review.changes import committed_paths
from conductor.review.context import Budget, StepContext
from schemas.errors import Fault
from schemas.finding import Finding, Severity
from schemas.review import ReviewPacket, StepReport
from worker.tools.git import is_private


@dataclass
class HygieneStep:
    """Private files in the commits."""

    context: StepContext
    name: str = "hygiene"

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        if cancelled():
            raise Cancelled
        budget = Budget(self.context.config.review.step_timeout)
        try:
            paths = committed_paths(Path(packet.checkout), packet.base, packet.head, self.context.run)
        except Fault as fault:
            return budget.report(self.name, problems=[str(fault)])
        # A merge commit lists no paths of its own, so what is there at the end counts as well.
        present = {change.path for change in parse_diff(packet.diff) if change.status != "deleted"}
        private = sorted(path for path in paths | present if is_private(path))
        return budget.report(
            self.name,
            findings=[self._finding(path) for path in private],
            detail=f"{len(paths)} paths in the commits",
        )

    def _finding(self, path: str) -> Finding:
        return Finding(
            path=path,
            line=1,
            severity=Severity.HIGH,
            message=f"A commit contains {path}, which is private to taskmaestro",
            impact="Merged, it stands for a result or a task in every later worktree.",
            rule="hygiene:private-file",
            step=self.name,
        )


def hygiene(context: StepContext) -> list[ReviewStep]:
    """The one step of this module."""
    return [HygieneStep(context)]
