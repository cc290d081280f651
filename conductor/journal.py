"""The journal: append-only, fsynced, the conductor's only memory.

A line counts when its newline is on the disk. A torn last line (power cut, kill in the middle of a write) is moved
aside and reported at the next start; a line that cannot be read anywhere else stops the start, since a state rebuilt
without it would be a guess.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from conductor.lock import ConductorLock, holder
from schemas.errors import BadInput, Fault, Unavailable
from schemas.events import EVENT, Event
from schemas.journal import JOURNAL_LINE, JournalLine
from schemas.text import one_line

_sync_data = getattr(os, "fdatasync", os.fsync)  # not every platform has the cheaper one


class JournalFullError(Unavailable):
    """The journal could not be extended; it was left as it was."""


def read(path: Path) -> Iterator[JournalLine]:
    """The complete lines, oldest first; an incomplete last one is left out.

    Raises ``BadInput`` with the line's number where one in the middle cannot be read.
    """
    for _, line in _numbered(path):
        yield line


def _numbered(path: Path) -> Iterator[tuple[int, JournalLine]]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as fault:
        raise Unavailable(f"{path}: {fault.strerror}", "Make the file readable for this user.") from None
    complete = raw[: raw.rfind(b"\n") + 1]
    expected = 0
    for number, text in enumerate(complete.split(b"\n")[:-1], 1):
        line = parse_line(text, path, number)
        expected = expected or line.seq
        if line.seq != expected:
            raise BadInput(
                f"{path}, line {number}: sequence number {line.seq}, expected {expected}",
                "A line is missing or was written twice. Repair the journal or move the state folder aside.",
            )
        expected += 1
        yield number, line


def writable(event: Event) -> Event:
    """The event as the journal can hold it: a lone surrogate, which no UTF-8 has, becomes a question mark.

    Texts of tools and people may hold them, since JSON can spell them.
    """
    try:
        EVENT.dump_json(event)
    except PydanticSerializationError:
        return EVENT.validate_python(_encodable(event.model_dump()))
    return event


def _encodable(value: Any) -> Any:
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_encodable(part) for part in value)
    return value


def parse_line(text: bytes, path: Path, number: int) -> JournalLine:
    """One line's value. Raises ``BadInput`` that names the file, the line and the field."""
    try:
        return JOURNAL_LINE.validate_json(text)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(
            f"{path}, line {number}: not a journal line ({one_line(place)}: {one_line(first['msg'])})",
            "The journal is the only memory: nothing is guessed. Repair the line or move the state folder aside.",
        ) from None


class Journal:
    """The journal of one live conductor. Only the holder of the lock may have one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = socket.gethostname()
        self._fd = -1
        self._size = 0
        self._seq = 0
        self._torn = False

    def open(self) -> tuple[list[JournalLine], str | None]:
        """All lines, and what was done with a torn last one (None where there was none).

        Raises ``BadInput`` for a line that cannot be read, ``Unavailable`` where the file cannot be used.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torn = self._set_torn_line_aside()
            lines = list(read(self.path))
            created = not self.path.exists()
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._fd).st_size
            if created:
                _sync_folder(self.path.parent)
        except OSError as fault:
            raise _full(self.path, fault) from None
        self._seq = lines[-1].seq if lines else 0
        return lines, torn

    def _set_torn_line_aside(self) -> str | None:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        end = raw.rfind(b"\n") + 1
        if end == len(raw):
            return None
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        aside = self.path.with_name(f"{self.path.name}.torn-{stamp}")
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, raw[end:])
            os.fsync(fd)
        except OSError:
            aside.unlink()
            raise
        finally:
            os.close(fd)
        with self.path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
        _sync_folder(self.path.parent)
        return f"the journal's last line was torn ({len(raw) - end} bytes); it is kept in {aside}"

    def stamp(self, at: datetime) -> dict[str, Any]:
        """The fields of the next line; the number is taken only when the line is appended."""
        self._seq += 1
        return {"seq": self._seq, "at": at, "host": self.host}

    def append(self, lines: Sequence[JournalLine]) -> None:
        """Write these lines in one piece and wait until they are on the disk.

        Raises ``JournalFullError`` where that failed; then none of them is in the journal.
        """
        data = b"".join(JOURNAL_LINE.dump_json(line) + b"\n" for line in lines)
        try:
            if self._torn:
                self._undo()
            self._torn = True
            _write_all(self._fd, data)
            _sync_data(self._fd)
        except OSError as fault:
            with contextlib.suppress(OSError):  # tried again before anything else is written
                self._undo()
            raise _full(self.path, fault) from None
        self._torn = False
        self._size += len(data)

    def rewind(self, seq: int) -> None:
        """Take back the numbers after ``seq``: their lines were not written."""
        self._seq = seq

    def _undo(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._torn = False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _full(path: Path, fault: OSError) -> Fault:
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return JournalFullError(
            f"{path}: no space left on the disk", "Free some space; the conductor goes on by itself."
        )
    return JournalFullError(f"{path}: {fault.strerror}", "Mend that; the conductor goes on by itself.")


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


__all__ = ["ConductorLock", "Journal", "JournalFullError", "holder", "parse_line", "read", "writable"]
