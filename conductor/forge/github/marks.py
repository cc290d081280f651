"""Markers: hidden lines in a body by which a post of ours is found again, so that nothing is posted twice.

A marker counts where it is a line of its own in a body of the acting login's: somebody who quotes one could otherwise
keep a review from being posted. What is posted without a marker gets one for the time of the call; it is left out when
the body is read.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from conductor.forge.github.redact import redacted
from conductor.forge.texts import checked_body, with_line, with_marker

_OWN = re.compile(r"(?:\n\n)?<!-- taskmaestro-post: [0-9a-f]{16} -->\s*\Z")
_COMMENT = re.compile(r"<!--.*-->")


class Marked(NamedTuple):
    """A body to be posted, and the line in it by which it is found again."""

    body: str
    marker: str


def marked(body: str, marker: str, *, empty: bool = False) -> Marked:
    """The body without tokens and with the marker, one of our own where none is given.

    Raises ``BadInput`` where too much is said, or nothing, unless it may be ``empty``.
    """
    text = redacted(checked_body(body) if empty else with_marker(body, ""))
    if not marker:
        marker = f"<!-- taskmaestro-post: {secrets.token_hex(8)} -->"
        text = with_line(text, marker)
    elif not stands_in(text, marker):
        text = with_line(text.rstrip(), marker)
    return Marked(checked_body(text), marker)


def stands_in(body: str | None, marker: str) -> bool:
    """Whether the marker is a line of the body."""
    return bool(marker) and any(line.strip() == marker.strip() for line in (body or "").splitlines())


def bare(body: str | None) -> str:
    """The body as it was meant: without our own markers, and without tokens."""
    return redacted(_OWN.sub("", (body or "").replace("\r\n", "\n")))


def last_marker(body: str) -> str:
    """The marker at the end of a body, empty where there is none."""
    lines = body.rstrip().splitlines()
    return lines[-1].strip() if lines and _COMMENT.fullmatch(lines[-1].strip()) else ""
