"""Staging: where a merged review's remarks may stand on the forge, and the marker under which it is staged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from schemas.loops.review import VERDICTS, MergedReview
from schemas.review import Verdict

_MARKER = re.compile(
    r"^<!-- taskmaestro: draft=(?P<digest>[0-9a-f]{8,64}) head=(?P<head>[0-9a-f]{7,64}) "
    rf"verdict=(?P<verdict>{'|'.join(VERDICTS)}) -->$"
)
FORGE_VERDICTS: dict[str, Verdict | None] = {
    "APPROVE": Verdict.APPROVE,
    "REQUEST_CHANGES": Verdict.CHANGES,
    "COMMENT": None,
}
"""What each verdict of a merged review is when it is submitted; None: a comment."""


class Staged(NamedTuple):
    """What the marker of a review that ``loop stage`` staged says."""

    head: str
    verdict: str


def marker(digest: str, head: str, verdict: str) -> str:
    """The hidden line at the end of a staged review. ``digest``: of its content, in lower-case hexadecimal."""
    return f"<!-- taskmaestro: draft={digest} head={head} verdict={verdict} -->"


def parse_marker(text: str) -> Staged | None:
    """What was staged under this marker; None where it is not one of ``loop stage``."""
    found = _MARKER.match(text)
    return Staged(found["head"], found["verdict"]) if found else None


def on_the_diff(merged: MergedReview, shown: Mapping[str, frozenset[int]]) -> MergedReview:
    """The review with the remarks in its summary whose line the diff does not show: a forge takes no comment there."""
    placed, rest = [], []
    for remark in merged.inline_comments:
        fits = remark.path is not None and remark.line in shown.get(remark.path, frozenset())
        if fits:
            placed.append(remark)
        else:
            rest.append(remark._replace(message=f"line {remark.line}: {remark.message}"))
    return merged._replace(inline_comments=tuple(placed), summary_findings=(*rest, *merged.summary_findings))
