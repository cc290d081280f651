"""Merging: the results of all runs of a pass become one review with one verdict.

Review protocol, reviewer loop: "Deterministic Merge/Synthesis Contract".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conductor.core.loops.lenses import limitations, uncovered
from schemas.loops.review import MergedReview, MergeInput, Remark, read_merge_input, write_merged

BLOCKING = ("critical", "high")


def merge(value: MergeInput) -> MergedReview:
    """One review of these results. Pure and total.

    A finding that is told again (same path, line and message, whatever its case) counts once; the first one stays.
    One without a message is counted, and shown only where it has no place. A lens that no run covered rules an
    approval out.
    """
    first: dict[tuple[str, int | None, str], Remark] = {}
    for run in value.runs:
        for remark in run.remarks:
            first.setdefault((remark.path or "", remark.line, remark.message.lower()), remark)
    remarks = tuple(first.values())
    missing = uncovered(value.lenses, (lens for run in value.runs for lens in run.lenses))
    return MergedReview(
        head_sha=value.head_sha,
        verdict=_verdict(remarks, asked=any(run.asks_for_changes for run in value.runs), complete=not missing),
        inline_comments=tuple(one for one in remarks if one.path and one.line and one.message),
        summary_findings=tuple(one for one in remarks if not one.path or not one.line),
        total_findings=len(remarks),
        runs_merged=len(value.runs),
        limitations=limitations(value),
    )


def _verdict(remarks: Sequence[Remark], *, asked: bool, complete: bool) -> str:
    if not remarks:
        return "APPROVE" if complete else "COMMENT"
    if asked or any(remark.severity in BLOCKING for remark in remarks):
        return "REQUEST_CHANGES"
    return "COMMENT"


def detect(raw: object) -> dict[str, Any]:
    """The merged review of results of any shape. Raises ``BadInput`` where they cannot be read."""
    return {"ok": True, **write_merged(merge(read_merge_input(raw)))}
