"""Reviewers that judge: any command that takes the review packet as JSON on its stdin and answers findings as
JSON.

Configured as ``[review.reviewers] name = command``. The answer is ``{"findings": [...]}``, bare, in one
fenced block, or as the ``result`` text of an agent's own JSON envelope. It is validated whole: an answer that
does not fit is asked for once more, and then the reviewer could not run, which is never an approval (review
protocol).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conductor.ports import ReviewStep
from conductor.review.context import Budget, StepContext, run_tool
from schemas.errors import BadInput, Fault, Unavailable
from schemas.finding import Finding, Severity
from schemas.review import ReviewPacket, StepReport
from schemas.text import one_line

MOST_FINDINGS = 200
TRIES = 2
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


class _Judged(BaseModel):
    """A finding as a reviewer gives it. It cannot defer: that is for a person to grant."""

    model_config = ConfigDict(extra="ignore")

    path: str = Field(min_length=1, max_length=1_000)
    line: int = Field(ge=1)
    severity: Severity
    message: str = Field(min_length=1)
    impact: str = Field(min_length=1)
    rule: str = ""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    findings: list[_Judged] = Field(max_length=MOST_FINDINGS)


@dataclass
class CommandReviewer:
    """One judging reviewer."""

    name: str
    argv: tuple[str, ...]
    context: StepContext
    judges: ClassVar[bool] = True

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        budget = Budget(self.context.config.review.step_timeout)
        problems = []
        for attempt in range(1, TRIES + 1):
            try:
                outcome = run_tool(
                    self.context,
                    self.argv,
                    Path(packet.checkout),
                    budget,
                    cancelled,
                    input=packet.model_dump_json(),
                )
                if not outcome.ok:
                    raise Unavailable(f"{self.argv[0]}: {outcome.ending()}: {one_line(outcome.tail(3), 300)}")
                findings = read_answer(outcome.data.decode("utf-8", "replace"), self.name)
            except BadInput as fault:
                problems.append(f"answer {attempt}: {fault}")
            except Fault as fault:
                problems.append(f"run {attempt}: {fault}")
                if budget.used >= budget.seconds:
                    break
            else:
                return budget.report(self.name, findings=findings, detail=f"{len(findings)} findings")
        return budget.report(self.name, problems=problems)


def read_answer(text: str, reviewer: str) -> tuple[Finding, ...]:
    """The findings of a reviewer's answer. Raises ``BadInput`` with what does not fit, and where."""
    try:
        answer = _Answer.model_validate(_json_of(text))
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise _misfit(f"{place}: {first['msg']}") from fault
    return tuple(_finding(judged, reviewer, number) for number, judged in enumerate(answer.findings))


def _json_of(text: str) -> object:
    value = _parsed(text)
    if isinstance(value, dict) and "findings" not in value and isinstance(value.get("result"), str):
        return _parsed(value["result"])
    return value


def _parsed(text: str) -> object:
    fenced = _FENCED.findall(text)
    try:
        value: object = json.loads(fenced[0] if len(fenced) == 1 else text)
    except (ValueError, RecursionError) as fault:
        shown = one_line(text, 80) or "(nothing)"
        raise _misfit(f"it is not JSON ({one_line(str(fault), 100)}); it begins: {shown}") from fault
    return value


def _finding(judged: _Judged, reviewer: str, number: int) -> Finding:
    path = posixpath.normpath(one_line(judged.path, 1_000))
    if path.startswith(("/", "..")):
        raise _misfit(f"findings.{number}.path: {one_line(path, 80)} is not below the checkout")
    message, impact = one_line(judged.message, 600), one_line(judged.impact, 600)
    if not message or not impact:
        raise _misfit(f"findings.{number}: the message and the impact need words")
    rule = one_line(judged.rule, 80)
    return Finding(
        path=path,
        line=judged.line,
        severity=judged.severity,
        message=message,
        impact=impact,
        rule=f"{reviewer}:{rule}" if rule else reviewer,
        step=reviewer,
    )


def _misfit(why: str) -> BadInput:
    return BadInput(
        f"the answer does not fit: {why}",
        'Expected {"findings": [{"path", "line", "severity", "message", "impact", "rule"}]}, no more.',
    )


def reviewers(context: StepContext) -> list[ReviewStep]:
    """A step for each configured reviewer."""
    return [CommandReviewer(name, argv, context) for name, argv in context.config.review.reviewers.items()]
