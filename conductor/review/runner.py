"""Makes a review: a scratch checkout of the head, the packet, the steps side by side, one verdict."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from conductor.core.diff import parse_diff
from conductor.core.verdict import merge
from conductor.ports import Cancelled, Forge, ReviewRequest, ReviewStep, Worktrees
from conductor.review.changes import diff_of, knows
from conductor.review.context import StepContext
from conductor.review.coverage import coverage
from conductor.review.detection import detect
from conductor.review.registry import make_steps
from schemas.config import Config
from schemas.errors import Fault, NeedsPerson, NotSo
from schemas.review import Review, ReviewPacket, StepReport
from schemas.text import one_line

GRACE = 30.0
"""Seconds beyond its own time after which a step that does not answer is given up."""
_TICK = 0.1

_log = logging.getLogger(__name__)


class StepsReviewer:
    """The conductor's own review (review protocol). ``steps``: other ones than the configuration selects."""

    def __init__(
        self,
        worktrees: Worktrees,
        forge: Forge,
        config: Config,
        root: Path,
        *,
        steps: Sequence[ReviewStep] | None = None,
        grace: float = GRACE,
    ) -> None:
        self._worktrees = worktrees
        self._forge = forge
        self._config = config
        self._context = StepContext(config, root, detect)
        self._steps = steps
        self._grace = grace

    def review(self, request: ReviewRequest, cancelled: Callable[[], bool]) -> Review:
        """A review of exactly this head and base.

        Raises ``Cancelled``, ``NeedsPerson`` where nothing blocks but not everything could run, and the
        faults of forge and git. The scratch checkout is gone afterwards, whatever came of it.
        """
        steps = make_steps(self._context) if self._steps is None else tuple(self._steps)
        if cancelled():
            raise Cancelled
        name = re.sub(r"[^\w.-]+", "-", f"review-{request.review_id}")
        checkout = self._worktrees.scratch(request.head, name)
        try:
            packet = self._packet(request, checkout)
            request.told("running")
            time_limit = self._config.review.step_timeout + self._grace
            reports = run_steps(steps, packet, cancelled, parallel=self._config.review.parallel, time_limit=time_limit)
        finally:
            self._drop(checkout)
        request.told("merging")
        return self._conclude(request, reports, steps, {step.name for step in steps if is_advisory(step)})

    def _packet(self, request: ReviewRequest, checkout: Path) -> ReviewPacket:
        diff = self._diff(request, checkout)
        return ReviewPacket(
            review_id=request.review_id,
            cycle=request.cycle,
            pane=request.pane,
            pr=self._forge.pull_request(request.pr_number),
            head=request.head,
            base=request.base,
            issue=self._forge.issue(request.issue) if request.issue is not None else None,
            diff=diff,
            changed_files=tuple(change.path for change in parse_diff(diff)),
            earlier=request.earlier,
            checkout=str(checkout),
            lenses=dict(self._config.review.lenses),
        )

    def _diff(self, request: ReviewRequest, checkout: Path) -> str:
        """From git, which cannot be of another head than the one reviewed; a missing base is fetched once."""
        run = self._context.run
        if not knows(checkout, request.base, run):
            offline = self._worktrees.fetch()
            if not knows(checkout, request.base, run):
                why = f" (fetching failed: {offline})" if offline else ""
                raise NotSo(
                    f"the base commit {request.base[:12]} of #{request.pr_number} is not here{why}",
                    "Fetch the base branch, then have the review made again.",
                )
        return diff_of(checkout, request.base, request.head, run)

    def _drop(self, checkout: Path) -> None:
        try:
            self._worktrees.drop_scratch(checkout)
        except (Fault, OSError):
            # The review stands on what was read; the next one of this name makes the folder anew.
            _log.exception("the scratch checkout %s could not be removed", checkout)

    def _conclude(
        self, request: ReviewRequest, reports: Sequence[StepReport], steps: Sequence[ReviewStep], advisory: set[str]
    ) -> Review:
        merged = merge(reports, request.earlier, advisory=advisory)
        if merged.verdict is None:
            failed = "\n".join(f"- {report.step}: {one_line(report.detail, 600)}" for report in merged.not_run)
            raise NeedsPerson(
                f"pull request #{request.pr_number} was not judged at {request.head[:12]}: nothing blocks "
                f"it, but these steps could not run:\n{failed}",
                "Mend that or change [review] in .taskmaestro/config.toml, then have it reviewed again.",
            )
        return Review(
            review_id=request.review_id,
            cycle=request.cycle,
            head=request.head,
            base=request.base,
            verdict=merged.verdict,
            findings=merged.findings,
            steps=tuple(reports),
            **coverage(steps, reports, self._config.review.lenses, self._config.review.parallel)._asdict(),
        )


