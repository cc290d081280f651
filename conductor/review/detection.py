"""The one place where reviews ask the worker's battery what a project's commands are."""

from __future__ import annotations

from pathlib import Path

from conductor.review.context import DetectedCommand
from worker import battery


def detect(checkout: Path, root: Path) -> dict[str, DetectedCommand]:
    """The project's commands by slot, found in the checkout; installed tools are looked for in ``root``
    too.
    """
    found = battery.detect(checkout, root).commands
    return {
        str(slot): DetectedCommand(command.argv, command.check, dict(command.env)) for slot, command in found.items()
    }
