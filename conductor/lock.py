"""The lock that keeps a repository to one conductor; readers ask it who holds it.

A module of its own with nothing heavy in it, so that ``status`` answers at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.errors import Unavailable
from worker.tools.files import NotRegular, make_folder, refuse_irregular

READERS_GO = 5.0
"""Seconds for which taking the lock is tried while only readers have it, who ask who holds it."""


class HeldError(Unavailable):
    """Another one has the lock; ``facts`` are what its file says, empty where it says nothing yet."""

    def __init__(self, what: str, hint: str, facts: Mapping[str, Any]) -> None:
        super().__init__(what, hint)
        self.facts = facts


class OneOwner:
    """A lock file with one live owner; the kernel lets go of it when that one dies, so a dead owner keeps nothing.

    The file says who holds it. A second owner is refused, naming the first one's pid and host.
    """

    refusal = "another process holds it"
    hint = "Wait for it, or end it."

    def __init__(self, path: Path, **more: object) -> None:
        """``more``: what the file is to say besides."""
        self.path = path
        self._more = more
        self._fd = -1
        self._facts: dict[str, object] = {}

    def acquire(self) -> None:
        """Take the lock or raise ``HeldError`` that names the holder."""
        make_folder(self.path.parent)
        fd = _open(self.path, os.O_RDWR | os.O_CREAT)
        if not _taken(fd):
            os.close(fd)
            held = holder(self.path) or {}
            raise HeldError(
                f"{self.refusal}: pid {held.get('pid', '?')} on {held.get('host', '?')}", self.hint, held
            ) from None
        self._fd = fd
        whose = {"pid": os.getpid(), "host": os.uname().nodename, "since": datetime.now(UTC).isoformat()}
        self._facts = {**whose, **self._more}
        self._write()

    def tell_begun(self) -> None:
        """Readers see from now on that this owner is at its work (``begun``)."""
        self._tell("begun")

    def tell_ending(self) -> None:
        """Readers see from now on that this owner is about to let go (``ending``)."""
        self._tell("ending")

    def _tell(self, what: str) -> None:
        if self._fd >= 0:
            self._facts[what] = True
            self._write()

    def _write(self) -> None:
        written = b""
        while (now := json.dumps(self._facts).encode()) != written:  # a signal's handler may tell more meanwhile
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, now, 0)
            written = now
        os.fsync(self._fd)

    def release(self) -> None:
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


class ConductorLock(OneOwner):
    """``state/conductor.lock``: held by the one live conductor."""

    refusal = "another conductor runs on this repository"
    hint = "`taskmaestro attach` shows it; `taskmaestro stop` ends it."


def _open(path: Path, how: int) -> int:
    """A handle of the lock file. Whatever else bears its name is neither followed nor waited for."""
    try:
        with suppress(FileNotFoundError):
            refuse_irregular(path, path.lstat())  # a device may act on being opened, so look first
        fd = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            refuse_irregular(path, os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
    except FileNotFoundError:
        raise
    except NotRegular as fault:
        raise Unavailable(fault.what, "Move it away: the lock must be a plain file, or not be there.") from None
    except OSError as fault:
        raise Unavailable(
            f"{path} cannot be opened: {fault.strerror}", "It must be a plain file of yours, or not be there."
        ) from None
    return fd


def _taken(fd: int) -> bool:
    """Whether the lock could be had. Readers share it for an instant and are waited for; a conductor is not."""
    give_up = time.monotonic() + READERS_GO
    while not _flock(fd, fcntl.LOCK_EX):
        if not _flock(fd, fcntl.LOCK_SH) or time.monotonic() >= give_up:
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(0.002)
    return True


def _flock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(path: Path) -> dict[str, Any] | None:
    """Who holds the lock now: ``pid``, ``host``, ``since``, ``begun`` once it is at work, ``ending`` where it lets
    go; None where nobody does. Needs to read the file only.
    """
    try:
        fd = _open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if _flock(fd, fcntl.LOCK_SH) else _facts(os.pread(fd, 4096, 0))
    finally:
        os.close(fd)


def ended_without_a_word(path: Path) -> bool:
    """Whether nobody holds the lock, and whoever held it last neither released it nor told that it was ending."""
    if holder(path) is not None:
        return False
    try:
        facts = _facts(path.read_bytes()[:4096])
    except FileNotFoundError:
        return False
    return bool(facts) and not facts.get("ending")


def _facts(raw: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(raw)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
