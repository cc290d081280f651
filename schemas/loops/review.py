"""A review on its way: the options of a plan, the plan, the results of its runs, the merged review, the draft.

Review protocol, reviewer loop: plan, merge and draft contracts. Leaves are read with safe defaults; what holds them
(the list of runs, a run, its findings) must be there, because an approval must not come from something unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.errors import BadInput
from schemas.loops.fields import (
    Field,
    as_list,
    as_object,
    is_number,
    kind_of,
    object_schema,
    positive,
    positive_or_none,
    text,
    text_or_none,
)
from schemas.text import one_line

ANGLES = ("correctness", "tests", "maintainability", "security", "scope")
"""The taxonomy, in canonical order."""
SEVERITIES = ("critical", "high", "medium", "low", "note")
VERDICTS = ("APPROVE", "COMMENT", "REQUEST_CHANGES")


class PlanOptions(NamedTuple):
    """Known angles as asked for, in order, without repeats; ``max_parallel`` None: the default.

    ``lenses`` maps the name of a lens to the angle that it belongs to.
    """

    angles: tuple[str, ...] = ()
    max_parallel: int | None = None
    lenses: tuple[tuple[str, str], ...] = ()


class Remark(NamedTuple):
    """One finding of a run. ``path`` None or empty: about no file; ``line`` counts from 1."""

    path: str | None
    line: int | None
    message: str
    severity: str
    angle: str | None


class RunResult(NamedTuple):
    """What one run reported. ``lenses``: those that it looked through; ``failed``: it did not come to its end."""

    angle: str | None
    remarks: tuple[Remark, ...]
    asks_for_changes: bool
    lenses: tuple[str, ...] = ()
    run_id: str | None = None
    failed: bool = False


class MergeInput(NamedTuple):
    """All runs of one pass. ``lenses``: those that had to be covered; ``limitations``: told by who ran them.

    ``angles``: the angle of each of these lenses, where the input says it.
    """

    head_sha: str | None
    runs: tuple[RunResult, ...]
    lenses: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()
    angles: tuple[tuple[str, str], ...] = ()


class MergedReview(NamedTuple):
    """The one review that a pass comes to. ``total_findings`` counts those without any text too."""

    head_sha: str | None
    verdict: str
    inline_comments: tuple[Remark, ...]
    summary_findings: tuple[Remark, ...]
    total_findings: int
    runs_merged: int
    limitations: tuple[str, ...] = ()


def _angle(value: object) -> str | None:
    word = (text_or_none(value) or "").lower()
    return word if word in ANGLES else None


def read_plan_options(raw: object) -> PlanOptions:
    """The options in normal form. Raises ``BadInput`` where it is not an object, or a lens has no known angle."""
    options = as_object(raw, "plan options")
    asked = options.get("requestedAngles")
    angles = dict.fromkeys(angle for angle in map(_angle, asked if isinstance(asked, list) else ()) if angle)
    lenses = options.get("lenses")
    return PlanOptions(
        tuple(angles), positive_or_none(options.get("maxParallel")), () if lenses is None else read_lenses(lenses)
    )


def read_lenses(raw: object) -> tuple[tuple[str, str], ...]:
    """``{"dry": "maintainability"}`` as pairs. Raises ``BadInput`` for a lens that maps to no known angle."""
    pairs = []
    for name, value in as_object(raw, "lenses").items():
        lens, angle = text_or_none(name), _angle(value)
        if lens is None or angle is None:
            raise BadInput(f"lens {name!r} maps to no angle of a review", f"The angles are: {', '.join(ANGLES)}.")
        pairs.append((lens, angle))
    return tuple(pairs)


def _read_remark(raw: object, what: str, angle: str | None) -> Remark:
    finding = as_object(raw, what)
    path, message = finding.get("path"), finding.get("message")
    severity = (text_or_none(finding.get("severity")) or "").lower()
    return Remark(
        path.strip() if isinstance(path, str) else None,
        positive_or_none(finding.get("line")),
        message.strip() if isinstance(message, str) else "",
        severity if severity in SEVERITIES else "medium",
        text_or_none(finding.get("angle")) if angle is None else angle,
    )


def _texts(value: object) -> tuple[str, ...]:
    """The texts of a list, trimmed, without empty ones and repeats."""
    found = [text_or_none(item) for item in value] if isinstance(value, list) else []
    return tuple(dict.fromkeys(item for item in found if item))


def _read_run(raw: object, what: str) -> RunResult:
    run = as_object(raw, what)
    angle = text_or_none(run.get("angle"))
    failed = _failed(run)
    given = run.get("findings")
    findings = [] if failed and given is None else as_list(given, f"{what}.findings")
    remarks = tuple(_read_remark(item, f"{what}.findings[{index}]", angle) for index, item in enumerate(findings))
    lens = text_or_none(run.get("lens"))
    lenses = (lens,) if lens else _texts(run.get("lenses"))
    asks = run.get("verdictHint") == "REQUEST_CHANGES"
    return RunResult(angle, remarks, asks, lenses, text_or_none(run.get("runId")), failed)


def _failed(run: Mapping[str, Any]) -> bool:
    """Whether a run says that it came to no end: a status that is none of the good ones, ``ok`` false, an error."""
    status = run.get("status")
    good = status is None or (isinstance(status, str) and status.strip().lower() in _ENDED_WELL)
    return not good or run.get("ok") is False or run.get("failed") is True or bool(run.get("error"))


_ENDED_WELL = ("completed", "complete", "success", "succeeded", "ok", "done", "passed")


def read_merge_input(raw: object) -> MergeInput:
    """The results of a pass. Raises ``BadInput`` where runs, a run or its findings cannot be read, or come twice."""
    value = as_object(raw, "run results")
    found = as_list(value.get("runResults"), "runResults")
    runs = tuple(_read_run(item, f"runResults[{index}]") for index, item in enumerate(found))
    ids = [run.run_id for run in runs if run.run_id]
    twice = next((one for index, one in enumerate(ids) if one in ids[:index]), None)
    if twice is not None:
        raise BadInput(f"runResults has the run {one_line(twice, 60)} twice", "Give the result of each run once.")
    lenses = value.get("lenses")
    angles = read_lenses(lenses) if isinstance(lenses, dict) else ()
    return MergeInput(
        text_or_none(value.get("headSha")),
        runs,
        tuple(lens for lens, _ in angles) or _texts(lenses),
        _texts(value.get("limitations")),
        angles,
    )


def read_merged(raw: object) -> MergedReview:
    """A merged review, for example from a file. Raises ``BadInput`` where its verdict, a count or a list is not there.

    An approval must not come from something that could not be read, so nothing here falls back to a default.
    """
    value = as_object(raw, "merged review")
    verdict = value.get("verdict")
    if verdict not in VERDICTS:
        said = repr(one_line(verdict, 40)) if isinstance(verdict, str) else kind_of(verdict)
        raise BadInput(f"verdict must be one of {', '.join(VERDICTS)}, not {said}", _MERGE_IT)
    inline, summary = (
        tuple(_read_remark(item, f"{name}[{index}]", None) for index, item in enumerate(as_list(value.get(name), name)))
        for name in ("inlineComments", "summaryFindings")
    )
    return MergedReview(
        text_or_none(value.get("headSha")),
        str(verdict),
        inline,
        summary,
        _count(value, "totalFindings"),
        _count(value, "runsMerged"),
        _texts(value.get("limitations")),
    )


_MERGE_IT = "Give what `taskmaestro loop merge` answers."


def _count(value: Mapping[str, Any], name: str) -> int:
    found: Any = value.get(name)
    if not is_number(found) or found < 0 or found != int(found):
        said = kind_of(found) if not is_number(found) else str(found)
        raise BadInput(f"{name} must be a whole number of at least 0, not {said}", _MERGE_IT)
    return int(found)


def write_merged(merged: MergedReview) -> dict[str, Any]:
    """The merged review as a JSON object; ``limitations`` only where there are any."""
    value: dict[str, Any] = {
        "headSha": merged.head_sha,
        "verdict": merged.verdict,
        "inlineComments": [remark._asdict() for remark in merged.inline_comments],
        "summaryFindings": [remark._asdict() for remark in merged.summary_findings],
        "totalFindings": merged.total_findings,
        "runsMerged": merged.runs_merged,
    }
    if merged.limitations:
        value["limitations"] = list(merged.limitations)
    return value


REMARK_FIELDS: tuple[Field, ...] = (
    Field("path", lambda value: value, {"type": ["string", "null"], "description": "relative to the repository"}),
    positive("line", "in the new file"),
    Field("message", lambda value: value, {"type": "string", "description": "what is wrong"}),
    Field("severity", lambda value: value, {"enum": list(SEVERITIES)}),
    text("angle", "the angle of the run that found it"),
)


def merged_schema() -> dict[str, Any]:
    """The JSON Schema of a merged review."""
    remarks = {"type": "array", "items": object_schema("Remark", "One finding.", REMARK_FIELDS)}
    properties: dict[str, Any] = {
        "headSha": {"type": ["string", "null"], "description": "the commit that was reviewed"},
        "verdict": {"enum": list(VERDICTS)},
        "inlineComments": {**remarks, "description": "with a path, a line and a message"},
        "summaryFindings": {**remarks, "description": "without a path or a line"},
        "totalFindings": {"type": "integer", "minimum": 0},
        "runsMerged": {"type": "integer", "minimum": 0},
        "limitations": {"type": "array", "items": {"type": "string"}, "description": "what the pass could not do"},
    }
    return {
        "title": "MergedReview",
        "description": "The one review that the runs of a pass come to.",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name != "limitations"],
    }


def draft_schema() -> dict[str, Any]:
    """The JSON Schema of a pending review's payload."""
    comment = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "line": {"type": "integer", "minimum": 1},
            "body": {"type": "string", "minLength": 1},
            "side": {"const": "RIGHT"},
        },
        "required": ["path", "line", "body", "side"],
    }
    properties: dict[str, Any] = {
        "commit_id": {"type": ["string", "null"], "description": "the head that the review is pinned to"},
        "body": {"type": "string"},
        "comments": {"type": "array", "items": comment},
    }
    return {
        "title": "DraftReview",
        "description": "What stages a pending review; nothing in it submits one.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
