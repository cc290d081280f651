"""The journal as the verbs read it: all of it, from where one stopped, and waiting for more."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conductor.journal import parse_line
from schemas.errors import BadInput, NotSo, Unavailable
from schemas.journal import JournalLine

FALLBACK = 2.0
"""Seconds after which a waiting reader looks by itself, for file systems that report no changes."""


class Tail:
    """Reads complete lines, each once. A line without its line break is not one yet and is left for later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self._offset = 0
        self._seq = 0
        self._inode: int | None = None

    def lines(self) -> list[bytes]:
        """The lines that came since the last call. Raises ``NotSo`` where the journal was put aside meanwhile."""
        try:
            with self.path.open("rb") as file:
                info = os.fstat(file.fileno())
                if self._inode not in (None, info.st_ino) or info.st_size < self._offset:
                    raise NotSo(f"{self.path} is another file now than at the start", "Start this command again.")
                self._inode = info.st_ino
                file.seek(self._offset)
                raw = file.read()
        except FileNotFoundError:
            if self._inode is not None:
                raise NotSo(f"{self.path} was removed", "Start this command again.") from None
            return []
        except OSError as fault:
            raise Unavailable(f"{self.path}: {fault.strerror}", "Make the file readable for this user.") from None
        complete = raw[: raw.rfind(b"\n") + 1]
        self._offset += len(complete)
        found = complete.split(b"\n")[:-1]
        self.number += len(found)
        return found

    def behind(self) -> bool:
        """Whether the file has more than what was read."""
        try:
            return self.path.stat().st_size > self._offset
        except OSError:
            return False

    def parsed(self) -> Iterator[tuple[bytes, JournalLine]]:
        """The lines that came since the last call, as they are and as values."""
        first = self.number + 1
        for number, raw in enumerate(self.lines(), first):
            line = parse_line(raw, self.path, number)
            if self._seq and line.seq != self._seq + 1:
                raise BadInput(
                    f"{self.path}, line {number}: sequence number {line.seq}, expected {self._seq + 1}",
                    "A line is missing or was written twice. Repair the journal or move the state folder aside.",
                )
            self._seq = line.seq
            yield raw, line


class Change:
    """Set when something in the watched folder changed; waiting for it clears it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def happened(self) -> None:
        self._event.set()

    def wait(self, timeout: float = FALLBACK) -> None:
        """Until something changed, at most ``timeout`` seconds."""
        self._event.wait(timeout)
        self._event.clear()


@contextmanager
def changes(folder: Path) -> Iterator[Change]:
    """Changes of this folder's files while the block runs. Where watching is not possible, only time wakes."""
    from watchdog.events import FileSystemEvent, FileSystemEventHandler

    from conductor.folders import observer

    change = Change()

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            if event.event_type not in ("opened", "closed_no_write"):
                change.happened()

    watching = observer()
    try:
        watching.schedule(Handler(), str(folder), recursive=False)
        watching.start()
    except OSError:
        yield change  # no watch is left on this machine: the fallback wakes the reader
        return
    try:
        yield change
    finally:
        watching.stop()
        watching.join(timeout=5)
