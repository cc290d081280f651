"""The base of all models here: frozen values, strict about unknown fields unless a contract says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, StringConstraints


def _to_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A point in time, always UTC."""

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
"""A git object name in lower-case hexadecimal."""


class Frozen(BaseModel):
    """A value: it cannot be changed after it was made, and it refuses fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
