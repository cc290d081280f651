"""The journal survives torn lines and full disks, and one conductor at a time holds it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conductor import journal as journal_module
from conductor.journal import ConductorLock, Journal, JournalFullError, holder, read, writable
from schemas.errors import BadInput, Unavailable
from schemas.events import ResultInvalid, TaskGiven
from schemas.journal import JOURNAL_LINE, EventLine, JournalLine, NoteLine
from tests.support.waiting import wait_until

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    opened = Journal(path)
    opened.open()
    yield opened
    opened.close()


def _note(journal: Journal, text: str) -> NoteLine:
    return NoteLine(**journal.stamp(AT), text=text)


def _texts(lines: Sequence[JournalLine]) -> list[str]:
    return [line.text for line in lines if isinstance(line, NoteLine)]


def _written(path: Path, *texts: str) -> None:
    journal = Journal(path)
    journal.open()
    journal.append([_note(journal, text) for text in texts])
    journal.close()


def test_lines_come_back_in_order_and_numbers_go_on(path: Path) -> None:
    _written(path, "one", "two — ü")
    journal = Journal(path)
    lines, torn = journal.open()
    assert (_texts(lines), torn) == (["one", "two — ü"], None)
    journal.append([_note(journal, "three")])
    journal.close()
    assert [(line.seq, line.host) for line in read(path)] == [(number, journal.host) for number in (1, 2, 3)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_journal_has_no_lines(path: Path) -> None:
    assert list(read(path)) == []
    assert holder(path.with_name("conductor.lock")) is None


def test_a_line_torn_at_any_byte_is_kept_aside_and_the_rest_goes_on(path: Path) -> None:
    _written(path, "one", "two — ü")
    raw = path.read_bytes()
    begin = raw.index(b"\n") + 1
    for end in range(begin + 1, len(raw)):
        path.write_bytes(raw[:end])
        assert _texts(list(read(path))) == ["one"]
        journal = Journal(path)
        lines, torn = journal.open()
        assert _texts(lines) == ["one"]
        assert torn is not None
        (aside,) = path.parent.glob("journal.jsonl.torn-*")
        assert str(aside) in torn
        assert f"{end - begin} bytes" in torn
        assert aside.read_bytes() == raw[begin:end]
        journal.append([_note(journal, "three")])
        journal.close()
        assert [(line.seq, line.text) for line in read(path) if isinstance(line, NoteLine)] == [
            (1, "one"),
            (2, "three"),
        ]
        aside.unlink()


def test_a_file_that_is_one_torn_line_begins_anew(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"seq":1')
    lines, torn = Journal(path).open()
    assert lines == []
    assert torn is not None


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{", "not a journal line"),
        (b"", "not a journal line"),
        (b'{"line":"note"}', "not a journal line (note.seq"),
        (b"\xff\xfe", "not a journal line"),
        (b"\0" * 40, "not a journal line"),
        (b"a\rb", "not a journal line"),
        (b"[" * 100_000, "not a journal line"),
    ],
)
def test_a_line_in_the_middle_that_cannot_be_read_is_named_by_its_number(path: Path, bad: bytes, says: str) -> None:
    _written(path, "one", "two", "three")
    first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + bad + b"\n" + third)
    for action in (lambda: list(read(path)), Journal(path).open):
        with pytest.raises(BadInput) as raised:
            action()
        assert f"{path}, line 2: {says}" in str(raised.value)
        assert "Repair the line" in raised.value.hint


@pytest.mark.parametrize("order", [(0, 2), (0, 0), (1, 0), (0, 1, 1)])
def test_a_line_that_is_missing_or_doubled_is_refused(path: Path, order: tuple[int, ...]) -> None:
    _written(path, "one", "two", "three")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(BadInput, match="sequence number"):
        list(read(path))


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("part", [0, 1, 30])
def test_a_write_that_stops_halfway_leaves_the_journal_as_it_was(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, part: int
) -> None:
    journal.append([_note(journal, "one")])
    before = path.read_bytes()
    real, calls = os.write, []

    def write(fd: int, data: bytes) -> int:
        calls.append(fd)
        if part and len(calls) == 1:
            return real(fd, data[:part])
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(JournalFullError) as raised:
        journal.append([_note(journal, "lost"), _note(journal, "lost too")])
    monkeypatch.undo()
    assert str(path) in str(raised.value)
    assert ("no space" in str(raised.value)) == (fault != errno.EIO)
    assert path.read_bytes() == before
    journal.rewind(1)
    journal.append([_note(journal, "two")])
    assert [line.seq for line in read(path)] == [1, 2]


def test_a_sync_that_fails_counts_as_not_written(journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(_fd: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(journal_module, "_sync_data", sync)
    with pytest.raises(JournalFullError):
        journal.append([_note(journal, "lost")])
    assert path.read_bytes() == b""


def test_half_a_line_that_could_not_be_taken_back_is_taken_back_before_the_next(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([_note(journal, "one")])
    real = os.write

    def refuse(*_args: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    def write(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return real(fd, data[: len(data) - 10])
        raise OSError(errno.ENOSPC, "full")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            patch.setattr(os, "ftruncate", refuse)
            with pytest.raises(JournalFullError):
                journal.append([_note(journal, "lost")])
            journal.rewind(1)
    journal.append([_note(journal, "two")])
    assert _texts(list(read(path))) == ["one", "two"]


_FULL = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
import signal
from conductor.journal import Journal, JournalFullError
from schemas.journal import NoteLine
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
journal.open()
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
now = datetime.now(UTC)
for number in range(100):
    seq = journal._seq
    try:
        journal.append([NoteLine(**journal.stamp(now), text="x" * 150)])
    except JournalFullError as fault:
        journal.rewind(seq)
        print(number, fault.what)
        journal_size = Path(sys.argv[1]).stat().st_size
        assert journal_size < 2000, journal_size
        break
"""


