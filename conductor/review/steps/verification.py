"""Step ``verification``: the project's own format, lint, type and test commands, in a checkout of the head.

A failure is ``critical`` where the build or the tests break, else ``high`` (review protocol). Tests or a
build that do not end within the step's time are ``critical`` too: the worker can mend that, and nothing can
be merged on tests that never end. A linter or type checker that does not end, and a program that is missing,
is "could not run".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conductor.core.diff import first_place, parse_diff
from conductor.ports import Cancelled, ReviewStep
from conductor.review.changes import restore
from conductor.review.context import Budget, DetectedCommand, ProjectCommand, StepContext, tool_environment
from conductor.review.located import Place, failed_tests, places
from schemas.config import BatteryConfig
from schemas.errors import Fault
from schemas.finding import Finding, Severity
from schemas.review import ReviewPacket, StepReport
from schemas.text import one_line
from worker.tools.process import Outcome

SLOTS = ("format", "lint", "types", "test")
MOST_FINDINGS = 10
"""Of one command; the others are counted in the report."""
LEAST_SHARE_OF_TIME = 0.1
"""Of the step's time that must be left for a command: with less, a time-out would say nothing about it."""
TAIL_LINES = 30
TAIL_CHARACTERS = 4_000
NO_TESTS_COLLECTED = 5
"""pytest's exit code."""

_WORKING_NAMES = re.compile(r"(?i)\b(tests?|spec|build|compile|check-?build|e2e|unit|integration)\b")
_WORKING_PROGRAMS = re.compile(
    r"(?i)\b(pytest|unittest|nose2|tox|nox|jest|vitest|mocha|ava|karma|playwright|cypress|ctest|rspec|phpunit|make)\b"
    r"|\b(?:go|cargo|npm|yarn|pnpm|bun|mvn|gradle\w*|dotnet|swift|mix|zig)\s+(?:run\s+)?(?:test|build|check|verify|vet)\b"
)
_PROGRAM_MISSING = re.compile(
    r"(?m)No module named '?(?:pytest|ruff|mypy|pyright|unittest2|nose2?|tox|nox|flake8|pylint|black|isort)\b"
    r"|^(?:/bin/)?(?:ba|da)?sh: (?:\d+: |line \d+: )?[\w.@/-]+: (?:command )?not found\s*$"
    r"|^[\w-]+: command not found\s*$|^npm (?:ERR!|error) could not determine executable to run"
)
_NOT_RUN_CODES = (126, 127)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_DURATION = re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|secs?|seconds?|minutes?)\b")


@dataclass
class VerificationStep:
    """All verification commands, one after the other, since builds in one checkout get in each other's
    way.
    """

    context: StepContext
    name: str = "verification"

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        budget = Budget(self.context.config.review.step_timeout)
        checkout = Path(packet.checkout)
        try:
            commands = self._commands(checkout)
        except Fault as fault:
            return budget.report(self.name, problems=[str(fault)])
        if not commands:
            detail = "no verification command is configured, and none was detected in the project"
            return StepReport(step=self.name, outcome="not_configured", detail=detail)
        work = _Work(self.context, checkout, packet, budget, cancelled, self.name)
        for name, command in commands.items():
            work.verify(name, command)
        return budget.report(self.name, problems=work.problems, findings=work.findings, detail="\n".join(work.notes))

    def _commands(self, checkout: Path) -> dict[str, ProjectCommand]:
        """The configured commands, or else the battery: its own settings over what is detected in the
        checkout.
        """
        configured = self.context.config.review.verification
        if configured:
            return {name: ProjectCommand(argv) for name, argv in configured.items()}
        return battery_commands(self.context.config.battery, self.context.detect(checkout, self.context.root))


def battery_commands(settings: BatteryConfig, detected: Mapping[str, DetectedCommand]) -> dict[str, ProjectCommand]:
    """What the battery would run, in the form that changes no file where one is known.

    A configured command that is the detected one (``init`` writes those down) has that form too.
    """
    commands = {}
    for slot in SLOTS:
        given: tuple[str, ...] | None = getattr(settings, slot)
        known = detected.get(slot)
        if slot in settings.skip:
            continue
        if given is not None and (known is None or given != known.argv):
            commands[slot] = ProjectCommand(given, changes_files=slot in ("format", "lint"))
        elif known is not None:
            changes = known.check is None and slot in ("format", "lint")
            commands[slot] = ProjectCommand(known.check or known.argv, known.env, changes)
    return commands


