"""Step ``scan:NAME``: each configured scanner that prints SARIF or rdjson, and ruff where a project is
Python.

Results are kept to the lines that the pull request changes. A configured command is run as it stands; where
one of its arguments is ``{files}``, the changed files stand there instead (as ``./path``, so that none is
taken for an option).
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from conductor.core.diff import FileChange, parse_diff
from conductor.core.severity import rate, spoils_whole_file
from conductor.ports import ReviewStep
from conductor.review.context import Budget, StepContext, run_tool, tool_environment
from conductor.review.sarif import ToolResult, on_changed_lines, read_results
from schemas.errors import Fault
from schemas.finding import Finding
from schemas.review import ReviewPacket, StepReport

FILES = "{files}"
MOST_ARGUMENT_BYTES = 60_000
"""Of file names on one command line; more files than that are scanned in several runs."""

RUFF_ARGUMENTS = (
    "check", "--no-cache", "--force-exclude", "--exit-zero", "--output-format", "sarif", "--", FILES
)  # fmt: skip


@dataclass
class ScanStep:
    """One scanner. ``suffixes`` narrows the changed files that it is for; empty: all of them."""

    name: str
    tool: str
    argv: tuple[str, ...]
    context: StepContext
    suffixes: tuple[str, ...] = ()

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        budget = Budget(self.context.config.review.step_timeout)
        checkout = Path(packet.checkout)
        changes = {change.path: change for change in parse_diff(packet.diff)}
        files = [path for path in changes if self._is_for(changes[path], checkout)]
        if not files:
            return budget.report(self.name, detail="no changed file of its kind")
        try:
            results = [
                result
                for argv in command_lines(self.argv, files)
                for result in self._scan(argv, checkout, budget, cancelled)
            ]
        except Fault as fault:
            return budget.report(self.name, problems=[str(fault)])
        findings = tuple(self._findings(results, changes))
        return budget.report(
            self.name,
            findings=findings,
            detail=f"{len(results)} results in {len(files)} changed files, {len(findings)} on changed lines",
        )

    def _is_for(self, change: FileChange, checkout: Path) -> bool:
        path = checkout / change.path
        # A link is not followed: what it points to is not part of the pull request.
        return (
            change.status != "deleted"
            and change.path.endswith(self.suffixes or "")
            and path.is_file()
            and not path.is_symlink()
        )

    def _scan(
        self, argv: Sequence[str], checkout: Path, budget: Budget, cancelled: Callable[[], bool]
    ) -> list[ToolResult]:
        outcome = run_tool(self.context, argv, checkout, budget, cancelled)
        text = outcome.data.decode("utf-8", "replace")
        try:
            return read_results(text, checkout, tool=self.tool)
        except Fault as fault:
            said = outcome.errors.strip().splitlines()[-3:]
            words = f"\n{self.tool} ended with {outcome.ending()}" + (f": {' | '.join(said)}" if said else "")
            raise type(fault)(fault.what + words, fault.hint) from fault

    def _findings(self, results: Iterable[ToolResult], changes: dict[str, FileChange]) -> Iterator[Finding]:
        for result in results:
            change = changes.get(result.path)
            if change is None:
                continue
            line = on_changed_lines(result, change.changed_lines)
            if line is None and spoils_whole_file(result.rule):
                line = max(1, result.line)
            if line is None:
                continue
            rating = rate(result.tool, result.rule, result.level, result.security_severity)
            yield Finding(
                path=result.path,
                line=line,
                severity=rating.severity,
                message=result.message,
                impact=rating.impact,
                rule=f"{self.tool}:{result.rule}",
                step=self.name,
            )


def command_lines(argv: Sequence[str], files: Sequence[str]) -> list[list[str]]:
    """The command with the files in the place of ``{files}``: as many lines as their names need, or one
    without it.
    """
    if FILES not in argv:
        return [list(argv)]
    place = list(argv).index(FILES)
    batches: list[list[str]] = [[]]
    size = 0
    for name in (f"./{path}" for path in files):
        size += len(name.encode("utf-8", "replace")) + 1
        if size > MOST_ARGUMENT_BYTES and batches[-1]:
            batches.append([])
            size = len(name.encode("utf-8", "replace")) + 1
        batches[-1].append(name)
    return [[*argv[:place], *batch, *argv[place + 1 :]] for batch in batches]


def scanners(context: StepContext) -> list[ReviewStep]:
    """A step for each configured scanner, and for ruff where it is there and no configured one is called
    so.
    """
    steps: list[ReviewStep] = [
        ScanStep(f"scan:{name}", name, argv, context) for name, argv in context.config.review.sarif.items()
    ]
    if "ruff" not in context.config.review.sarif:
        program = find_ruff(context)
        if program is not None:
            argv = (*program, *RUFF_ARGUMENTS)
            steps.append(ScanStep("scan:ruff", "ruff", argv, context, (".py", ".pyi")))
    return steps


def find_ruff(context: StepContext) -> tuple[str, ...] | None:
    """How to start ruff: the project's own, the one on PATH, or the one installed beside this program."""
    path = tool_environment(context.root, context.root)["PATH"]
    found = shutil.which("ruff", path=path)
    if found:
        return (found,)
    return (sys.executable, "-m", "ruff") if importlib.util.find_spec("ruff") else None