def test_a_file_that_really_cannot_grow_stays_whole(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, check=True)
    count = int(done.stdout.split()[0])
    assert count > 2
    assert len(list(read(path))) == count


def test_a_place_that_cannot_be_used_is_a_fault_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable) as raised:
        Journal(tmp_path / "file" / "journal.jsonl").open()
    assert raised.value.hint


def test_texts_that_no_utf_8_has_are_journalled_with_a_sign_in_their_place(journal: Journal, path: Path) -> None:
    event = ResultInvalid.model_construct(kind="result_invalid", pane=1, at=AT, problem="a \ud800 b", stamp="s")
    safe = writable(event)
    journal.append([EventLine(**journal.stamp(AT), event=safe)])
    (line,) = read(path)
    assert isinstance(line, EventLine)
    assert line.event == safe
    assert isinstance(safe, ResultInvalid)
    assert safe.problem == "a ? b"
    fine = TaskGiven(pane=1, at=AT, title="fine")
    assert writable(fine) is fine


def test_every_line_reads_back_as_it_was_written(journal: Journal, path: Path) -> None:
    lines = [EventLine(**journal.stamp(AT), event=TaskGiven(pane=1, at=AT, title="t", body="a\nb\u2028c\x1b"))]
    journal.append(lines)
    assert list(read(path)) == lines
    assert path.read_bytes() == JOURNAL_LINE.dump_json(lines[0]) + b"\n"


# --- the lock ---

_HOLD = """
import sys, time
from pathlib import Path
from conductor.journal import ConductorLock
lock = ConductorLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
lock.release()
"""


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    lock = path.with_name("conductor.lock")
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_conductor_is_refused_by_pid_and_host_of_the_first(path: Path, other: subprocess.Popen[str]) -> None:
    lock = path.with_name("conductor.lock")
    held = holder(lock)
    assert held is not None
    assert (held["pid"], held["host"]) == (other.pid, os.uname().nodename)
    with pytest.raises(Unavailable, match=f"pid {other.pid} on {os.uname().nodename}") as raised:
        ConductorLock(lock).acquire()
    assert "taskmaestro stop" in raised.value.hint


def test_a_killed_conductor_holds_nothing(path: Path, other: subprocess.Popen[str]) -> None:
    lock = path.with_name("conductor.lock")
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert holder(lock) is None
    mine = ConductorLock(lock)
    mine.acquire()
    held = holder(lock)
    assert held is not None
    assert held["pid"] == os.getpid()
    mine.release()
    assert holder(lock) is None


def test_one_that_ends_in_order_lets_go(path: Path, other: subprocess.Popen[str]) -> None:
    other.communicate(timeout=20)
    lock = path.with_name("conductor.lock")
    assert holder(lock) is None
    assert lock.read_bytes() == b""


def test_asking_for_the_holder_never_keeps_a_conductor_from_starting(path: Path) -> None:
    lock = path.with_name("conductor.lock")
    lock.parent.mkdir()
    lock.write_text("{}")
    stop, asked = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            holder(lock)
            asked.append(1)

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        wait_until(lambda: len(asked) > 10)
        for _ in range(50):
            mine = ConductorLock(lock)
            mine.acquire()
            mine.release()
    finally:
        stop.set()
        for asker in askers:
            asker.join()


def test_a_lock_file_that_is_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    lock = path.with_name("conductor.lock")
    lock.parent.mkdir()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable):
        holder(lock)
    with pytest.raises((Unavailable, OSError)):
        ConductorLock(lock).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_that_says_nonsense_still_refuses(path: Path, other: subprocess.Popen[str]) -> None:
    lock = path.with_name("conductor.lock")
    for nonsense in (b"", b"\xff", b"[1]", b"{"):
        lock.write_bytes(nonsense)
        assert holder(lock) == {}
        with pytest.raises(Unavailable, match="another conductor"):
            ConductorLock(lock).acquire()
