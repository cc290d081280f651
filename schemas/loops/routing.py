"""Which loop acts next: what that is decided from, and the hand-over that comes out.

Review protocol, routing. The target is an identity: it is never rounded or guessed.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from schemas.loops.fields import Field, as_object, flag, one_of, read_all, text, text_or_none, whole_positive_or_none

SOURCE_MODES = ("authoritative", "local", "snapshot")
OWNERSHIPS = ("live_owner", "duplicate_local_owners")
OUTER_ACTIONS = ("continue_wait", "reenter_copilot_loop", "reenter_reviewer_loop", "stop", "done")


class Target(NamedTuple):
    """A pull request. ``repo`` is trimmed and in lower case, ``pr`` at least 1; None where it was not readable."""

    repo: str | None
    pr: int | None

    @property
    def complete(self) -> bool:
        return self.repo is not None and self.pr is not None


class RoutingInput(NamedTuple):
    """In normal form; made by ``read_routing``. States that this project does not know are kept as they are."""

    target: Target | None
    copilot_state: str | None
    reviewer_state: str | None
    ownership_state: str | None
    source_mode: str
    requires_local_isolation: bool


class HandoffEnvelope(NamedTuple):
    """All that the loop which acts next must be told, so that nobody repeats the decision."""

    target: Target | None
    loop_family: str | None
    entrypoint: str | None
    reason: str
    required_args: dict[str, Any]
    requires_local_isolation: bool
    confidence: str


class Routing(NamedTuple):
    """The decision. ``stop_reason`` is set exactly where ``outer_action`` is ``stop``."""

    outcome: str
    outer_action: str
    stop_reason: str | None
    envelope: HandoffEnvelope


_NAME = r"(?!\.{1,2}(?:/|$))[a-z0-9._-]+"
_REPO = re.compile(rf"{_NAME}/{_NAME}")


def repo_or_none(value: Any) -> str | None:
    """``owner/name``, trimmed and in lower case; None for all that no forge takes as one."""
    repo = (text_or_none(value) or "").lower()
    return repo if _REPO.fullmatch(repo) else None


def read_target(value: Any) -> Target | None:
    """The target, with None for each part that cannot be read; None where it is not an object."""
    if not isinstance(value, dict):
        return None
    return Target(repo_or_none(value.get("repo")), whole_positive_or_none(value.get("pr")))


_TARGET = {
    "type": ["object", "null"],
    "properties": {"repo": {"type": ["string", "null"]}, "pr": {"type": ["integer", "null"], "minimum": 1}},
    "required": ["repo", "pr"],
    "description": "the pull request: repo as owner/name, pr its number",
}

FIELDS: tuple[Field, ...] = (
    Field("target", read_target, _TARGET),
    text("copilotState", "the state of the follow-up loop"),
    text("reviewerState", "the state of the reviewer loop"),
    one_of("ownershipState", "who holds the pull request on this machine", OWNERSHIPS, None),
    one_of("sourceMode", "where the states come from", SOURCE_MODES, "local"),
    flag("requiresLocalIsolation", "the work needs a worktree of its own"),
)


def read_routing(raw: object) -> RoutingInput:
    """The input in normal form. Raises ``BadInput`` only where ``raw`` is not an object."""
    return RoutingInput._make(read_all(FIELDS, as_object(raw, "routing input")))


def write_target(target: Target | None) -> dict[str, Any] | None:
    """The target as a JSON object."""
    return None if target is None else target._asdict()


def write_routing_input(value: RoutingInput) -> dict[str, Any]:
    """The input as a JSON object."""
    names = (field.name for field in FIELDS)
    return dict(zip(names, (write_target(value.target), *value[1:]), strict=True))


def write_routing(routing: Routing) -> dict[str, Any]:
    """The decision as a JSON object, with the envelope in it."""
    return {
        "routingOutcome": routing.outcome,
        "outerAction": routing.outer_action,
        "stopReason": routing.stop_reason,
        "handoffEnvelope": write_envelope(routing.envelope),
    }


def write_envelope(envelope: HandoffEnvelope) -> dict[str, Any]:
    """The envelope as a JSON object."""
    return {
        "targetIdentity": write_target(envelope.target),
        "loopFamily": envelope.loop_family,
        "entrypoint": envelope.entrypoint,
        "reason": envelope.reason,
        "requiredArgs": envelope.required_args,
        "requiresLocalIsolation": envelope.requires_local_isolation,
        "confidence": envelope.confidence,
    }
