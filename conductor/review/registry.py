"""Which steps a review has: entry points of the group ``taskmaestro.review_steps``, built-ins and others
alike.

An entry point names a factory, ``factory(context) -> steps``. Its name is what ``review.steps`` in the
configuration selects; it may stand for several steps (one for each scanner, one for each judging reviewer).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from conductor.ports import Cancelled, ReviewStep
from conductor.review.context import StepContext
from schemas.errors import BadInput
from schemas.review import ReviewPacket, StepReport
from schemas.text import one_line

GROUP = "taskmaestro.review_steps"

_BUILT_IN = (
    ("verification", "conductor.review.steps.verification:verification"),
    ("scan", "conductor.review.steps.scanners:scanners"),
    ("spec", "conductor.review.steps.spec:spec"),
    ("tests_present", "conductor.review.steps.tests_present:tests_present"),
    ("hygiene", "conductor.review.steps.hygiene:hygiene"),
    ("reviewers", "conductor.review.command_reviewer:reviewers"),
)
BUILT_IN = tuple(EntryPoint(name, value, GROUP) for name, value in _BUILT_IN)
"""The same entry points as in the installed package's metadata, for a source tree that is not installed.
In the order of the review protocol.
"""

_log = logging.getLogger(__name__)


@dataclass
class BrokenStep:
    """Stands for a step that could not be made, so that the review says so."""

    name: str
    why: str

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        if cancelled():
            raise Cancelled
        detail = f"{self.why} (for pull request #{packet.pr.number})"
        return StepReport(step=self.name, outcome="could_not_run", detail=detail)


def known(installed: Iterable[EntryPoint] | None = None) -> dict[str, EntryPoint]:
    """The entry points by name. Two different ones of one name are ``BadInput``: neither may take the
    other's place.
    """
    found: dict[str, EntryPoint] = {point.name: point for point in BUILT_IN}
    for point in entry_points(group=GROUP) if installed is None else installed:
        before = found.setdefault(point.name, point)
        if before.value != point.value:
            raise BadInput(
                f"two review steps are called {one_line(point.name, 60)}: {before.value} and {point.value}",
                "Uninstall one of the packages that bring them.",
            )
    return found


def make_steps(context: StepContext, installed: Iterable[EntryPoint] | None = None) -> tuple[ReviewStep, ...]:
    """The steps that the configuration selects, in its order; all known ones where it selects none.

    Raises ``BadInput`` for a name that is not known. A factory that fails gives a step that could not run.
    """
    points = known(installed)
    names = context.config.review.steps
    unknown = [name for name in names or () if name not in points]
    if unknown:
        raise BadInput(
            f"review.steps in .taskmaestro/config.toml names an unknown step: {one_line(unknown[0], 60)}",
            f"Known steps: {', '.join(points)}.",
        )
    return tuple(step for name in names or points for step in _make(points[name], context))


def _make(point: EntryPoint, context: StepContext) -> Sequence[ReviewStep]:
    try:
        return tuple(point.load()(context))
    except Exception as fault:  # whatever a plug-in does: it must not take the other steps with it
        _log.exception("review step %s could not be made", point.name)
        return (BrokenStep(point.name, f"{point.value}: {type(fault).__name__}: {one_line(str(fault), 300)}"),)
