"""Watches ``.taskmaestro/wt-N/RESULT.json`` and the inbox, with watchdog; worktrees may come and go meanwhile.

Only folders are watched, never whole worktrees: a worktree may hold a hundred thousand files that nobody needs to
hear of. A file that does not parse is read again until it has been quiet for two seconds (docs/contracts.md).
Watchdog's thread only says what happened; one thread of this module looks, so that nothing is looked at twice at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, ObservedWatch

from conductor.folders import observer
from schemas.errors import Fault
from schemas.events import ResultInvalid, ResultSeen
from schemas.result import MAX_BYTES, Result, ResultError, ResultStatus, parse_result
from schemas.text import clean, one_line
from worker.tools.files import MissingFile, read_regular

RESULT = "RESULT.json"
QUIET = 2.0
LOOK_AGAIN = 2.0
"""Seconds between looks at a worktree that the system refuses to watch."""
_WORKTREE = re.compile(r"wt-([1-9][0-9]{0,5})")
_CONDUCTORS = (ResultStatus.APPROVED, ResultStatus.REVIEW_PENDING)


def stamp_of(path: Path, raw: bytes) -> str:
    """Names this writing of the file: its content, its inode and the moment that it was written."""
    info = os.lstat(path)
    return f"{hashlib.sha256(raw).hexdigest()[:16]}-{info.st_ino}-{info.st_mtime_ns}"


def _conductors_word(result: Result) -> bool:
    """The conductor wrote this. A worker that keeps its fields and changes the status is heard, and refused."""
    extra = result.model_extra or {}
    ours = extra.get("written_by") == "conductor" and extra.get("granted") == result.status
    return result.status in _CONDUCTORS and ours


def read_result(pane: int, path: Path) -> ResultSeen | ResultInvalid | None:
    """What the file says; None where it is not there, or is the conductor's own word."""
    at = datetime.now(UTC)
    stamp = ""
    try:
        raw = read_regular(path, MAX_BYTES)
        stamp = stamp_of(path, raw)
        result = parse_result(raw)
    except (FileNotFoundError, MissingFile):
        return None
    except ResultError as fault:
        problem = clean(f"{path}: {fault.place}: {fault.expected}")
        return ResultInvalid(pane=pane, at=at, problem=problem, stamp=stamp)
    except (Fault, OSError) as fault:
        what = fault.what if isinstance(fault, Fault) else fault.strerror or str(fault)
        try:
            info = os.lstat(path)
        except OSError:
            return None
        stamp = f"unreadable-{info.st_ino}-{info.st_mtime_ns}-{info.st_mode}"
        return ResultInvalid(
            pane=pane,
            at=at,
            problem=clean(f"{what}. Expected: a regular file of at most {MAX_BYTES} bytes with a JSON object."),
            stamp=stamp,
        )
    if _conductors_word(result):
        return None
    return ResultSeen(pane=pane, at=at, result=result, digest=stamp.split("-", 1)[0], stamp=stamp)


