"""Processes by more than their number: who still runs, who descends from whom, who carries our mark.

Reads ``/proc`` where there is one, else asks ``ps``. A process that ended and waits to be collected counts as
ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36


def identity(pid: int) -> str | None:
    """What tells this process from a later one with the same number; None when it does not run."""
    if _has_proc():
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else f"{_boot()}:{fields[19]}"
    shown = _ps("-o", "stat=,lstart=", "-p", str(pid)).strip()
    return None if not shown or shown.startswith("Z") else shown.partition(" ")[2].strip()


def runs_still(pid: int | None, known_as: str | None) -> bool:
    return pid is not None and known_as is not None and identity(pid) == known_as


def become_subreaper() -> bool:
    """Daemons that our children fork become our children instead of init's, so that they can be ended. Linux
    only.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def end_descendants(patience: float = 5.0) -> int:
    """Kill every descendant of this process and collect it; answers how many there were. ``patience`` in
    seconds.

    Only for a process with one thread, whose own children have all been waited for.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + patience
    while True:
        _collect()
        left = _descendants(os.getpid())
        if not left or time.monotonic() >= deadline:
            return len(ended)
        for pid in left:
            kill(pid)
        ended |= left
        time.sleep(0.01)


def end_marked(mark: str) -> int:
    """Kill the processes whose environment holds ``mark`` (``NAME=value``): left by a dead runner."""
    ended = 0
    for folder in _PROC.glob("[0-9]*") if _has_proc() else ():
        try:
            marked = mark.encode() in (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or another user's
            continue
        if marked and int(folder.name) != os.getpid():
            ended += kill(int(folder.name))
    return ended


def kill(pid: int, *, group: bool = False, with_signal: signal.Signals = signal.SIGKILL) -> bool:
    """Send the signal; False where there is nobody (any more) to get it."""
    try:
        (os.killpg if group else os.kill)(pid, with_signal)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _collect() -> None:
    with contextlib.suppress(ChildProcessError):  # no child at all
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _descendants(root: int) -> set[int]:
    parents = _parents()
    found: set[int] = set()
    new = {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def _parents() -> dict[int, int]:
    """Process -> its parent, of all that run."""
    if _has_proc():
        table = {int(folder.name): _stat(int(folder.name)) for folder in _PROC.glob("[0-9]*")}
        return {pid: int(fields[1]) for pid, fields in table.items() if fields and fields[0] not in "ZX"}
    rows = (line.split() for line in _ps("-axo", "pid=,ppid=,stat=").splitlines())
    return {int(row[0]): int(row[1]) for row in rows if len(row) >= 3 and not row[2].startswith("Z")}


def _has_proc() -> bool:
    return (_PROC / "self" / "stat").exists()


def _stat(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` after the name: state, parent, ..., start time at 19."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _boot() -> str:
    try:
        return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "boot"


def _ps(*arguments: str) -> str:
    done = subprocess.run(["ps", *arguments], capture_output=True, text=True, timeout=20, check=False)
    return done.stdout
