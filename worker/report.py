"""Write RESULT.json for the worker: what the conductor needs to know, filled in from TASK.md and checked
first.

What of an older file stays: only fields that this project does not know, and only where the file speaks
of the same nonce or the same issue. Everything else belongs to what was reported then, and a new task
starts afresh.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from schemas.errors import BadInput, Fault
from schemas.finding import Finding
from schemas.result import MAX_BYTES, Result, ResultStatus, parse_result
from schemas.text import clean, one_line
from worker.task import Task, read_task
from worker.tools.files import MissingFile, read_regular, replace_file, standard_input
from worker.tools.git import root_and_common_dir, worktree_index

RESULT_FILE = "RESULT.json"
LEASE_REJECTED = "lease_rejected"
"""The ``reason`` of a failure to push that the conductor takes to a person."""
_FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])


@dataclass(frozen=True)
class Place:
    """The worktree that reports, and its task (None where it has no TASK.md)."""

    worktree: Path
    index: int
    task: Task | None


@dataclass(frozen=True)
class Extras:
    """What any report may carry: one paragraph for people, the cost in US dollars."""

    summary: str | None = None
    cost: float | None = None


def find_place(cwd: Path) -> Place:
    """Where we report from. Raises ``BadInput`` outside a worker's worktree ``.taskmaestro/wt-N``."""
    root = root_and_common_dir(cwd)[0]
    index = worktree_index(root)
    if index is None:
        raise BadInput(
            f"{root} is not a worker's worktree, so there is nobody to report to",
            "Run this in .taskmaestro/wt-N, where the pane was started.",
        )
    try:
        return Place(root, index, read_task(root))
    except MissingFile:
        return Place(root, index, None)


def report_success(place: Place, pr: int | None = None, url: str | None = None, extras: Extras | None = None) -> Result:
    """The work is done and its pull request exists. The number comes from ``pr``, ``url`` or the task."""
    number = pr if pr is not None or url is not None else place.task.pr if place.task else None
    if number is None and url is None:
        raise BadInput("no pull request is named, and the task has none", "Add --pr NUMBER or --pr-url URL.")
    return _write(place, {"status": "success", "pr_number": number, "pr_url": url}, extras)


def report_failure(place: Place, error: str, extras: Extras | None = None) -> Result:
    """The worker could not finish; ``error`` says what stopped it."""
    text = clean(error).strip()
    if not text:
        raise BadInput("the error text is empty", "Say with --error what stopped you.")
    return _write(place, {"status": "failure", "error": text, "pr_number": _pr(place)}, extras)


def report_refused_push(place: Place, error: str) -> Result:
    """Somebody else moved or deleted the remote branch, so that nothing was pushed: a person has to look."""
    return _write(place, {"status": "failure", "error": error, "reason": LEASE_REJECTED, "pr_number": _pr(place)}, None)


def report_addressed(place: Place, cycle: int | None = None, extras: Extras | None = None) -> Result:
    """The review of ``cycle`` (default: the task's) was answered with fixes or rebuttals."""
    answered = cycle if cycle is not None else place.task.cycle if place.task else None
    if answered is None:
        raise BadInput(f"{place.worktree} has no TASK.md, so the review cycle is not known", "Add --cycle NUMBER.")
    if place.task is not None and place.task.cycle and answered != place.task.cycle:
        raise BadInput(
            f"the task answers review cycle {place.task.cycle}, not {answered}",
            "Leave --cycle out to use the task's.",
        )
    return _write(place, {"status": "review_addressed", "review_cycle": answered, "pr_number": _pr(place)}, extras)


def report_review(
    place: Place,
    verdict: Literal["approve", "changes_requested"],
    findings: list[Finding],
    extras: Extras | None = None,
) -> Result:
    """A review pane's verdict with its findings. An approval next to blocking findings is refused."""
    blocking = [finding for finding in findings if finding.blocking]
    if verdict == "approve" and blocking:
        raise BadInput(
            f"{len(blocking)} blocking findings do not go with approve, the first is "
            f"{blocking[0].severity} at {one_line(blocking[0].location)}",
            "Report changes_requested, or correct the severities.",
        )
    fields = {
        "status": "success",
        "pr_number": _pr(place),
        "review_result": verdict,
        "issues_found": len(findings),
        "critical_count": sum(finding.severity == "critical" for finding in findings),
        "high_count": sum(finding.severity == "high" for finding in findings),
        "findings": [finding.model_dump(mode="json", exclude_none=True) for finding in findings],
    }
    return _write(place, fields, extras)


def read_findings(source: str) -> list[Finding]:
    """Findings from a JSON file, or from stdin for ``-``: a list, or an object with a list called
    ``findings``.
    """
    raw = standard_input().read(MAX_BYTES + 1) if source == "-" else read_regular(source, MAX_BYTES)
    name = "stdin" if source == "-" else source
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{name}: more than {MAX_BYTES} bytes", "Report fewer findings.")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise BadInput(f"{name}: expected JSON: {one_line(str(fault))}", "Write a list of findings.") from None
    if isinstance(data, dict):
        data = data.get("findings")
    try:
        return _FINDINGS.validate_python(data)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "findings"
        raise BadInput(
            f"{name}, {where}: {one_line(str(first['msg']))}",
            "Each finding has path, line, severity, message, impact and rule (docs/contracts.md).",
        ) from None


def _pr(place: Place) -> int | None:
    return place.task.pr if place.task else None


def _write(place: Place, fields: dict[str, Any], extras: Extras | None) -> Result:
    task = place.task or Task(task="", kind="first")
    more = extras or Extras()
    known: dict[str, Any] = {
        **fields,
        "issue": task.issue,
        "nonce": task.nonce,
        "summary": clean(more.summary).strip() if more.summary else None,
        "cost": more.cost,
    }
    if "review_cycle" not in known and task.kind != "first":
        known["review_cycle"] = task.cycle
    data = {name: value for name, value in known.items() if value is not None}
    path = place.worktree / RESULT_FILE
    whole = {**_kept(path, task), **data}
    raw = (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    result = parse_result(raw)
    replace_file(path, raw)
    return result


def _kept(path: Path, task: Task) -> dict[str, Any]:
    """The unknown fields of the file that is there, where it belongs to the same task or issue."""
    try:
        old = parse_result(read_regular(path, MAX_BYTES))
    except Fault:  # not there, or not readable as a result: nothing of it can be kept
        return {}
    same = (old.nonce is not None and old.nonce == task.nonce) or (old.issue is not None and old.issue == task.issue)
    return {name: value for name, value in (old.model_extra or {}).items() if name != "reason"} if same else {}


def status_for(task: Task) -> Literal["success", "addressed"]:
    """What a finished task is reported as: a review that was posted is answered, everything else is a
    success.
    """
    about = task.about or task.kind
    return "addressed" if about == "fix" or (about != "first" and task.cycle > 0) else "success"


def report_done(place: Place, pr: int, extras: Extras | None = None) -> Result:
    """The report at the end of ``ship``, as the task's kind asks."""
    if place.task is not None and status_for(place.task) == "addressed":
        task = place.task._replace(pr=pr)
        return report_addressed(replace(place, task=task), None, extras)
    return report_success(place, pr, None, extras)


__all__ = [
    "RESULT_FILE",
    "Extras",
    "Place",
    "ResultStatus",
    "find_place",
    "read_findings",
    "report_addressed",
    "report_done",
    "report_failure",
    "report_refused_push",
    "report_review",
    "report_success",
    "status_for",
]
