"""The outer loop's checkpoint of one pull request: what a fresh start reads to know where the last one left off.

Review protocol, "Outer-loop checkpoint": eleven fields, all always there. It is the only source for that, so a file
that is not one is an error and never read as "nothing yet".
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from schemas.errors import BadInput
from schemas.loops.fields import as_object, count_or_none, kind_of, text_or_none, whole_positive_or_none
from schemas.loops.routing import OUTER_ACTIONS, repo_or_none

_SCOPES = ("single_reviewer", "all_reviewers")


class Checkpoint(NamedTuple):
    """``timestamp``: ISO 8601, UTC. ``reason``: the stop reason, None unless ``outer_action`` is ``stop``."""

    pr: int
    repo: str
    outer_action: str
    copilot_state: str
    reviewer_state: str
    reviewer_scope: str
    reviewer_login: str | None
    reason: str | None
    timestamp: str
    wait_cycles: int
    head_sha: str | None


NAMES = (
    "pr",
    "repo",
    "outerAction",
    "copilotState",
    "reviewerState",
    "reviewerScope",
    "reviewerLogin",
    "reason",
    "timestamp",
    "waitCycles",
    "headSha",
)
"""The JSON names, in the order of the attributes."""


def read_checkpoint(raw: object) -> Checkpoint:
    """A checkpoint as it was written. Raises ``BadInput`` that names the field which is missing or wrong."""
    value = as_object(raw, "checkpoint")
    missing = [name for name in NAMES if name not in value]
    if missing:
        raise BadInput(f"the checkpoint has no {', '.join(missing)}", HINT)
    action, scope = value["outerAction"], value["reviewerScope"]
    return Checkpoint(
        pr=_need(whole_positive_or_none(value["pr"]), "pr", value),
        repo=_need(repo_or_none(value["repo"]), "repo", value),
        outer_action=_need(action if action in OUTER_ACTIONS else None, "outerAction", value),
        copilot_state=_need(text_or_none(value["copilotState"]), "copilotState", value),
        reviewer_state=_need(text_or_none(value["reviewerState"]), "reviewerState", value),
        reviewer_scope=_need(scope if scope in _SCOPES else None, "reviewerScope", value),
        reviewer_login=text_or_none(value["reviewerLogin"]),
        reason=text_or_none(value["reason"]),
        timestamp=_need(_moment(value["timestamp"]), "timestamp", value),
        wait_cycles=_need(count_or_none(value["waitCycles"]), "waitCycles", value),
        head_sha=text_or_none(value["headSha"]),
    )


HINT = "Move the file away to start afresh; the next cycle writes a new one."


def _need(found: Any, name: str, value: Any) -> Any:
    if found is None:
        raise BadInput(f"the checkpoint's {name} is {kind_of(value[name])} that means nothing here", HINT)
    return found


def _moment(value: object) -> str | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.astimezone(UTC).isoformat() if moment is not None and moment.tzinfo is not None else None


def write_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """The checkpoint as a JSON object."""
    return dict(zip(NAMES, checkpoint, strict=True))


def checkpoint_schema() -> dict[str, Any]:
    """The JSON Schema of a checkpoint."""
    nothing: dict[str, Any] = {"type": ["string", "null"]}
    some: dict[str, Any] = {"type": "string", "minLength": 1}
    kinds: dict[str, dict[str, Any]] = {
        "pr": {"type": "integer", "minimum": 1},
        "repo": {**some, "description": "owner/name, in lower case"},
        "outerAction": {"enum": list(OUTER_ACTIONS)},
        "copilotState": {**some, "description": "the state of the follow-up loop"},
        "reviewerState": {**some, "description": "the state of the reviewer loop"},
        "reviewerScope": {"enum": list(_SCOPES)},
        "reviewerLogin": {**nothing, "description": "null unless the scope is single_reviewer"},
        "reason": {**nothing, "description": "the stop reason; null unless outerAction is stop"},
        "timestamp": {"type": "string", "format": "date-time"},
        "waitCycles": {"type": "integer", "minimum": 0},
        "headSha": {**nothing, "description": "the head at that time; null where it was not known"},
    }
    return {
        "title": "Checkpoint",
        "description": "Where the outer loop of one pull request left off.",
        "type": "object",
        "properties": kinds,
        "required": list(NAMES),
    }
