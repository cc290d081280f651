"""A package that adds an agent kind and a review step, as docs/architecture.md shows it."""

from __future__ import annotations

from collections.abc import Callable

from conductor.core.diff import parse_diff
from conductor.panes.agents.command import CommandAgent
from conductor.ports import AgentState, Screen
from conductor.review.context import StepContext
from schemas.config import AgentConfig
from schemas.finding import Finding, Severity
from schemas.review import ReviewPacket, StepReport


class Parrot(CommandAgent):
    """A program that is idle when its last line is a question mark."""

    def classify(self, screen: Screen) -> AgentState:
        tail = screen.tail()
        return AgentState("idle" if tail and tail[-1] == "?" else "busy")


def make_agent(settings: AgentConfig) -> Parrot:
    """The factory that the entry point names."""
    return Parrot(settings.model_copy(update={"command": settings.command or ("parrot",)}))


class NoPrint:
    """Asks for a log line instead of a print."""

    name = "no_print"

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        findings = [
            Finding(
                path=change.path,
                line=line.number,
                severity=Severity.MEDIUM,
                message="A print is left in the code",
                impact="It goes to the output of whoever calls this.",
                rule="no-print",
                step=self.name,
            )
            for change in parse_diff(packet.diff)
            for line in change.added
            if line.text.lstrip().startswith("print(")
        ]
        return StepReport(step=self.name, outcome="ran", findings=tuple(findings))


def make_steps(context: StepContext) -> list[NoPrint]:
    """The factory that the entry point names."""
    return [NoPrint()]
