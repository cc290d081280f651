"""Text that others wrote, made safe: control characters stripped, lines bounded, data fenced.

Text of a pull request, an issue, a result file, a tool or a screen is untrusted. It passes through here
before a terminal, a prompt or a Markdown body sees it.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NEWLINES = re.compile(r"\r\n?|\u2028|\u2029|\x85")
_BLANKS = re.compile(r"\s+")
_TICKS = re.compile(r"`{3,}")


def clean(text: str) -> str:
    """The text without terminal control characters (C0 but newline and tab, DEL, C1) and direction overrides.

    CR LF and other line ends become newlines. Unpaired surrogates become U+FFFD so that it can be encoded.
    """
    text = _NEWLINES.sub("\n", text)
    return _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", _CONTROL.sub("", text)))


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line of at most ``limit`` characters, cleaned; a cut is shown as an ellipsis."""
    line = _BLANKS.sub(" ", clean(text)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def fenced(text: str, limit: int = 20_000) -> str:
    """The text as a Markdown code block that it cannot close itself; marked as data by the caller's words."""
    body = clean(text)
    if len(body) > limit:
        body = body[:limit] + f"\n… ({len(body) - limit} more characters)"
    longest = max((len(run) for run in _TICKS.findall(body)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body.rstrip()}\n{fence}"
