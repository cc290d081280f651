"""What the loops' tables are made of: ordered rules over a snapshot, and the moves between states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

Snapshot = TypeVar("Snapshot")
State = TypeVar("State", bound=StrEnum)


class Rule(NamedTuple, Generic[Snapshot, State]):
    """Where ``holds``, the state is this one, unless an earlier rule held. ``name`` says when, for people."""

    name: str
    holds: Callable[[Snapshot], bool]
    state: State


class Move(NamedTuple, Generic[State]):
    """A move that may be seen from one snapshot to a later one. ``wide``: one of a move that many states have."""

    source: State
    target: State
    when: str
    wide: bool = False


def always(_snapshot: object) -> bool:
    """The guard of a last rule, which makes a table total."""
    return True


def first(rules: Iterable[Rule[Snapshot, State]], snapshot: Snapshot) -> Rule[Snapshot, State]:
    """The first rule that holds. Raises ``LookupError`` for a table whose last rule is not ``always``: a defect."""
    for rule in rules:
        if rule.holds(snapshot):
            return rule
    raise LookupError("the table has no last rule")


def expand(sources: Iterable[State], target: State, when: str) -> tuple[Move[State], ...]:
    """One move from each of the sources: an "any ... state" line of the protocol."""
    return tuple(Move(source, target, when, wide=True) for source in sources)


def followers(states: type[State], moves: Iterable[Move[State]]) -> dict[State, tuple[State, ...]]:
    """For every state the states that may follow, in alphabetical order."""
    found: dict[State, set[State]] = {state: set() for state in states}
    for move in moves:
        found[move.source].add(move.target)
    return {state: tuple(sorted(targets)) for state, targets in found.items()}
