"""The conductor's lock: one holder, named to everybody else; asking who holds it never takes it away."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
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


def test_what_the_owner_tells_of_itself_is_read_beside_who_it_is(path: Path) -> None:
    lock = ConductorLock(path)
    lock.acquire()
    told = [holder(path) or {}]
    for tell in (lock.tell_begun, lock.tell_ending):
        tell()
        told.append(holder(path) or {})
    lock.release()
    assert [(facts.get("begun"), facts.get("ending")) for facts in told] == [(None, None), (True, None), (True, True)]
    assert {facts["pid"] for facts in told} == {os.getpid()}


def test_what_a_signal_s_handler_tells_while_more_is_written_is_not_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = ConductorLock(path)
    lock.acquire()
    cut = os.ftruncate

    def interrupted(fd: int, length: int) -> None:
        cut(fd, length)
        monkeypatch.setattr(os, "ftruncate", cut)
        lock.tell_ending()

    monkeypatch.setattr(os, "ftruncate", interrupted)
    lock.tell_begun()
    facts = holder(path) or {}
    lock.release()
    assert facts.get("begun")
    assert facts.get("ending")


def test_a_reader_is_waited_for(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    reader = os.open(path, os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_SH)
    leaves = threading.Timer(0.1, os.close, [reader])
    leaves.start()
    lock = ConductorLock(path)
    lock.acquire()
    facts = holder(path)
    assert facts is not None
    assert facts["pid"] == os.getpid()
    lock.release()
    leaves.join()


def test_a_lock_with_anything_in_it_is_held_by_somebody_unknown(path: Path) -> None:
    lock = ConductorLock(path)
    lock.acquire()
    path.write_bytes(b"\xff[1")
    assert holder(path) == {}
    lock.release()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.with_name("target").touch()
    path.symlink_to("target")


@pytest.mark.parametrize(("make", "kind"), [(_pipe, "FIFO"), (_folder, "folder"), (_link, "symbolic link")])
def test_what_is_no_plain_file_is_neither_waited_for_nor_followed(
    path: Path, make: Callable[[Path], None], kind: str
) -> None:
    path.parent.mkdir()
    make(path)
    for ask in (ConductorLock(path).acquire, lambda: holder(path)):
        with pytest.raises(Unavailable, match=kind):
            ask()
