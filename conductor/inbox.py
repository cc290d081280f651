"""The inbox: how the command line tells the conductor something, whether it runs now or later.

A request is one file of ``state/inbox``, written whole. The conductor journals its events, then removes it; the
request's id keeps a crash in between from taking it twice.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.events import EVENT, Event
from schemas.text import one_line
from worker.tools.files import replace_file


def new_request() -> str:
    """An id for a request; requests sort by the moment that they were made."""
    return f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"


def put(inbox: Path, request: str, events: Sequence[Event]) -> Path:
    """Leave these events for the conductor, to be taken together and in this order."""
    inbox.mkdir(parents=True, exist_ok=True)
    path = inbox / f"{request}.json"
    replace_file(path, json.dumps([EVENT.dump_python(event, mode="json") for event in events]))
    return path


def waiting(inbox: Path) -> list[Path]:
    """The requests that were not taken yet, oldest first."""
    return sorted(inbox.glob("*.json")) if inbox.is_dir() else []


def events_of(path: Path) -> tuple[Event, ...]:
    """The events of one request. Raises ``BadInput`` where it is not one, ``FileNotFoundError`` where it was taken."""
    raw = path.read_bytes()
    try:
        listed = json.loads(raw)
        return tuple(EVENT.validate_python(event) for event in listed)
    except (ValueError, TypeError, ValidationError) as fault:
        raise BadInput(f"{path}: not a request ({one_line(str(fault))})", "It is moved to the quarantine.") from None
