"""CI of one head as the follow-up loop sees it: failure, pending, success, none, crediblyGreen.

Review protocol, follow-up loop. Only signals of exactly this head count; a verdict for another head is never used.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """What one check or status came to."""

    FAILURE = "failure"
    UNFINISHED = "unfinished"
    SUCCESS = "success"


class Signal(NamedTuple):
    """One check or commit status; ``head`` is the full commit that it is for."""

    head: str
    outcome: Outcome


class Credit(NamedTuple):
    """What may stand in for CI where a head has no suite and no status at all.

    ``suites``: check suites that the forge made for the head, empty ones too. ``validated_head``: the commit for which
    the local battery passed.
    """

    suites: int
    previous_green: bool
    validated_head: str | None


_OUTCOMES: dict[str, Outcome] = {
    "success": Outcome.SUCCESS,
    "neutral": Outcome.SUCCESS,
    "skipped": Outcome.SUCCESS,
    "passed": Outcome.SUCCESS,
    "failure": Outcome.FAILURE,
    "failed": Outcome.FAILURE,
    "error": Outcome.FAILURE,
    "cancelled": Outcome.FAILURE,
    "timed_out": Outcome.FAILURE,
    "action_required": Outcome.FAILURE,
    "startup_failure": Outcome.FAILURE,
}


def outcome_of(word: str | None) -> Outcome:
    """A forge's word for a conclusion or state; what is not known here is unfinished, never green."""
    return _OUTCOMES.get((word or "").strip().lower(), Outcome.UNFINISHED)


def ci_status(head: str | None, signals: Iterable[Signal], credit: Credit | None = None) -> str:
    """The ``ciStatus`` of a snapshot. Pure and total.

    Any failure, else anything unfinished, else any success; ``none`` without signals of this head, or
    ``crediblyGreen`` where no suite exists either, the previous head was green and this very head was validated.
    """
    outcomes = {signal.outcome for signal in signals if head is not None and signal.head == head}
    if Outcome.FAILURE in outcomes:
        return "failure"
    if Outcome.UNFINISHED in outcomes:
        return "pending"
    if Outcome.SUCCESS in outcomes:
        return "success"
    if head is None or credit is None or credit.suites > 0:
        return "none"
    return "crediblyGreen" if credit.previous_green and credit.validated_head == head else "none"
