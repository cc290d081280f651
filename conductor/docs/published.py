"""schemas/json: the contracts as JSON Schema files, generated from the models."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter

from schemas.config import Config
from schemas.events import EVENT
from schemas.finding import Finding
from schemas.journal import JOURNAL_LINE
from schemas.pane import PaneState
from schemas.result import Result
from schemas.review import Review, ReviewPacket

PUBLISHED: dict[str, tuple[str, type[BaseModel] | TypeAdapter[Any]]] = {
    "result": ("RESULT.json, which a worker writes", Result),
    "pane-state": ("state/panes/N.json, which the conductor writes", PaneState),
    "journal-line": ("one line of state/journal.jsonl", JOURNAL_LINE),
    "event": ("what an event line of the journal carries", EVENT),
    "config": (".taskmaestro/config.toml", Config),
    "review-packet": ("what a reviewer program reads on its standard input", ReviewPacket),
    "finding": ("one finding, as a reviewer program answers it", Finding),
    "review": ("a finished review, as the journal keeps it", Review),
}
"""Name of each published schema, what it is for, and its model."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of this name: what a reader accepts."""
    what, model = PUBLISHED[name]
    made = model.json_schema() if isinstance(model, TypeAdapter) else model.model_json_schema()
    return {"$schema": _DIALECT, "$comment": f"taskmaestro: {what}", **made}


def files() -> dict[str, str]:
    """Name and text of every schema file."""
    return {name: json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n" for name in PUBLISHED}
