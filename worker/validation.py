"""Writes down that the battery passed for exactly one commit (docs/contracts.md, "The draft gate")."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from schemas.validation import ValidatedStage, Validation
from worker.battery import Stage
from worker.tools.files import replace_file


def record(main: Path, head: str, stages: Sequence[Stage]) -> Validation:
    """Keep the record below the main checkout. ``stages``: all that ran, at least one, all of them passed.

    The caller answers for the checkout having been ``head`` and nothing else while they ran.
    """
    passed = tuple(
        ValidatedStage(slot=stage.slot, argv=tuple(stage.command.argv), seconds=round(stage.outcome.seconds, 2))
        for stage in stages
    )
    made = Validation(head=head, at=datetime.now(UTC), stages=passed)
    path = main / ".taskmaestro" / "state" / "validations" / f"{head}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, made.model_dump_json(indent=2) + "\n")
    return made