_Ask = tuple[Literal["scan", "came", "gone", "read"], int]


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
        on_trouble: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.home = home
        self.inbox = home / "state" / "inbox"
        self._on_result = on_result
        self._on_inbox = on_inbox
        self._on_worktrees = on_worktrees
        self._folders = dict(folders or {})
        self._on_trouble = on_trouble
        self._observer: BaseObserver = observer()
        self._watched: dict[int, tuple[ObservedWatch, int]] = {}
        self._refused: set[int] = set()
        self._due: dict[int, float] = {}
        self._asked: deque[_Ask] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._looking = threading.Thread(target=self._look_about, name="results", daemon=True)

    def start(self) -> None:
        """Watch, then look once at everything that is there already."""
        self.inbox.mkdir(parents=True, exist_ok=True)
        self._listen(self.home, self._home_changed)
        self._listen(self.inbox, lambda _event, _path: self._on_inbox())
        for folder, call in self._folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            self._listen(folder, _path_only(call))
        self._observer.start()
        self._scan()
        self._looking.start()
        self._on_inbox()

    def rescan(self) -> None:
        """Look for worktrees that came or went, and at every result file."""
        self._ask("scan", 0)

    def look(self, index: int) -> None:
        """Look at one pane's result file again."""
        self._ask("read", index)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join(timeout=5)
        if self._looking.is_alive():
            self._looking.join(timeout=5)

    def _listen(self, folder: Path, call: Callable[[str, Path], None], only: str | None = None) -> ObservedWatch:
        return self._observer.schedule(_Handler(call, self._on_trouble, only), str(folder), recursive=False)

    def _home_changed(self, event: str, path: Path) -> None:
        match = _WORKTREE.fullmatch(path.name)
        if match is not None and path.parent == self.home:
            known: dict[str, Literal["came", "gone"]] = {"created": "came", "deleted": "gone"}
            self._ask(known.get(event, "scan"), int(match.group(1)))

    def _ask(self, what: Literal["scan", "came", "gone", "read"], index: int) -> None:
        with self._changed:
            self._asked.append((what, index))
            self._changed.notify_all()

    def _look_about(self) -> None:
        """Answers what is asked, and reports what still does not parse after two quiet seconds."""
        while True:
            with self._changed:
                if not self._asked and not self._stopped:
                    self._changed.wait(self._until_due())
                if self._stopped:
                    return
                asked = self._asked.popleft() if self._asked else None
            try:
                if asked is not None:
                    self._answer(*asked)
                if asked is None or min(self._due.values(), default=math.inf) <= time.monotonic():
                    self._settle()
            except Exception as fault:  # one file that cannot be looked at must not blind the watch for the others
                self._on_trouble(f"{self.home}: {type(fault).__name__}: {one_line(str(fault), 500)}")

    def _until_due(self) -> float | None:
        dues = [due - time.monotonic() for due in self._due.values()]
        if self._refused:
            dues.append(LOOK_AGAIN)
        return max(0.0, min(dues)) if dues else None

    def _answer(self, what: Literal["scan", "came", "gone", "read"], index: int) -> None:
        match what:
            case "read":
                self._read(index)
            case "scan":
                self._scan()
            case "gone":
                self._let_go(index)
                self._say_worktrees()
            case "came":
                self._let_go(index)  # a new folder may have the old one's inode
                self._pick_up(index)
                self._say_worktrees()

    def _there(self) -> set[int]:
        return {int(match.group(1)) for entry in self.home.iterdir() if (match := _WORKTREE.fullmatch(entry.name))}

    def _say_worktrees(self) -> None:
        self._on_worktrees(self._there())

    def _scan(self) -> None:
        there = self._there()
        for index in set(self._watched) - there:
            self._let_go(index)
        for index in there:
            if index in self._watched and self._watched[index][1] != self._inode(index):
                self._let_go(index)
            self._pick_up(index)
        self._on_worktrees(there)

    def _inode(self, index: int) -> int | None:
        """The worktree's inode; None where it is not a folder of its own."""
        try:
            info = os.lstat(self.home / f"wt-{index}")
        except OSError:
            return None
        return info.st_ino if stat.S_ISDIR(info.st_mode) else None

    def _pick_up(self, index: int) -> None:
        inode = self._inode(index)
        if index in self._watched or inode is None:
            return
        folder = self.home / f"wt-{index}"
        try:
            watch = self._listen(folder, lambda _event, _path: self._ask("read", index), only=RESULT)
        except OSError as fault:
            if self._inode(index) is None:
                return  # vanished in between; that event comes next
            if index not in self._refused:
                self._refused.add(index)
                self._on_trouble(
                    f"{folder} cannot be watched: {fault.strerror or fault}. It is looked at every {LOOK_AGAIN:.0f} s;"
                    " raise the system's limit (Linux: fs.inotify.max_user_watches and max_user_instances)."
                )
        else:
            self._watched[index] = (watch, inode)
            self._refused.discard(index)
        self._read(index)

    def _let_go(self, index: int) -> None:
        self._refused.discard(index)
        watch, _ = self._watched.pop(index, (None, 0))
        if watch is not None:
            with contextlib.suppress(KeyError):  # watchdog dropped it when the folder was removed
                self._observer.unschedule(watch)

    def _read(self, index: int) -> None:
        found = read_result(index, self.home / f"wt-{index}" / RESULT)
        if isinstance(found, ResultInvalid):
            self._due[index] = time.monotonic() + QUIET
            return
        self._due.pop(index, None)
        if found is not None:
            self._on_result(found)

    def _settle(self) -> None:
        now = time.monotonic()
        for index in [index for index, due in self._due.items() if due <= now]:
            del self._due[index]
            found = read_result(index, self.home / f"wt-{index}" / RESULT)
            if found is not None:
                self._on_result(found)
        for index in sorted(self._refused):
            self._pick_up(index)


def _path_only(call: Callable[[Path], None]) -> Callable[[str, Path], None]:
    return lambda _event, path: call(path)


class _Handler(FileSystemEventHandler):
    """Says what happened to which path. A move is the old name deleted and the new one created."""

    def __init__(
        self, call: Callable[[str, Path], None], on_trouble: Callable[[str], None], only: str | None = None
    ) -> None:
        self._call = call
        self._on_trouble = on_trouble
        self._only = only

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in ("opened", "closed_no_write"):
            return
        if event.event_type == "moved":
            self._say("deleted", event.src_path)
            self._say("created", event.dest_path)
        else:
            self._say(event.event_type, event.src_path)

    def _say(self, what: str, name: str | bytes) -> None:
        path = Path(os.fsdecode(name)) if name else None
        if path is None or (self._only is not None and path.name != self._only):
            return
        try:
            self._call(what, path)
        except Exception as fault:  # whatever a listener meets, watchdog's thread has to go on for the others
            self._on_trouble(f"{path}: {type(fault).__name__}: {one_line(str(fault), 500)}")
