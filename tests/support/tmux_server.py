"""Private tmux servers: a socket of its own for each test, and nothing left running afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import POLL_SECONDS

GRACE_SECONDS = 5.0
_SHORT = 24


def short_folder() -> Path:
    """Make a folder for sockets; under /tmp where the usual place has a long name: a socket's path is limited to
    about 100 bytes.
    """
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="tm-", dir=usual if len(usual) <= _SHORT else "/tmp"))


def tmux(socket: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one tmux command against the server at ``socket``; the caller judges the return code."""
    return subprocess.run(
        ["tmux", "-f", "/dev/null", "-S", str(socket), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def processes_of(socket: Path) -> list[psutil.Process]:
    """The server's processes: itself, its descendants, and those that left it but kept its TMUX variable."""
    found: dict[int, psutil.Process] = {}
    if socket.exists():
        answer = tmux(socket, "display-message", "-p", "#{pid}")
        if answer.returncode == 0 and answer.stdout.strip().isdigit():
            server = psutil.Process(int(answer.stdout))
            for process in [server, *server.children(recursive=True)]:
                found[process.pid] = process
    for process in psutil.process_iter():
        try:
            owner = process.environ().get("TMUX", "")
        except psutil.Error:  # another user's process, or one that has just ended
            continue
        if owner.startswith(f"{socket},") and process.pid != os.getpid():
            found[process.pid] = process
    return list(found.values())


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still runs; one that ended and waits for init to collect it does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Wait up to ``GRACE_SECONDS`` until all have ended, and return those that have not."""
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        late = time.monotonic() >= deadline
        alive = [process for process in processes if is_alive(process)]
        if late or not alive:
            return alive
        time.sleep(POLL_SECONDS)


def reap(socket: Path) -> list[str]:
    """Stop the server at ``socket``; kill what outlives it by ``GRACE_SECONDS`` and return a line on each."""
    processes = processes_of(socket)
    tmux(socket, "kill-server")
    alive = wait_for_end(processes)
    left = []
    for process in alive:
        try:
            left.append(f"{process.pid} {process.name()}: {' '.join(process.cmdline())}")
            process.kill()
        except psutil.NoSuchProcess:  # ended while it was being named
            continue
    wait_for_end(alive)
    return left


@contextmanager
def private_server() -> Iterator[Path]:
    """Yield a socket path for a server that the body may start; then stop it and check that all ended."""
    folder = short_folder()
    socket = folder / "s"
    try:
        yield socket
    finally:
        left = reap(socket)
        shutil.rmtree(folder)
        if left:
            raise AssertionError("processes outlived their tmux server:\n" + "\n".join(left))


@pytest.fixture
def private_tmux() -> Iterator[Path]:
    """A socket path for ``tmux -S``; no server runs there yet. Fails the test if a process outlives it."""
    with private_server() as socket:
        yield socket
