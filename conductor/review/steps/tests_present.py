"""Step ``tests_present``: new logic without any test in the same change.

New functions, or more than ``TRIVIAL_LINES`` new lines of logic, without any added test are ``high`` (review
protocol: missing test for new non-trivial logic); fewer are ``medium`` (non-critical test gap). Documents,
configuration, generated files, tests and deletions need none; lines that only moved are not new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conductor.core.diff import FileChange, parse_diff
from conductor.core.filekinds import added_functions, adds_tests, logic_lines, removed_texts
from conductor.ports import Cancelled, ReviewStep
from conductor.review.context import Budget, StepContext
from schemas.finding import Finding, Severity
from schemas.review import ReviewPacket, StepReport

TRIVIAL_LINES = 2


@dataclass(frozen=True)
class NewLogic:
    """What one file adds: lines of logic, and the functions that begin there."""

    path: str
    line: int
    lines: int
    functions: tuple[str, ...]


@dataclass
class TestsPresentStep:
    """New code without any test."""

    context: StepContext
    name: str = "tests_present"
    __test__ = False  # not a class of tests, whatever its name looks like

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        if cancelled():
            raise Cancelled
        budget = Budget(self.context.config.review.step_timeout)
        changes = parse_diff(packet.diff)
        tested = [change.path for change in changes if adds_tests(change)]
        logic = new_logic(changes)
        total = sum(item.lines for item in logic)
        detail = f"{total} new lines of logic in {len(logic)} files; {len(tested)} files add tests"
        findings = [] if tested or not logic else [self._finding(logic, total)]
        return budget.report(self.name, findings=findings, detail=detail)

    def _finding(self, logic: list[NewLogic], total: int) -> Finding:
        functions = [name for item in logic for name in item.functions]
        trivial = not functions and total <= TRIVIAL_LINES
        where = max(logic, key=lambda item: (bool(item.functions), item.lines))
        named = f" (new: {', '.join(functions[:5])})" if functions else ""
        return Finding(
            path=where.path,
            line=where.line,
            severity=Severity.MEDIUM if trivial else Severity.HIGH,
            message=f"The change adds logic and no test at all{named}",
            impact="Nothing shows that the new code works, and nothing will show when it stops working.",
            rule="tests:none-added",
            step=self.name,
        )


def new_logic(changes: tuple[FileChange, ...]) -> list[NewLogic]:
    """The logic that each source file adds, moved lines left out."""
    moved = removed_texts(changes)
    found = []
    for change in changes:
        lines = logic_lines(change, moved)
        if lines:
            numbers = {line.number for line in lines}
            functions = tuple(name for number, name in added_functions(change) if number in numbers)
            found.append(NewLogic(change.path, lines[0].number, len(lines), functions))
    return found


def tests_present(context: StepContext) -> list[ReviewStep]:
    """The one step of this module."""
    return [TestsPresentStep(context)]
