"""From the bytes that a terminal sends to keys and pastes; and the line that they make. No I/O."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from schemas.text import clean

PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"
MAX_PASTE = 8 * 1024 * 1024
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]|[^\x1b\[O])")
_PARTIAL = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?$")
_CONTROLS = {
    0x0D: "enter",
    0x0A: "newline",
    0x15: "clear",
    0x03: "interrupt",
    0x04: "eof",
    0x7F: "backspace",
    0x08: "backspace",
}
_SEQUENCES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"}


class Key(NamedTuple):
    """``name`` is text, paste, enter, newline, clear, interrupt, eof, backspace, escape, up or down."""

    name: str
    text: str = ""


class KeyReader:
    """Takes bytes as they come, in any pieces, and answers the keys that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._paste: bytearray | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> list[Key]:
        self._rest += data
        keys: list[Key] = []
        while self._rest:
            before = len(self._rest)
            key = self._in_paste() if self._paste is not None else self._next()
            if key is not None:
                keys.append(key)
            if len(self._rest) == before:
                break
        return keys

    def flush(self) -> list[Key]:
        """Nothing came for a while: an ESC that waits for more was the key itself."""
        if self._paste is None and self._rest == b"\x1b":
            self._rest = b""
            return [Key("escape")]
        return []

    @property
    def waiting(self) -> bool:
        """An ESC stands alone and may be a key, or the start of one."""
        return self._paste is None and self._rest == b"\x1b"

    def _in_paste(self) -> Key | None:
        paste = self._paste if self._paste is not None else bytearray()
        end = self._rest.find(PASTE_END)
        if end < 0:
            keep = next((size for size in range(5, 0, -1) if self._rest.endswith(PASTE_END[:size])), 0)
            cut = len(self._rest) - keep
            paste += self._rest[: min(cut, max(0, MAX_PASTE - len(paste)))]
            self._rest = self._rest[cut:]
            return None
        paste += self._rest[:end]
        self._rest = self._rest[end + len(PASTE_END) :]
        self._paste = None
        return Key("paste", clean(paste.decode("utf-8", "replace")))

    def _next(self) -> Key | None:
        if self._rest.startswith(PASTE_BEGIN):
            self._rest = self._rest[len(PASTE_BEGIN) :]
            self._paste = bytearray()
            return None
        if self._rest[0] == 0x1B:
            return self._sequence()
        name = _CONTROLS.get(self._rest[0])
        if name is not None:
            self._rest = self._rest[1:]
            return Key(name)
        found = re.match(rb"[^\x00-\x1f\x7f]+", self._rest)
        if found is None:  # a control key that means nothing here
            self._rest = self._rest[1:]
            return None
        self._rest = self._rest[found.end() :]
        text = clean(self._decode(found[0]))
        return Key("text", text) if text else None

    def _sequence(self) -> Key | None:
        if _PARTIAL.fullmatch(self._rest):
            return None
        found = _SEQUENCE.match(self._rest)
        if found is None:
            self._rest = self._rest[1:]
            return Key("escape")
        self._rest = self._rest[found.end() :]
        name = _SEQUENCES.get(found[0])
        return Key(name) if name else None


class Composer:
    """The input line: pieces of (what is shown, what is meant). A paste of several lines shows a
    placeholder.
    """

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str]] = []

    @property
    def shown(self) -> str:
        return "".join(shown for shown, _ in self.pieces)

    @property
    def text(self) -> str:
        return "".join(meant for _, meant in self.pieces)

    def insert(self, text: str) -> None:
        self.pieces += [(char, char) for char in text.replace("\t", " ")]

    def newline(self) -> None:
        self.pieces.append(("\u23ce", "\n"))

    def paste(self, text: str) -> None:
        lines = text.rstrip("\n").count("\n")
        if lines:
            self.pieces.append((f"[Pasted text +{lines} lines]", text))
        else:
            self.insert(text.rstrip("\n"))

    def backspace(self) -> None:
        if self.pieces:
            self.pieces.pop()

    def clear(self) -> None:
        self.pieces.clear()
