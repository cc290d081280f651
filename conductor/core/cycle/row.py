"""The shape of a row of the table: from which states, on which event, under which guard, to where, doing what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conductor.core.state import Pane
from schemas.config import CyclePolicy
from schemas.effects import Effect
from schemas.pane import Status

EVERY = frozenset(Status)
LIVE = EVERY - {Status.DONE}

Outcome = tuple[Pane, list[Effect]]
Guard = Callable[[Pane, Any, CyclePolicy], bool]
Action = Callable[[Pane, Any, CyclePolicy], Outcome]


def always(_pane: Pane, _event: object, _policy: CyclePolicy) -> bool:
    """The guard of a row that needs none."""
    return True


def nothing(pane: Pane, _event: object, _policy: CyclePolicy) -> Outcome:
    """The action of a row that changes nothing: the event is in the journal, and that is all."""
    return pane, []


@dataclass(frozen=True)
class Row:
    """One row. ``to`` lists every status that the action may end in; ``rule`` is its name in explanations."""

    rule: str
    sources: frozenset[Status]
    kind: str
    to: frozenset[Status] | None
    """None: the status stays as it is."""
    doc: str
    action: Action = nothing
    guard: Guard = always
