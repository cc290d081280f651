"""A request and an answer, as the server passes them around."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """``path`` is unquoted and without the prefix of an enterprise server; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass
class Answer:
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, status: int, value: Any, **headers: str) -> Answer:
        return cls(status, json.dumps(value).encode(), dict(headers))
