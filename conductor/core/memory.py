"""The fold: the journal's lines into states and outstanding effects. The same lines always give the same memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from conductor.core.cycle import apply, settle_done
from conductor.core.state import Fleet
from schemas.effects import Effect
from schemas.events import Event
from schemas.journal import EventLine, IntentLine, JournalLine, ResultLine


@dataclass
class Outstanding:
    """An effect that was decided and has no result yet. ``intended``: it may have been begun."""

    key: str
    effect: Effect
    intended: bool = False


@dataclass(frozen=True)
class Step:
    """What one line did: the rule that took its event, and the keys of the effects that came of it."""

    rule: str
    keys: tuple[str, ...] = ()


@dataclass
class Memory:
    """All that the conductor knows. ``outstanding`` is in the order in which the effects were decided."""

    fleet: Fleet = field(default_factory=Fleet)
    outstanding: dict[str, Outstanding] = field(default_factory=dict)
    last_seq: int = 0

    def take(self, line: JournalLine) -> Step:
        """Fold one line in."""
        self.last_seq = line.seq
        if isinstance(line, EventLine):
            return self._apply(line.seq, line.event)
        if isinstance(line, IntentLine):
            if line.key in self.outstanding:
                self.outstanding[line.key].intended = True
            return Step("intent")
        if isinstance(line, ResultLine):
            self.outstanding.pop(line.key, None)
            if line.outcome != "failed":
                self.fleet = settle_done(self.fleet, line.pane, line.effect)
            return self._apply(line.seq, line.event) if line.event is not None else Step("result")
        return Step("note")

    def _apply(self, seq: int, event: Event) -> Step:
        self.fleet, effects, rule = apply(self.fleet, event)
        keys = tuple(f"{seq}.{position}" for position in range(len(effects)))
        for key, effect in zip(keys, effects, strict=True):
            self.outstanding[key] = Outstanding(key, effect)
        return Step(rule, keys)


def remember(lines: Iterable[JournalLine]) -> Memory:
    """The memory that these lines make."""
    memory = Memory()
    for line in lines:
        memory.take(line)
    return memory