def is_advisory(step: ReviewStep) -> bool:
    """A step may say of itself (``advisory = True``) that an approval does not depend on its having run."""
    return bool(getattr(step, "advisory", False))


def run_steps(
    steps: Sequence[ReviewStep],
    packet: ReviewPacket,
    cancelled: Callable[[], bool],
    *,
    parallel: int,
    time_limit: float,
) -> tuple[StepReport, ...]:
    """The reports of all steps, in the order of the steps; at most ``parallel`` run at a time.

    A step that raises, or says nothing within ``time_limit`` seconds, could not run; the others go on.
    Threads are daemons and not a pool, so that one that never returns holds up neither the review nor the
    program's end. Raises ``Cancelled`` once the running steps have stopped, or at the latest after
    ``time_limit``.
    """
    table = _Table(steps, packet, cancelled, time_limit)
    while not table.done():
        if cancelled():
            table.stop()
        table.start(parallel)
        table.wait(_TICK)
    if table.stopped:
        raise Cancelled
    return table.reports()


class _Table:
    """Which steps wait, run and have answered. Its lock guards the answers, which threads put in."""

    def __init__(
        self,
        steps: Sequence[ReviewStep],
        packet: ReviewPacket,
        cancelled: Callable[[], bool],
        time_limit: float,
    ) -> None:
        self._steps = steps
        self._packet = packet
        self._cancelled = cancelled
        self._limit = time_limit
        self._waiting = list(range(len(steps)))
        self._running: dict[int, float] = {}
        self._answers: dict[int, StepReport] = {}
        self._changed = threading.Condition()
        self.stopped = False

    def start(self, parallel: int) -> None:
        with self._changed:
            while self._waiting and len(self._running) < parallel:
                number = self._waiting.pop(0)
                self._running[number] = time.monotonic()
                name = f"review-{self._steps[number].name}"
                threading.Thread(target=self._run, args=(number,), name=name, daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._waiting.clear()

    def done(self) -> bool:
        with self._changed:
            return not self._waiting and not self._running

    def wait(self, seconds: float) -> None:
        """Until a step has answered, or so long; then give up those that are over their time."""
        with self._changed:
            if self._running:
                self._changed.wait(seconds)
            now = time.monotonic()
            for number in [n for n, began in self._running.items() if now - began > self._limit]:
                detail = f"it did not end within {self._limit:.0f} s and was given up"
                self._put(number, self._failed(number, detail))

    def reports(self) -> tuple[StepReport, ...]:
        with self._changed:
            return tuple(self._answers[number] for number in range(len(self._steps)))

    def _run(self, number: int) -> None:
        try:
            report = self._named(number, self._steps[number].run(self._packet, self._cancelled))
        except Cancelled:
            self.stop()
            report = self._failed(number, "cancelled")
        except Fault as fault:
            report = self._failed(number, str(fault))
        except Exception as fault:  # a step's defect must not take the other steps with it
            _log.exception("review step %s failed", self._steps[number].name)
            report = self._failed(number, f"defect in the step: {type(fault).__name__}: {one_line(str(fault), 300)}")
        with self._changed:
            if number in self._running:  # else it was given up
                self._put(number, report)

    def _named(self, number: int, answer: object) -> StepReport:
        """The report under the step's own name: what it is advisory by, and what earlier findings are found by."""
        if not isinstance(answer, StepReport):
            return self._failed(number, f"defect in the step: it answered {type(answer).__name__} and no report")
        return answer.model_copy(update={"step": self._steps[number].name})

    def _put(self, number: int, report: StepReport) -> None:
        del self._running[number]
        self._answers[number] = report
        self._changed.notify_all()

    def _failed(self, number: int, detail: str) -> StepReport:
        return StepReport(step=self._steps[number].name, outcome="could_not_run", detail=detail)