class _Work:
    """One run of the commands, and what comes of it."""

    def __init__(
        self,
        context: StepContext,
        checkout: Path,
        packet: ReviewPacket,
        budget: Budget,
        cancelled: Callable[[], bool],
        step: str,
    ) -> None:
        self._context = context
        self._checkout = checkout
        self._changed = packet.changed_files
        self._fallback = first_place(parse_diff(packet.diff))
        self._budget = budget
        self._cancelled = cancelled
        self._step = step
        self.findings: list[Finding] = []
        self.problems: list[str] = []
        self.notes: list[str] = []

    def verify(self, name: str, command: ProjectCommand) -> None:
        shown = one_line(" ".join(command.argv), 120)
        left = self._budget.left
        if left <= self._budget.seconds * LEAST_SHARE_OF_TIME:
            self.problems.append(f"{name} (`{shown}`) was not run: the commands before it used up the step's time")
            return
        try:
            outcome = self._context.run(
                command.argv,
                cwd=self._checkout,
                timeout=left,
                env=tool_environment(self._checkout, self._context.root, command.env),
                cancelled=self._cancelled,
            )
        except Fault as fault:
            self.problems.append(f"{name} (`{shown}`) could not be run: {fault}")
            return
        if outcome.cancelled:
            raise Cancelled
        severity = severity_of(name, command.argv)
        if outcome.timed_out:
            self._timed_out(name, shown, severity, outcome, left)
        elif outcome.ok:
            self.notes.append(f"{name}: passed (`{shown}`)")
        elif (outcome.returncode in _NOT_RUN_CODES) or _PROGRAM_MISSING.search(outcome.output[-20_000:]):
            self.problems.append(f"{name} (`{shown}`) could not be run: {one_line(outcome.tail(3), 300)}")
        else:
            self._failed(name, shown, severity, outcome)
        if command.changes_files:
            self._mended(name, shown)

    def _mended(self, name: str, shown: str) -> None:
        """A command that mends files instead of failing has found something where it changed one."""
        for path in restore(self._checkout, self._context.run)[:MOST_FINDINGS]:
            message = f"`{shown}` changes this file: it was not run before the push"
            self._add(name, Severity.HIGH, Place(path, 1, message), "The next person who runs it commits the rest.")

    def _timed_out(self, name: str, shown: str, severity: Severity, outcome: Outcome, limit: float) -> None:
        if severity is not Severity.CRITICAL:
            self.problems.append(f"{name} (`{shown}`) did not end within {limit:.0f} s")
            return
        self._quote(name, shown, outcome)
        place = next(iter(places(outcome.output, self._checkout, self._changed)), None)
        where = (place.path, place.line) if place else self._fallback
        impact = f"Stopped after {limit:.0f} s. Nothing can be verified or merged on tests or a build that never end."
        self._add(name, severity, Place(*where, f"`{shown}` does not end"), impact)

    def _failed(self, name: str, shown: str, severity: Severity, outcome: Outcome) -> None:
        self._quote(name, shown, outcome)
        impact = (
            f"The build or the tests are broken: `{shown}` fails ({outcome.ending()})."
            if severity is Severity.CRITICAL
            else f"`{shown}` fails ({outcome.ending()}), and CI or the next change trips over it."
        )
        if outcome.returncode == NO_TESTS_COLLECTED and "pytest" in shown:
            self._add(name, Severity.HIGH, Place(*self._fallback, f"`{shown}` collects no test"), impact)
            return
        found = list(self._places(outcome))
        for place in found[:MOST_FINDINGS]:
            self._add(name, severity, place, impact)
        if len(found) > MOST_FINDINGS:
            self.notes.append(f"{name}: {len(found) - MOST_FINDINGS} more places, not listed one by one")
        if not found:
            last = next((line for line in reversed(outcome.output.splitlines()) if line.strip()), "")
            words = f"`{shown}` fails: {one_line(last, 200)}" if last else f"`{shown}` fails and says nothing"
            # The innermost place of a stack, where there is one: it is printed last.
            stack = places(outcome.output, self._checkout, self._changed)[-1:]
            where = (stack[0].path, stack[0].line) if stack else self._fallback
            self._add(name, severity, Place(*where, words), impact)

    def _places(self, outcome: Outcome) -> Iterator[Place]:
        """The places that the output names, those in changed files first; pytest's failed tests by name."""
        found = places(outcome.output, self._checkout, self._changed)
        tests = failed_tests(outcome.output)
        if tests:
            for path, test, message in tests:
                words = f"{test} fails" + (f": {message}" if message else "")
                lines = [place.line for place in found if place.path == path]
                if (self._checkout / path).is_file():
                    yield Place(path, lines[0] if len(lines) == 1 else _line_of(self._checkout / path, test), words)
            return
        yield from sorted((p for p in found if p.message), key=lambda place: place.path not in self._changed)

    def _quote(self, name: str, shown: str, outcome: Outcome) -> None:
        tail = outcome.tail(TAIL_LINES)[-TAIL_CHARACTERS:]
        self.notes.append(f"{name}: `{shown}` {outcome.ending()}; its last lines:\n{tail}")

    def _add(self, name: str, severity: Severity, place: Place, impact: str) -> None:
        self.findings.append(
            Finding(
                path=place.path,
                line=place.line,
                severity=severity,
                message=one_line(f"{name}: {stable(place.message, self._checkout)}", 400),
                impact=impact,
                rule=f"verification:{name}",
                step=self._step,
            )
        )


def stable(message: str, checkout: Path) -> str:
    """The message without what differs from run to run, so that the same failure is known again at the re-review."""
    text = message.replace(f"{checkout.resolve()}/", "").replace(f"{checkout}/", "")
    return _DURATION.sub("some time", _ADDRESS.sub("0x…", text))


def _line_of(path: Path, test: str) -> int:
    """The line on which a pytest test is defined, 1 where it is not found."""
    name = test.rpartition("::")[2].partition("[")[0]
    pattern = re.compile(rf"^\s*(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b")
    with path.open(encoding="utf-8", errors="replace") as lines:
        return next((number for number, line in enumerate(lines, 1) if pattern.match(line)), 1)


def severity_of(name: str, argv: Sequence[str]) -> Severity:
    """Critical for a build or tests, told by the name of the command or by its program; else high."""
    command = " ".join(argv)
    works = _WORKING_NAMES.search(name.replace("_", " ")) or (
        name not in ("lint", "types", "format") and _WORKING_PROGRAMS.search(command)
    )
    return Severity.CRITICAL if works else Severity.HIGH


def verification(context: StepContext) -> list[ReviewStep]:
    """The one step of this module."""
    return [VerificationStep(context)]
