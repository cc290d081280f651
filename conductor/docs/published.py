"""schemas/json: the contracts as JSON Schema files, generated from the models."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from pydantic import BaseModel, TypeAdapter

from schemas.config import Config
from schemas.events import EVENT
from schemas.finding import Finding
from schemas.journal import JOURNAL_LINE
from schemas.loops import checkpoint, fields, follow_up, local_state, review, reviewer, routing
from schemas.pane import PaneState
from schemas.result import Result
from schemas.review import Review, ReviewPacket
from schemas.validation import Validation

Source = type[BaseModel] | TypeAdapter[Any] | partial[dict[str, Any]]
PUBLISHED: dict[str, tuple[str, Source]] = {
    "result": ("RESULT.json, which a worker writes", Result),
    "pane-state": ("state/panes/N.json, which the conductor writes", PaneState),
    "journal-line": ("one line of state/journal.jsonl", JOURNAL_LINE),
    "event": ("what an event line of the journal carries", EVENT),
    "config": (".taskmaestro/config.toml", Config),
    "review-packet": ("what a reviewer program reads on its standard input", ReviewPacket),
    "finding": ("one finding, as a reviewer program answers it", Finding),
    "review": ("a finished review, as the journal keeps it", Review),
    "reviewer-snapshot": (
        "what loop reviewer answers as its snapshot; it takes any object",
        partial(fields.object_schema, "ReviewerSnapshot", "The reviewer loop's snapshot.", reviewer.FIELDS),
    ),
    "follow-up-snapshot": (
        "what loop follow-up answers as its snapshot; it takes any object",
        partial(fields.object_schema, "FollowUpSnapshot", "The follow-up loop's snapshot.", follow_up.FIELDS),
    ),
    "follow-up-limits": (
        "what loop follow-up takes as --config",
        partial(fields.object_schema, "FollowUpLimits", "When the loop stops by itself.", follow_up.LIMIT_FIELDS),
    ),
    "local-state": (
        "state/reviews/pr-N.json, and what loop reviewer takes as --local-state",
        partial(fields.object_schema, "LocalState", "What a review pass knows of itself.", local_state.FIELDS),
    ),
    "validation": ("state/validations/SHA.json, which ship and pr verify write", Validation),
    "routing-input": (
        "what loop route takes",
        partial(fields.object_schema, "RoutingInput", "The states of both loops.", routing.FIELDS),
    ),
    "merged-review": ("what loop merge answers and loop draft takes", partial(review.merged_schema)),
    "draft-review": ("what loop draft answers", partial(review.draft_schema)),
    "checkpoint": (
        "state/checkpoints/OWNER/REPO/pr-N.json, which the outer loop writes",
        partial(checkpoint.checkpoint_schema),
    ),
}
"""Name of each published schema, what it is for, and its model."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of this name: what a reader accepts."""
    what, model = PUBLISHED[name]
    if isinstance(model, partial):
        made = model()
    else:
        made = model.json_schema() if isinstance(model, TypeAdapter) else model.model_json_schema()
    return {"$schema": _DIALECT, "$comment": f"taskmaestro: {what}", **made}


def files() -> dict[str, str]:
    """Name and text of every schema file."""
    return {name: json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n" for name in PUBLISHED}
