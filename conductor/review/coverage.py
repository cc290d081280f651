"""Which angles and lenses a review covered, and what it has to own up to (review protocol, gate-angle mapping).

Only a reviewer that judges can look through a lens. Steps that did not run cover nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conductor.core.loops.lenses import UNCOVERED, serial_limitation, uncovered
from conductor.ports import ReviewStep
from schemas.loops.review import ANGLES
from schemas.review import StepReport

_ANGLES: dict[str, tuple[str, ...]] = {
    "verification": ("correctness", "tests"),
    "tests_present": ("tests",),
    "hygiene": ("maintainability",),
    "spec": ("scope",),
}
"""The angles of the built-in steps by name. A judging reviewer looks from all of them, a scanner at maintainability,
unless the step says so itself (``angles``)."""
_SCANNER = ("maintainability",)


class Coverage(NamedTuple):
    """In the order of the taxonomy and of the configuration."""

    angles: tuple[str, ...]
    lenses: tuple[str, ...]
    limitations: tuple[str, ...]


def judges(step: ReviewStep) -> bool:
    """A step says of itself (``judges = True``) that it reads the change as a person would."""
    return bool(getattr(step, "judges", False))


def coverage(
    steps: Sequence[ReviewStep], reports: Sequence[StepReport], lenses: Mapping[str, str], parallel: int
) -> Coverage:
    """What these reports cover; ``reports`` in the order of ``steps``, ``lenses``: lens -> angle."""
    ran = [step for step, report in zip(steps, reports, strict=True) if report.outcome == "ran"]
    angles = {angle for step in ran for angle in _angles_of(step)}
    judging = [step for step in ran if judges(step)]
    covered = tuple(lenses) if judging else ()
    found = [f"{UNCOVERED}{lens}" for lens in uncovered(lenses, covered)]
    if covered and len(covered) > len(judging):
        found.append(f"the lenses {', '.join(covered)} were covered in {len(judging)} run(s), not each in its own")
    serial = serial_limitation(len(judging), parallel)
    return Coverage(tuple(one for one in ANGLES if one in angles), covered, (*found, *([serial] if serial else [])))


def _angles_of(step: ReviewStep) -> Sequence[str]:
    own = getattr(step, "angles", None)
    if own is not None:
        return tuple(own)
    return ANGLES if judges(step) else _ANGLES.get(step.name, _SCANNER)
