"""Receipts: what agents' hooks recorded, one JSON line each, in ``pane-N.jsonl`` (N: pane index).

``{"event": "prompt"|"stop"|"permission"|"start"|"end", "msg": "7"|null, "at": ISO 8601, "pane": "2"}``. Read
incrementally; a torn last line waits until it is whole, any other line that is no receipt is counted, not
guessed at.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.base import Moment
from schemas.errors import Unavailable

_LOG = logging.getLogger(__name__)


class Receipt(BaseModel):
    """One line. Unknown fields are left aside, unknown events kept: hooks may be newer than this reader."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: str
    msg: str | None = None
    at: Moment = datetime.fromtimestamp(0, UTC)
    pane: str | None = None


@dataclass
class _File:
    """What was read of one file: up to ``offset`` bytes of the file with this inode."""

    offset: int = 0
    inode: int = 0
    receipts: list[Receipt] | None = None
    bad: int = 0


class Receipts:
    """The receipts of all panes. Thread-safe. ``folder`` None: no agent records any."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[int, _File] = {}
        self._lock = threading.Lock()

    def count(self, index: int) -> int:
        """How many receipts there are now; a mark for ``find``."""
        return len(self.all(index))

    def last(self, index: int) -> Receipt | None:
        receipts = self.all(index)
        return receipts[-1] if receipts else None

    def find(self, index: int, message_id: str, after: int = 0) -> Receipt | None:
        """The receipt that says that this message was submitted, among those after the first ``after``."""
        for receipt in self.all(index)[after:]:
            if receipt.event == "prompt" and receipt.msg == message_id:
                return receipt
        return None

    def all(self, index: int) -> list[Receipt]:
        """All receipts, oldest first. Raises ``Unavailable`` where the file cannot be read."""
        if self._folder is None:
            return []
        path = self._folder / f"pane-{index}.jsonl"
        with self._lock:
            state = self._files.setdefault(index, _File())
            try:
                self._read(path, state)
            except FileNotFoundError:
                self._files[index] = _File()
                return []
            except OSError as error:
                raise Unavailable(
                    f"{path}: the receipts cannot be read ({error.strerror})", "Check its permissions."
                ) from error
            return list(state.receipts or [])

    def _read(self, path: Path, state: _File) -> None:
        status = path.stat()
        if status.st_ino != state.inode or status.st_size < state.offset:
            state.offset, state.inode, state.receipts, state.bad = 0, status.st_ino, [], 0
        if status.st_size == state.offset:
            return
        with path.open("rb") as file:
            file.seek(state.offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        state.offset += len(whole)
        for line in whole.splitlines():
            if not line.strip():
                continue
            try:
                state.receipts = [*(state.receipts or []), Receipt.model_validate(json.loads(line))]
            except (ValueError, ValidationError, RecursionError):
                state.bad += 1
                _LOG.warning("%s: a line that is no receipt was left aside (%d so far)", path, state.bad)
