"""The configured lenses of the approval gate, mapped onto the angles of a review.

Review protocol, gate-angle mapping: lenses do not replace the angles. Each configured lens is covered by a run of the
angle that it maps to, in parallel where that is possible; where it is not, the merged review says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.loops.review import MergeInput

DEFAULT_LENSES: dict[str, str] = {"dry": "maintainability", "kiss": "maintainability", "yagni": "scope"}
"""Lens -> angle, as the protocol's defaults: say things once, keep it simple, build what is asked for."""


def serial_limitation(passes: int, parallel: int) -> str | None:
    """What to record where that many lens passes do not fit side by side; None where they do."""
    if passes <= parallel:
        return None
    return f"{passes} lens passes did not all run in parallel: at most {parallel} at a time"


def uncovered(required: Iterable[str], covered: Iterable[str]) -> tuple[str, ...]:
    """The lenses that had to be covered and were not, in their order."""
    there = set(covered)
    return tuple(lens for lens in required if lens not in there)


def missing(value: MergeInput) -> tuple[str, ...]:
    """The lenses that no run of a pass covered.

    A run covers a lens where it came to its end and its angle is the one that the lens maps to: as the input says it,
    else by default. A lens that neither maps is covered by a run of any angle.
    """
    angles = {**DEFAULT_LENSES, **dict(value.angles)}
    covered = (
        lens
        for run in value.runs
        for lens in run.lenses
        if not run.failed and (lens not in angles or (run.angle or "").lower() == angles[lens])
    )
    return uncovered(value.lenses, covered)


UNCOVERED = "no run covered the lens "
FAILED = "a review run failed: "


def limitations(value: MergeInput) -> tuple[str, ...]:
    """All that the merged review has to record: what was told, each run that failed, each lens that none covered."""
    failed = (f"{FAILED}{run.run_id or run.angle or 'unnamed'}" for run in value.runs if run.failed)
    found = [*value.limitations, *failed, *(f"{UNCOVERED}{lens}" for lens in missing(value))]
    return tuple(dict.fromkeys(found))
