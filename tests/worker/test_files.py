"""Files are replaced whole, read without blocking, appended to durably, and every refusal names the file."""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput, Unavailable
from worker.tools import files
from worker.tools.files import MissingFile, NotRegular, append_line, read_regular, replace_file


def names(folder: Path | str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


@given(st.binary(max_size=5000))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_back(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        replace_file(path, data)
        assert read_regular(path, 5000) == data
        assert names(folder) == ["f"]


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=8))
@settings(max_examples=30, deadline=None)
def test_appended_lines_come_back_in_order(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        for line in lines:
            append_line(path, line)
        raw = read_regular(path, 1 << 20) if lines else b""
        assert raw == "".join(f"{line}\n" for line in lines).encode()


def test_a_link_at_the_target_is_replaced_and_its_aim_left_alone(tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(aim)
    replace_file(link, "new")
    assert aim.read_text() == "old"
    assert not link.is_symlink()
    assert link.read_text() == "new"


def test_permissions_stay_unless_given(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("1")
    path.chmod(0o640)
    replace_file(path, "2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    replace_file(path, "3", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_readers_never_see_a_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    contents = {b"a" * 200_000, b"b" * 100_000}
    replace_file(path, b"a" * 200_000)
    stop = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(read_regular(path, 1 << 20))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(40):
        replace_file(path, sorted(contents)[number % 2])
    stop.set()
    reader.join()
    assert seen <= contents


@pytest.mark.parametrize(
    ("code", "said"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "no permission"), (errno.EIO, "Input/output error")],
)
def test_a_failed_write_says_why_and_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def refuse(handle: int, data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "write", refuse)
    with pytest.raises(Unavailable) as caught:
        replace_file(path, "new")
    assert str(path) in caught.value.what
    assert said in caught.value.what
    assert path.read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_a_missing_folder_and_a_folder_in_the_way_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not there"):
        replace_file(tmp_path / "no" / "f", "x")
    (tmp_path / "d").mkdir()
    with pytest.raises(NotRegular, match="folder"):
        replace_file(tmp_path / "d", "x")
    assert names(tmp_path) == ["d"]


def test_text_without_a_utf8_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="character 1"):
        replace_file(tmp_path / "f", "a\ud800")


def test_only_regular_files_are_read_and_none_blocks(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    (tmp_path / "link").symlink_to(plain)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(Path(tempfile.mkdtemp(dir="/tmp"), "s")))
    wanted = {
        tmp_path / "link": "symbolic link",
        tmp_path / "pipe": "named pipe",
        tmp_path / "folder": "folder",
        Path("/dev/zero"): "device",
        Path(server.getsockname()): "socket",
    }
    for path, kind in wanted.items():
        with pytest.raises(NotRegular, match=kind):
            read_regular(path, 10)
    Path(server.getsockname()).unlink()
    Path(server.getsockname()).parent.rmdir()
    server.close()


def test_a_missing_file_is_a_fault_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="not there"):
        read_regular(tmp_path / "none", 10)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 11)
    assert len(read_regular(path, 11)) == 11
    with pytest.raises(BadInput, match="larger than the 10 bytes"):
        read_regular(path, 10)


def test_append_refuses_links_and_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "aim")
    with pytest.raises(NotRegular):
        append_line(tmp_path / "link", "x")
    with pytest.raises(ValueError, match="one line"):
        append_line(tmp_path / "f", "a\nb")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotRegular):
        append_line(tmp_path / "pipe", "x")
    assert not (tmp_path / "aim").exists()


def test_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    threads = [
        threading.Thread(target=lambda word=word: [append_line(path, word * 2000) for _ in range(20)])
        for word in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_text().splitlines()
    assert len(lines) == 80
    assert all(len(set(line)) == 1 and len(line) == 2000 for line in lines)
