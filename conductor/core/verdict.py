"""The verdict of a review, from what its steps report. Pure.

Approve when nothing blocks: no critical finding, no high one that was not deferred, and every step that is
not advisory has run. A step that could not run is never read as "no findings" (review protocol):

* where something else blocks, changes are requested and the review names the step, which runs again at the
  re-review;
* where nothing else blocks there is no verdict. It does not become a finding, because the worker cannot mend
  a tool that is missing on the reviewer's side, and each of a pull request's few reviews would be spent on
  it. A person is told what could not run and why, and can have the review made again.

What the worker *can* mend is a finding of the step itself: tests that never end, a command that fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from schemas.finding import Finding
from schemas.review import EarlierReview, StepReport, Verdict


@dataclass(frozen=True)
class Merged:
    """All findings, most severe first, and what follows from them."""

    findings: tuple[Finding, ...]
    verdict: Verdict | None
    """None: nothing blocks, but not everything ran, so there is nothing to say yes or no with."""
    not_run: tuple[StepReport, ...] = ()
    """The steps that could not run and that had to."""
    remaining: tuple[Finding, ...] = ()
    """Findings that an earlier review has asked for already."""
    resolved: tuple[Finding, ...] = ()
    """Blocking findings of the last earlier review that are gone. Only known where their step ran."""


def merge(
    reports: Sequence[StepReport], earlier: Sequence[EarlierReview] = (), *, advisory: Collection[str] = ()
) -> Merged:
    """Findings of all reports without repeats (path, line and message alike: the first stays), and the
    verdict.

    ``advisory`` names steps that need not have run. In a re-review the findings asked for before come first
    among their equals, and keep a deferral granted then. A new medium or low finding never blocks, so that no
    review of a fix reopens for a minor thing.
    """
    asked = {finding.fingerprint: finding for review in earlier for finding in review.findings}
    findings = [_with_deferral(finding, asked.get(finding.fingerprint)) for finding in _distinct(reports)]
    findings.sort(key=lambda f: (f.severity.rank, f.deferred is not None, f.fingerprint not in asked, f.path, f.line))
    not_run = tuple(r for r in reports if r.outcome == "could_not_run" and r.step not in advisory)
    return Merged(
        findings=tuple(findings),
        verdict=_verdict(findings, not_run),
        not_run=not_run,
        remaining=tuple(finding for finding in findings if finding.fingerprint in asked),
        resolved=_resolved(findings, reports, earlier),
    )


def _verdict(findings: Iterable[Finding], not_run: Sequence[StepReport]) -> Verdict | None:
    if any(finding.blocking for finding in findings):
        return Verdict.CHANGES
    return None if not_run else Verdict.APPROVE


def _distinct(reports: Iterable[StepReport]) -> list[Finding]:
    seen: dict[tuple[str, int, str], Finding] = {}
    for report in reports:
        for finding in report.findings:
            named = finding if finding.step else finding.model_copy(update={"step": report.step})
            seen.setdefault((finding.path, finding.line, finding.message.casefold()), named)
    return list(seen.values())


def _with_deferral(finding: Finding, before: Finding | None) -> Finding:
    if before is None or before.deferred is None or finding.deferred is not None or finding.severity.rank == 0:
        return finding
    return finding.model_copy(update={"deferred": before.deferred})


def _resolved(
    findings: Iterable[Finding], reports: Iterable[StepReport], earlier: Sequence[EarlierReview]
) -> tuple[Finding, ...]:
    if not earlier:
        return ()
    now = {finding.fingerprint for finding in findings}
    ran = {report.step for report in reports if report.outcome == "ran"}
    return tuple(f for f in earlier[-1].findings if f.blocking and f.fingerprint not in now and f.step in ran)
