"""The conductor's lock: one holder, named to everybody else; asking who holds it never takes it away."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conductor.lock import ConductorLock, holder
from schemas.errors import Unavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "conductor.lock"


def test_nobody_holds_a_lock_that_is_not_there(path: Path) -> None:
    assert holder(path) is None


def test_the_holder_is_named_and_a_second_one_refused(path: Path) -> None:
    lock = ConductorLock(path)
    lock.acquire()
    facts = holder(path)
    assert facts is not None
    assert facts["pid"] == os.getpid()
    with pytest.raises(Unavailable, match=rf"pid {os.getpid()} on "):
        ConductorLock(path).acquire()
    lock.release()
    assert holder(path) is None
    again = ConductorLock(path)
    again.acquire()
    again.release()


def test_a_lock_goes_with_its_process_however_that_ends(path: Path) -> None:
    code = (
        "import os, sys, pathlib\nfrom conductor.lock import ConductorLock\n"
        "lock = ConductorLock(pathlib.Path(sys.argv[1]))\nlock.acquire()\nos.kill(os.getpid(), 9)"
    )
    root = str(Path(__file__).resolve().parents[1])
    subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, "PYTHONPATH": root}, check=False)
    assert b"pid" in path.read_bytes()
    assert holder(path) is None


def test_readers_do_not_keep_a_conductor_from_starting(path: Path) -> None:
    first = ConductorLock(path)
    first.acquire()
    first.release()
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.001):
            holder(path)

    readers = [threading.Thread(target=ask) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(50):
            lock = ConductorLock(path)
            lock.acquire()
            lock.release()
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def test_a_lock_with_anything_in_it_is_held_by_somebody_unknown(path: Path) -> None:
    lock = ConductorLock(path)
    lock.acquire()
    path.write_bytes(b"\xff[1")
    assert holder(path) == {}
    lock.release()
