"""Watches ``.taskmaestro/wt-N/RESULT.json`` and the inbox, with watchdog; worktrees may come and go meanwhile.

Only folders are watched, never whole worktrees: a worktree may hold a hundred thousand files that nobody needs to
hear of. A file that does not parse is read again until it has been quiet for two seconds (docs/contracts.md).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch
from worker.tools.files import MissingFile, read_regular

from schemas.errors import Fault
from schemas.events import ResultInvalid, ResultSeen
from schemas.result import MAX_BYTES, ResultError, ResultStatus, parse_result

RESULT = "RESULT.json"
QUIET = 2.0
_WORKTREE = re.compile(r"wt-(\d+)")
_CONDUCTORS = (ResultStatus.APPROVED, ResultStatus.REVIEW_PENDING)


def stamp_of(path: Path, raw: bytes) -> str:
    """Names this writing of the file: its content, its inode and the moment that it was written."""
    info = os.lstat(path)
    return f"{hashlib.sha256(raw).hexdigest()[:16]}-{info.st_ino}-{info.st_mtime_ns}"


def read_result(pane: int, path: Path) -> ResultSeen | ResultInvalid | None:
    """What the file says; None where it is not there, or is the conductor's own word."""
    at = datetime.now(UTC)
    stamp = ""
    try:
        raw = read_regular(path, MAX_BYTES + 1)
        stamp = stamp_of(path, raw)
        result = parse_result(raw)
    except (FileNotFoundError, MissingFile):
        return None
    except ResultError as fault:
        problem = f"{path}: {fault.place}: {fault.expected}"
        return ResultInvalid(pane=pane, at=at, problem=problem, stamp=stamp)
    except (Fault, OSError) as fault:
        what = fault.what if isinstance(fault, Fault) else fault.strerror or str(fault)
        try:
            info = os.lstat(path)
        except OSError:
            return None
        stamp = f"unreadable-{info.st_ino}-{info.st_mtime_ns}-{info.st_mode}"
        return ResultInvalid(
            pane=pane, at=at, problem=f"{what}. Expected: a regular file with a JSON object.", stamp=stamp
        )
    extra = result.model_extra or {}
    if result.status in _CONDUCTORS and extra.get("written_by") == "conductor":
        return None
    return ResultSeen(pane=pane, at=at, result=result, digest=stamp.split("-", 1)[0], stamp=stamp)


class ResultWatch:
    """Calls ``on_result`` with what the panes' result files say, ``on_inbox`` when the inbox changed."""

    def __init__(
        self,
        home: Path,
        on_result: Callable[[ResultSeen | ResultInvalid], None],
        on_inbox: Callable[[], None],
        *,
        on_worktrees: Callable[[set[int]], None] = lambda _there: None,
        folders: Mapping[Path, Callable[[Path], None]] | None = None,
    ) -> None:
        self.home = home
        self.inbox = home / "state" / "inbox"
        self._on_result = on_result
        self._on_inbox = on_inbox
        self._on_worktrees = on_worktrees
        self._folders = dict(folders or {})
        self._observer: BaseObserver = Observer()
        self._watched: dict[int, tuple[ObservedWatch, int]] = {}
        self._due: dict[int, float] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._settling = threading.Thread(target=self._settle, name="results", daemon=True)

    def start(self) -> None:
        """Watch, then look once at everything that is there already."""
        self.inbox.mkdir(parents=True, exist_ok=True)
        self._observer.schedule(_Handler(self._home_changed), str(self.home), recursive=False)
        self._observer.schedule(_Handler(lambda _path: self._on_inbox()), str(self.inbox), recursive=False)
        for folder, call in self._folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            self._observer.schedule(_Handler(_with_path(call)), str(folder), recursive=False)
        self._observer.start()
        self._settling.start()
        self.rescan()
        self._on_inbox()

    def rescan(self) -> None:
        """Look for worktrees that came or went, and at every result file."""
        there = {
            int(match.group(1)): entry for entry in self.home.iterdir() if (match := _WORKTREE.fullmatch(entry.name))
        }
        for index in set(self._watched) - set(there):
            self._let_go(index)
        for index, folder in there.items():
            try:
                info = os.lstat(folder)
            except FileNotFoundError:
                continue
            if index in self._watched and self._watched[index][1] != info.st_ino:
                self._let_go(index)
            if stat.S_ISDIR(info.st_mode):
                self._pick_up(index, folder, info.st_ino)
        self._on_worktrees(set(there))

    def look(self, index: int) -> None:
        """Look at one pane's result file again."""
        self._read(index)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._observer.stop()
        self._observer.join(timeout=5)
        self._settling.join(timeout=5)

    def _home_changed(self, _path: str) -> None:
        self.rescan()

    def _pick_up(self, index: int, folder: Path, inode: int) -> None:
        if index not in self._watched:
            handler = _Handler(lambda _path: self._read(index), only=RESULT)
            try:
                self._watched[index] = (self._observer.schedule(handler, str(folder), recursive=False), inode)
            except OSError:
                return  # vanished in between; its parent's event comes next
            self._read(index)

    def _let_go(self, index: int) -> None:
        watch, _ = self._watched.pop(index)
        try:
            self._observer.unschedule(watch)
        except KeyError:
            return  # watchdog dropped it when the folder was removed

    def _read(self, index: int) -> None:
        found = read_result(index, self.home / f"wt-{index}" / RESULT)
        with self._changed:
            if isinstance(found, ResultInvalid):
                self._due[index] = time.monotonic() + QUIET
                self._changed.notify_all()
                return
            self._due.pop(index, None)
        if found is not None:
            self._on_result(found)

    def _settle(self) -> None:
        """What still does not parse after two quiet seconds is reported as invalid."""
        while True:
            with self._changed:
                if self._stopped:
                    return
                pending = min(self._due.values(), default=None)
                self._changed.wait(None if pending is None else max(0.0, pending - time.monotonic()))
                now = time.monotonic()
                ready = [index for index, due in self._due.items() if due <= now]
                for index in ready:
                    del self._due[index]
            for index in ready:
                found = read_result(index, self.home / f"wt-{index}" / RESULT)
                if found is not None:
                    self._on_result(found)


def _with_path(call: Callable[[Path], None]) -> Callable[[str], None]:
    return lambda name: call(Path(name))


class _Handler(FileSystemEventHandler):
    def __init__(self, call: Callable[[str], None], only: str | None = None) -> None:
        self._call = call
        self._only = only

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in ("opened", "closed_no_write"):
            return
        for path in (event.src_path, event.dest_path):
            name = os.fsdecode(path)
            if name and (self._only is None or Path(name).name == self._only):
                self._call(name)
                return
