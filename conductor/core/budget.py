"""How often a forge may be asked, so that its rate limit does not run out before it is refilled.

The rules of ``forge.md`` ("back-off shared by all panes"): a tenth of the limit stays for people and for what must be
written (reviews, comments, tasks' pull requests); what is left of the window is spread over its time.
"""

from __future__ import annotations

from datetime import datetime

from schemas.forge import ApiBudget

RESERVE = 0.1
"""The share of the limit that polling leaves alone."""


def spent(before: ApiBudget | None, after: ApiBudget) -> int:
    """Points that went between two looks in one window, whoever spent them; at least 1."""
    if before is None or before.reset_at != after.reset_at:
        return 1
    return max(1, before.remaining - after.remaining)


def pause_for(budget: ApiBudget, points: int, interval: float, now: datetime) -> float:
    """Seconds until the next round of questions that costs ``points``: ``interval``, or as much longer as it must be.

    Where nothing but the reserve is left, the time until the window is over.
    """
    left = max(0.0, (budget.reset_at - now).total_seconds())
    usable = budget.remaining - budget.limit * RESERVE
    rounds = usable / points
    if rounds < 1:
        return max(interval, left + 1.0) if left else interval
    return max(interval, min(left, left / rounds))
