"""The record that the battery passed for exactly one commit: evidence for the draft gate."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Frozen, Moment, Sha


class ValidatedStage(Frozen):
    """One stage of the battery that passed. ``argv``: what was run."""

    slot: str
    argv: tuple[str, ...]
    seconds: float = Field(ge=0)


class Validation(Frozen):
    """``state/validations/<head>.json``: written when all stages passed in a checkout of ``head`` without changes."""

    head: Sha
    at: Moment
    stages: tuple[ValidatedStage, ...] = Field(min_length=1)
