"""Process trees: who descends from a pane's program, and ending exactly those.

Some agents outlive their pane. The tree is recorded while it stands; a process is named by its pid and its
start, so that a pid which was given out again is never touched. Programs that made themselves daemons before
are left alone: other panes may use them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import Unavailable

_PROC = Path("/proc")
_POLL = 0.02


@dataclass(frozen=True)
class Process:
    """One process: ``start`` is its start time in the system's own words, ``group`` its session (or process
    group).
    """

    pid: int
    parent: int
    group: int
    start: str


def _from_proc() -> dict[int, Process]:
    found = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        # After the name, which is in parentheses and may hold anything: state, ppid, pgrp, session, ...,
        # 20th: start.
        fields = text[text.rindex(")") + 2 :].split()
        if fields[0] != "Z":
            pid = int(folder.name)
            found[pid] = Process(pid, int(fields[1]), int(fields[3]), fields[19])
    return found


def _from_ps() -> dict[int, Process]:
    argv = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "stat=", "-o", "lstart="]
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"the processes cannot be listed: {error}", "Check that `ps` works.") from error
    found = {}
    for line in done.stdout.splitlines():
        pid, parent, group, state, start = line.split(None, 4)
        if not state.startswith("Z"):
            found[int(pid)] = Process(int(pid), int(parent), int(group), start.strip())
    return found


def is_zombie(pid: int) -> bool:
    """Whether the process has ended and nobody has asked how; False where the system does not tell."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return text[text.rindex(")") + 2 :].startswith("Z")


def snapshot() -> dict[int, Process]:
    """All living processes by pid."""
    return _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()


def tree(root: int, *, ended: bool = False, now: Mapping[int, Process] | None = None) -> frozenset[Process]:
    """The process ``root``, its descendants, and whoever is in its session. Never this program or what
    started it.

    With ``ended`` the root is known to have ended: a process of that number is another one then. ``now`` is a
    snapshot that was taken for several trees.
    """
    now = snapshot() if now is None else now
    if ended and root in now:
        return frozenset()
    family = {root} if root > 0 else set()
    grew = bool(family)
    while grew:
        more = {one.pid for one in now.values() if one.parent in family or one.group in family & {root}}
        grew = not more <= family
        family |= more
    return frozenset(now[pid] for pid in family - _own(now) if pid in now)


def _own(now: Mapping[int, Process]) -> set[int]:
    own, pid = set(), os.getpid()
    while pid > 1 and pid not in own:
        own.add(pid)
        pid = now[pid].parent if pid in now else 0
    return own


def alive(processes: Iterable[Process]) -> frozenset[Process]:
    """Those that still run, by pid and start."""
    now = snapshot()
    return frozenset(one for one in processes if one.pid in now and now[one.pid].start == one.start)


def end(processes: Iterable[Process], grace: float = 2.0) -> frozenset[Process]:
    """Ask them to end (SIGTERM), and after ``grace`` seconds end them; those that are still there after as
    long again.
    """
    left = alive(processes)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for one in left:
            try:
                os.kill(one.pid, number)
            except (
                ProcessLookupError,
                PermissionError,
            ):  # gone by itself, or another user's: reported as left
                continue
        deadline = time.monotonic() + grace
        while left and time.monotonic() < deadline:
            time.sleep(_POLL)
            left = alive(left)
        if not left:
            break
    return left
