"""One at a time at a tmux server: attaching a control client, and whatever tmux tells all control clients of.

tmux before 3.7 counts a control client as one as soon as its first message came, and tells it of changes before it can
be told anything: the server crashes, with everybody's sessions on it (tmux pull request 4980). Between the first
message and the last lies a fraction of a millisecond, more where the machine is busy. So all processes of ours take
turns, by a lock beside the server's socket. What people do to their tmux in that moment, nobody can hold back.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SUFFIX = ".taskmaestro-lock"
_SILENT = ("display-message", "list-", "capture-pane", "show-", "has-session", "refresh-client", "set-option", "-V")
"""What no control client is told of."""
_POLL = 0.0005


def is_told(command: Sequence[str]) -> bool:
    """Whether tmux may tell control clients of this command, also those that are not attached yet."""
    if command[0] == "send-keys":
        return "-X" in command
    return not command[0].startswith(_SILENT)


def default_socket() -> Path:
    """Where tmux's own default server has its socket."""
    return Path(os.environ.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{os.getuid()}" / "default"  # noqa: S108 - tmux's


class Guard:
    """The turn at one server; a thread that has it may take it again. Waits ``patience`` seconds at most."""

    def __init__(self, socket: Path | None, *, patience: float) -> None:
        where = socket or default_socket()
        self._path = where.with_name(where.name + SUFFIX)
        self._patience = patience
        self._held = threading.local()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the turn. Goes on without it where it cannot be had: a crash is unlikely still, standing still sure."""
        depth = getattr(self._held, "depth", 0)
        fd = self._take() if depth == 0 else -1
        self._held.depth = depth + 1
        try:
            yield
        finally:
            self._held.depth = depth
            if fd >= 0:
                os.close(fd)

    def _take(self) -> int:
        """The open lock file, or -1 where there is no such folder (then no server either) or it cannot be written."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except OSError:
            return -1
        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= deadline:
                    return fd
                time.sleep(_POLL)
            else:
                return fd
