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


def limitations(value: MergeInput) -> tuple[str, ...]:
    """All that the merged review has to record: what was told, and each lens that no run covered."""
    missing = uncovered(value.lenses, (lens for run in value.runs for lens in run.lenses))
    found = [*value.limitations, *(f"no run covered the lens {lens}" for lens in missing)]
    return tuple(dict.fromkeys(found))
