"""Which tmux server a repository's session lives on, remembered across terminals.

Without a configured socket tmux means the server that a terminal is in, else the default one. `up` in one terminal and
`stop` in another would then speak to two servers, on which the same pane numbers belong to different programs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import Fault
from worker.tools.files import read_regular, replace_file

_TIMEOUT = 5.0
_MAX_BYTES = 4096


def usual(environment: Mapping[str, str]) -> Path:
    """The socket that a bare ``tmux`` would use."""
    inside = environment.get("TMUX", "").rpartition(",")[0].rpartition(",")[0]
    if inside:
        return Path(inside)
    return Path(environment.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{os.geteuid()}" / "default"  # noqa: S108 - tmux's own


def remember(file: Path, socket: Path) -> None:
    """Write down where the session lives."""
    if remembered(file) != socket:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, f"{socket}\n")


def remembered(file: Path) -> Path | None:
    """What was written down; None where nothing was."""
    try:
        text = read_regular(file, _MAX_BYTES).decode("utf-8", "surrogateescape").strip()
    except Fault:
        return None
    return Path(text) if text.startswith("/") else None


def socket_of(file: Path, session: str, environment: Mapping[str, str]) -> Path | None:
    """The remembered socket where the session still lives there; None for the usual one."""
    known = remembered(file)
    if known is None or known.resolve() == usual(environment).resolve() or not known.is_socket():
        return None
    argv = ["tmux", "-S", str(known), "has-session", "-t", f"={session}"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None  # no tmux, or one that hangs: whoever uses it says so
    return known if done.returncode == 0 else None
