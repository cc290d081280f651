"""Takes tokens out of text before it leaves the adapter: no message, log or journal may hold one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from schemas.forge import TOKEN_VARIABLES

HIDDEN = "[token]"
_SHORTEST = 6
"""A value with fewer characters is no token; hiding it would only spoil words."""
_LOOKS_LIKE = re.compile(r"\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{6,}")
_HEADER = re.compile(r"(?i)(\b(?:authorization|proxy-authorization)\s*[:=]\s*)(?:(?:token|bearer|basic)\s+)?\S+")
_IN_URL = re.compile(r"(?i)\b(https?://)[^/@\s]+@")


def redacted(text: str, environment: Mapping[str, str] | None = None) -> str:
    """What people wrote, without GitHub tokens and the values of the token variables; every other word stays."""
    given = os.environ if environment is None else environment
    for name in TOKEN_VARIABLES:
        value = given.get(name, "").strip()
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    return _LOOKS_LIKE.sub(HIDDEN, text)


def redacted_output(text: str, environment: Mapping[str, str] | None = None) -> str:
    """What a program or a server said: also without credentials in headers and URLs, in whatever form they are."""
    text = _HEADER.sub(rf"\1{HIDDEN}", redacted(text, environment))
    return _IN_URL.sub(rf"\1{HIDDEN}@", text)
