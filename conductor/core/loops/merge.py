"""Merging: the results of all runs of a pass become one review with one verdict.

Review protocol, reviewer loop: "Deterministic Merge/Synthesis Contract".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conductor.core.loops.lenses import FAILED, UNCOVERED, limitations, missing
from schemas.errors import BadInput
from schemas.loops.review import MergedReview, MergeInput, Remark, read_merge_input, write_merged

BLOCKING = ("critical", "high")


def merge(value: MergeInput) -> MergedReview:
    """One review of these results. Pure and total.

    A finding that is told again (same path, line and message, whatever its case) counts once; the first one stays.
    One without a message is counted, and shown only where it has no place. A lens that no run covered and a run that
    failed rule an approval out.
    """
    first: dict[tuple[str, int | None, str], Remark] = {}
    for run in value.runs:
        for remark in run.remarks:
            first.setdefault((remark.path or "", remark.line, remark.message.lower()), remark)
    remarks = tuple(first.values())
    complete = not missing(value) and not any(run.failed for run in value.runs)
    return MergedReview(
        head_sha=value.head_sha,
        verdict=_verdict(remarks, asked=any(run.asks_for_changes for run in value.runs), complete=complete),
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


def misfits(merged: MergedReview) -> tuple[str, ...]:
    """What does not fit in a merged review, by the rules by which one is made: nothing in what ``merge`` answers.

    A count may be higher than the findings that are listed: one with a place and without a message is in neither list.
    """
    remarks = (*merged.inline_comments, *merged.summary_findings)
    listed, total, verdict = len(remarks), merged.total_findings, merged.verdict
    blocking = sum(1 for remark in remarks if remark.severity in BLOCKING)
    partial = any(text.startswith((UNCOVERED, FAILED)) for text in merged.limitations)
    found = []
    if total < listed:
        found.append(f"totalFindings is {total}, and {listed} findings are listed")
    if merged.runs_merged == 0 and (total or listed):
        found.append("runsMerged is 0, and there are findings")
    if verdict != "REQUEST_CHANGES" and blocking:
        found.append(f"the verdict is {verdict}, and {blocking} findings are critical or high")
    elif verdict == "APPROVE" and (total or listed):
        found.append(f"the verdict is APPROVE, and there are {max(total, listed)} findings")
    elif verdict == "APPROVE" and partial:
        found.append("the verdict is APPROVE, and its limitations say that the review is not complete")
    elif verdict == "REQUEST_CHANGES" and not (total or listed):
        found.append("the verdict is REQUEST_CHANGES, and there are no findings")
    elif verdict == "COMMENT" and not (total or listed or merged.limitations):
        found.append("the verdict is COMMENT, and there are neither findings nor limitations")
    return tuple(found)


def check_fits(merged: MergedReview) -> MergedReview:
    """The review as it is. Raises ``BadInput`` that says what does not fit in it."""
    found = misfits(merged)
    if found:
        raise BadInput(f"the merged review does not fit together: {'; '.join(found)}", "Merge the runs again.")
    return merged


def detect(raw: object) -> dict[str, Any]:
    """The merged review of results of any shape. Raises ``BadInput`` where they cannot be read."""
    return {"ok": True, **write_merged(merge(read_merge_input(raw)))}
