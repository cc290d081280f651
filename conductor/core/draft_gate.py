"""The draft gate: what must be so before a draft is made ready (review protocol, draft-first pull requests).

All of it is about exactly one head: a clean description, no open thread, checks that are green, and an inspection: the
battery's record for this commit, or a submitted review of it that asks for no changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conductor.core.description import Flaw
from schemas.forge import Checks, CheckState, PullRequest, SubmittedReview, Thread


class Evidence(NamedTuple):
    """What is known of the pull request at ``pull.head``. ``validated``: the battery is on record for this commit.

    ``credible``: there is no check at all, and that may count as green where the battery passed.
    """

    pull: PullRequest
    flaws: Sequence[Flaw]
    checks: Checks
    submitted: Sequence[SubmittedReview]
    threads: Sequence[Thread]
    validated: bool
    credible: bool


def reasons_against(evidence: Evidence) -> list[str]:
    """Why the gate stays closed, a line each; empty where it opens. Pure and total."""
    pull, checks = evidence.pull, evidence.checks
    found = [f"description, line {flaw.line}: {flaw.message}" for flaw in evidence.flaws]
    if checks.head != pull.head:
        found.append(f"the checks are of {checks.head[:12]}, and the head is {pull.head[:12]}")
    elif checks.state is CheckState.FAILED:
        found.append(f"checks failed: {', '.join(check.name for check in checks.failing) or 'see them'}")
    elif checks.state is not CheckState.PASSED and not _credible(evidence):
        found.append("checks are not green: " + checks.state.value.replace("_", " "))
    unresolved = sum(1 for thread in evidence.threads if not thread.resolved)
    if unresolved:
        found.append(f"{unresolved} review thread{'' if unresolved == 1 else 's'} not resolved")
    if any(_asks_for_changes(evidence)):
        found.append("a review of this head asks for changes")
    if not evidence.validated and not _reviewed(evidence):
        found.append("nobody has inspected this head: run `taskmaestro pr verify`, or have it reviewed")
    return found


def _credible(evidence: Evidence) -> bool:
    return evidence.credible and evidence.validated and evidence.checks.state is CheckState.NONE


def _last_words(evidence: Evidence) -> dict[str, SubmittedReview]:
    """The newest review of this head by each login other than the author."""
    others = (one for one in evidence.submitted if one.author != evidence.pull.author)
    return {one.author: one for one in others if one.commit == evidence.pull.head}


def _asks_for_changes(evidence: Evidence) -> list[bool]:
    return [one.state == "changes_requested" for one in _last_words(evidence).values()]


def _reviewed(evidence: Evidence) -> bool:
    return any(one.state in ("approved", "commented") for one in _last_words(evidence).values())
