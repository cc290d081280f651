"""The SQLite file of the local forge: opened by many processes at once, changed in short whole transactions.

Write-ahead logging lets readers go on while one writes; a writer takes its lock at the start (``BEGIN
IMMEDIATE``), so that what it reads inside cannot change before it commits. Everything that SQLite can refuse
becomes ``Unavailable`` with what to do about it.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from conductor.forge.local.tables import MIGRATIONS
from schemas.errors import Unavailable

BUSY_SECONDS = 10.0


def now() -> str:
    """This moment as the tables keep it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Store:
    """One connection, shared by the threads of this process one at a time."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        """Open the file, make it where it is missing, and bring its tables up to date."""
        self.path = path
        self._busy = busy_seconds
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._fault(error) from error
        self._connection.row_factory = sqlite3.Row
        # Closes it also where nobody calls close(); a connection dropped while open is warned about.
        self.close = weakref.finalize(self, self._connection.close)
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of everything."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; nobody else writes meanwhile. Keep it short: no process is started inside."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._connection.execute(begin)
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._roll_back()
                    raise
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
                raise
            except sqlite3.Error as error:
                raise self._fault(error) from error

    def _roll_back(self) -> None:
        # A full disk or a damaged file has SQLite end the transaction by itself.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _set_up(self) -> None:
        try:
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute("PRAGMA synchronous = FULL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version == len(MIGRATIONS):
                return
            if version > len(MIGRATIONS):
                raise Unavailable(
                    f"{self.path} has tables of version {version}, and this program knows {len(MIGRATIONS)}",
                    "It was written by a newer taskmaestro: use that one, or a newer one, here too.",
                )
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise self._fault(error) from error
        with self.write() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for statements in MIGRATIONS[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _fault(self, error: sqlite3.Error) -> Unavailable:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        said = str(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Unavailable(
                f"the local forge is locked: another process kept {self.path} for more than {self._busy:g} s",
                f"See who holds it with `fuser {self.path}`, end that, and run it again.",
            )
        if code == sqlite3.SQLITE_FULL:
            return Unavailable(
                f"the disk is full: the local forge could not write {self.path}; nothing was changed",
                "Free some space on that disk and run it again.",
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return Unavailable(
                f"the local forge's file is damaged: {self.path} ({said})",
                "Restore a copy; or move it, -wal and -shm too, aside, and the next command says how to start anew. "
                "It holds no commits.",
            )
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return Unavailable(
                f"the local forge cannot open {self.path} for writing ({said})",
                "Make the file and its folder readable and writable for you.",
            )
        return Unavailable(f"the local forge could not use {self.path}: {said}", "Check that disk, then run it again.")
