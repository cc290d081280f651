"""The lines of ``state/journal.jsonl``: events, intents, results of effects, and notes.

A result may carry the event that came of the effect, so that "done" and "what came of it" are one line: there is no
instant at which one of them is remembered without the other.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Frozen, Moment
from schemas.events import Event


class Line(Frozen):
    """What all lines have: a sequence number without gaps, the moment in UTC, the host that wrote it."""

    seq: int = Field(ge=1)
    at: Moment
    host: str


class EventLine(Line):
    """Something was observed."""

    line: Literal["event"] = "event"
    event: Event


class IntentLine(Line):
    """The effect ``key`` is about to be carried out."""

    line: Literal["intent"] = "intent"
    key: str
    effect: str
    pane: int


class ResultLine(Line):
    """The effect ``key`` ended. ``dropped``: it was not wanted any more when its turn came."""

    line: Literal["result"] = "result"
    key: str
    effect: str
    pane: int
    outcome: Literal["done", "failed", "dropped"]
    detail: str = ""
    event: Event | None = None


class NoteLine(Line):
    """Something for people: a start, a stop, a torn line that was kept aside."""

    line: Literal["note"] = "note"
    text: str
    pane: int | None = None


JournalLine = Annotated[EventLine | IntentLine | ResultLine | NoteLine, Field(discriminator="line")]
JOURNAL_LINE: TypeAdapter[JournalLine] = TypeAdapter(JournalLine)
