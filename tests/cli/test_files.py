"""Files that are named on the command line: what is no plain file is neither waited for, nor followed, nor replaced."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.cli.files import check_output, opened, read_text, read_whole, write_output
from schemas.errors import BadInput
from tests.cli.conftest import command, environment


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("as it was", encoding="utf-8")
    path.symlink_to(target)


def a_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


KINDS = {"FIFO": a_pipe, "folder": a_folder, "symbolic link": a_link, "a symbolic link": a_dangling_link}


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_that_is_no_plain_file_is_refused_and_stays(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "out"
    KINDS[kind](place)
    before = place.lstat()
    for write in (lambda: check_output(str(place)), lambda: write_output(place, "text")):
        with pytest.raises(BadInput, match=rf"is .*{kind}.*; expected a regular file"):
            write()
    assert place.lstat() == before


@pytest.mark.parametrize("name", ["", "-", "a\0b"])
def test_an_output_needs_a_name(name: str) -> None:
    with pytest.raises(BadInput):
        check_output(name)


def test_an_output_may_be_new_or_there_and_its_folder_must_be(tmp_path: Path) -> None:
    place = check_output(str(tmp_path / "out"))
    write_output(place, "one")
    write_output(check_output(str(place)), "two")
    assert place.read_text(encoding="utf-8") == "two"
    with pytest.raises(BadInput, match=r"its folder .* is not there"):
        check_output(str(tmp_path / "no" / "out"))


def test_a_place_that_takes_no_files_is_called_that() -> None:
    with pytest.raises(BadInput, match="/proc takes no new files"):
        write_output(Path("/proc/o.json"), "text")


@pytest.mark.parametrize(("kind", "make"), [("FIFO", a_pipe), ("folder", a_folder)])
def test_an_input_that_is_no_plain_file_is_refused_at_once(
    tmp_path: Path, kind: str, make: Callable[[Path], None]
) -> None:
    place = tmp_path / "in"
    make(place)
    with pytest.raises(BadInput, match=rf"cannot be read: it is a .*{kind}"):
        read_whole(str(place))


def test_an_input_may_be_a_link_and_nothing(tmp_path: Path) -> None:
    a_link(tmp_path / "link")
    assert read_text(str(tmp_path / "link"), what="--body-file") == "as it was"
    assert read_whole(os.devnull) == b""


def test_an_input_without_a_name_is_told_as_that() -> None:
    with pytest.raises(BadInput, match="--body-file: a file's name is expected"):
        read_text("", what="--body-file")


def test_what_goes_wrong_with_an_opened_file_is_not_told_as_its_fault(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.write_text("text", encoding="utf-8")
    with pytest.raises(BrokenPipeError), opened(str(place)):
        raise BrokenPipeError


def test_the_shell_s_process_substitution_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"prExists": true, "reviewRequested": true}')
    os.close(writing)
    done = subprocess.run(
        command("loop", "reviewer", "--input", f"/dev/fd/{reading}", "--jq", ".state"),
        pass_fds=(reading,),
        env=environment(),
        capture_output=True,
        timeout=60,
    )
    os.close(reading)
    assert (done.returncode, done.stdout) == (0, b"review_requested\n"), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("loop", "reviewer", "--input", "PIPE"),
        ("loop", "follow-up", "--input", "-", "--config", "PIPE"),
        ("loop", "merge", "--input", "PIPE"),
        ("pr", "lint", "--body-file", "PIPE"),
    ],
)
def test_no_verb_waits_for_a_pipe_without_a_writer(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = subprocess.run(
        command(*(str(pipe) if word == "PIPE" else word for word in arguments)),
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "FIFO" in done.stderr
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
