"""How an attempt at an effect ended: done, to be tried again, or not possible any more."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.events import Event


@dataclass(frozen=True)
class Done:
    """The effect is done; ``event`` is what came of it."""

    event: Event | None = None
    detail: str = ""


@dataclass(frozen=True)
class Retry:
    """Not done, nothing half done. Try again after so many seconds, or when the pane's agent changes (``wake``)."""

    after: float
    reason: str
    event: Event | None = None
    wake: bool = False


@dataclass(frozen=True)
class Failed:
    """It cannot be done, and trying again would not help."""

    reason: str
    event: Event | None = None


Outcome = Done | Retry | Failed
