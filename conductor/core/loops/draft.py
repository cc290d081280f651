"""The draft: a merged review as what stages a pending review, pinned to its head. Nothing here submits one.

Review protocol, reviewer loop: "buildDraftReviewPayload". The texts come from reviewers, so they are cleaned.
"""

from __future__ import annotations

from typing import Any

from conductor.core.loops.merge import check_fits
from schemas.loops.review import MergedReview, Remark, read_merged
from schemas.text import clean, one_line

LONGEST_BODY = 60_000
"""Characters; forges refuse longer ones somewhere above."""
_LONGEST_LINE = 2_000


def make_draft(merged: MergedReview) -> dict[str, Any]:
    """The payload: ``commit_id``, ``body``, ``comments`` (``path``, ``line``, ``body``, ``side``). Pure and total.

    A comment that has lost its place is told in the body instead.
    """
    placed = [one for one in merged.inline_comments if one.path and one.line and one.message]
    rest = [one for one in merged.inline_comments if not (one.path and one.line) and one.message]
    return {
        "commit_id": merged.head_sha,
        "body": _body(merged, [*rest, *merged.summary_findings]),
        "comments": [
            {"path": one.path, "line": one.line, "body": clean(one.message), "side": "RIGHT"} for one in placed
        ],
    }


def _body(merged: MergedReview, summary: list[Remark]) -> str:
    lines = [
        f"**Verdict: {merged.verdict}**",
        "",
        f"- findings: {merged.total_findings}",
        f"- runs merged: {merged.runs_merged}",
    ]
    if merged.limitations:
        lines += ["", "Limitations:", *(f"- {one_line(text, _LONGEST_LINE)}" for text in merged.limitations)]
    if summary:
        lines += ["", "Findings without a line of their own:", *map(_line, summary)]
    return _bounded(lines)


def _line(remark: Remark) -> str:
    place = f" `{one_line(remark.path).replace('`', '')}`" if remark.path else ""
    return f"- **{remark.severity}**{place}: {one_line(remark.message, _LONGEST_LINE) or '(no text)'}"


def _bounded(lines: list[str]) -> str:
    """The lines as one text of at most ``LONGEST_BODY`` characters; what is left out is counted."""
    text = "\n".join(lines) + "\n"
    if len(text) <= LONGEST_BODY:
        return text
    kept, used = [], 0
    for line in lines:
        used += len(line) + 1
        if used > LONGEST_BODY - 100:
            break
        kept.append(line)
    return "\n".join([*kept, "", f"({len(lines) - len(kept)} more lines are left out)"]) + "\n"


def detect(raw: object) -> dict[str, Any]:
    """The payload of a merged review of any shape. Raises ``BadInput`` where it cannot be read or does not fit."""
    return {"ok": True, **make_draft(check_fits(read_merged(raw)))}
