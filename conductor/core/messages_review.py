"""The text of a review as it is posted, in the review protocol's template, and the hidden marker that names
it.

Texts of findings come from tools and people. They stand on one line each, cannot open an HTML comment, and so
can neither fake the marker nor break the template.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.finding import Finding
from schemas.review import Review, StepReport, Verdict
from schemas.text import fenced, one_line

LONGEST = 60_000
"""Characters of a body: forges take some 65,000."""
_LONGEST_OUTPUT = 6_000
_ROOM_FOR_STEPS = 15_000

_MARKER = re.compile(
    r"^<!-- taskmaestro: review=(?P<review>[\w.:-]{1,100}) "
    r"head=(?P<head>[0-9a-f]{7,64}) cycle=(?P<cycle>[0-9]{1,3}) -->$",
    re.MULTILINE,
)
_NOT_ID = re.compile(r"[^\w.:-]")


@dataclass(frozen=True)
class Marker:
    """What a posted review says of itself."""

    review_id: str
    head: str
    cycle: int


def marker(review_id: str, head: str, cycle: int) -> str:
    """The hidden comment that makes posting idempotent: looked for before anything is posted."""
    return f"<!-- taskmaestro: review={_NOT_ID.sub('-', review_id)[:100]} head={head} cycle={cycle} -->"


def parse_markers(body: str) -> tuple[Marker, ...]:
    """The markers in a body, each on a line of its own. Whoever may write there can write one: ask for the
    author.
    """
    return tuple(Marker(found["review"], found["head"], int(found["cycle"])) for found in _MARKER.finditer(body))


def review_body(review: Review, ci_summary: str) -> str:
    """The review as Markdown, at most ``LONGEST`` characters: what is left out is counted.

    ``ci_summary``: ``PASS`` or ``FAIL``, more words may follow.
    """
    approved = review.verdict is Verdict.APPROVE
    head = [
        f"## Review: {'APPROVE' if approved else 'CHANGES_REQUESTED'}",
        f"### CI Status: {safe(ci_summary, 200)}",
        "### Issues Found:",
    ]
    tail = [
        f"### Recommendation: {'APPROVE' if approved else 'REQUEST_CHANGES'}",
        *_steps(review.steps),
        *_coverage(review),
        "",
    ]
    end = marker(review.review_id, review.head, review.cycle)
    room = LONGEST - sum(len(line) + 1 for line in [*head, *tail, end]) - 200
    issues = _issues(sorted(review.findings, key=lambda finding: finding.severity.rank), room)
    return "\n".join([*head, *issues, *tail, end])


def safe(text: str, limit: int) -> str:
    """Somebody's words on one line that Markdown takes for words: no HTML, no comment, no heading."""
    return one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def finding_lines(finding: Finding) -> str:
    """One entry of the list: the template's line, and the impact below it."""
    deferred = ""
    if finding.deferred is not None:
        why = safe(finding.deferred.reason, 200)
        deferred = f" (deferred to #{finding.deferred.follow_up_issue}: {why})"
    place = f"{safe(finding.path, 400)}:{finding.line}"
    return (
        f"- [{finding.severity}]: {safe(finding.message, 600)}{deferred} — {place}\n"
        f"  Impact: {safe(finding.impact, 600)} Rule: {safe(finding.rule, 120)}"
    )


def _issues(findings: Sequence[Finding], room: int) -> list[str]:
    if not findings:
        return ["- none"]
    lines: list[str] = []
    for number, finding in enumerate(findings):
        entry = finding_lines(finding)
        room -= len(entry) + 1
        if room < 0:
            left = Counter(str(other.severity) for other in findings[number:])
            counted = ", ".join(f"{count} {severity}" for severity, count in left.items())
            return [*lines, f"- … {len(findings) - number} more findings left out here ({counted})"]
        lines.append(entry)
    return lines


def _coverage(review: Review) -> list[str]:
    """The angles and lenses that were covered, and what the review could not do."""
    lines = [f"- angles: {', '.join(review.angles)}"] if review.angles else []
    lines += [f"- lenses: {safe(', '.join(review.lenses), 200)}"] if review.lenses else []
    lines += [f"- limitation: {safe(one, 200)}" for one in review.limitations]
    return ["### Coverage", *lines] if lines else []


def _steps(steps: Sequence[StepReport]) -> list[str]:
    """Steps that could not run, by name, and the words of those with something to show."""
    if not steps:
        return []
    ran = [safe(step.step, 60) for step in steps if step.outcome == "ran"]
    lines = ["### Steps", f"- ran: {', '.join(ran) or 'none'}"]
    unset = [f"{safe(s.step, 60)} ({safe(s.detail, 120)})" for s in steps if s.outcome == "not_configured"]
    if unset:
        lines.append(f"- not configured: {', '.join(unset)}")
    room = _ROOM_FOR_STEPS
    for step in steps:
        if step.outcome == "could_not_run":
            lines.append(f"- **could not run**: {safe(step.step, 60)}: {safe(step.detail, 600)}")
        if step.findings and "\n" in step.detail and room > 0:
            # Escaping inside a code block would show; a blank breaks a comment's start as well.
            output = fenced(step.detail, min(_LONGEST_OUTPUT, room)).replace("<!--", "<! --")
            lines += ["", f"<details><summary>{safe(step.step, 60)}</summary>", "", output, "", "</details>"]
            room -= len(output)
    return lines
