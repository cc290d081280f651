"""Result files in real folders under a real watch: writers of every manner, worktrees that come and go, bad input."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.loop import watch_results
from conductor.loop.watch_results import RESULT, ResultWatch, read_result
from schemas.events import ResultInvalid, ResultSeen
from schemas.result import MAX_BYTES
from tests.support.waiting import wait_until

GOOD = {"status": "success", "pr_number": 1}
QUIET = 0.3


class Watched:
    """A home with worktrees, and what the watch said of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[ResultSeen | ResultInvalid] = []
        self.asked = 0
        self.worktrees: list[set[int]] = []
        self.trouble: list[str] = []
        self.watch = ResultWatch(
            home,
            self.said.append,
            self._inbox,
            on_worktrees=self.worktrees.append,
            on_trouble=self.trouble.append,
        )

    def _inbox(self) -> None:
        self.asked += 1

    def add(self, index: int) -> Path:
        folder = self.home / f"wt-{index}"
        folder.mkdir()
        return folder

    def result(self, index: int) -> Path:
        return self.home / f"wt-{index}" / RESULT

    def of(self, index: int, kind: type[Any] = ResultSeen) -> list[Any]:
        return [one for one in self.said if one.pane == index and isinstance(one, kind)]

    def wait_for(self, index: int, kind: type[Any] = ResultSeen, count: int = 1) -> Any:
        wait_until(lambda: len(self.of(index, kind)) >= count, what=f"{kind.__name__} of wt-{index}")
        return self.of(index, kind)[-1]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(watch_results, "QUIET", QUIET)
    home = tmp_path / "re po ü" / ".taskmaestro"
    home.mkdir(parents=True)
    one = Watched(home)
    one.add(1)
    yield one
    one.watch.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "results"]


@pytest.fixture
def live(watched: Watched) -> Watched:
    watched.watch.start()
    return watched


def replace(path: Path, data: bytes) -> None:
    """As careful writers do: a new file beside, then one rename."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_bytes(data)
    beside.rename(path)


def raw(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


# --- writers ---


def test_what_is_there_at_the_start_is_read(watched: Watched) -> None:
    replace(watched.result(1), raw())
    watched.watch.start()
    assert watched.wait_for(1).result.pr == 1
    assert watched.asked >= 1


def test_a_file_that_is_replaced_is_read_once_for_each_writing(live: Watched) -> None:
    for number in range(1, 4):
        replace(live.result(1), raw(pr_number=number))
        assert live.wait_for(1, count=number).result.pr == number
    stamps = [one.stamp for one in live.of(1)]
    assert len(stamps) == len(set(stamps)) == 3


def test_a_file_that_is_written_in_place_is_read(live: Watched) -> None:
    live.result(1).write_bytes(raw())
    assert live.wait_for(1).result.pr == 1
    with live.result(1).open("r+b") as file:
        file.write(raw(pr_number=2))
    wait_until(lambda: live.of(1)[-1].result.pr == 2)
    assert live.of(1, ResultInvalid) == []


def test_the_same_content_written_again_has_another_stamp(live: Watched) -> None:
    replace(live.result(1), raw())
    first = live.wait_for(1)
    replace(live.result(1), raw())
    again = live.wait_for(1, count=2)
    assert again.digest == first.digest
    assert again.stamp != first.stamp


def test_a_slow_writer_is_waited_for(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte for longer than the quiet time: each byte begins that time anew."""
    monkeypatch.setattr(watch_results, "QUIET", 0.6)
    watched.watch.start()
    data = raw(summary="x" * 20)
    pause = 1.5 / len(data)
    with watched.result(1).open("wb", buffering=0) as file:
        for position in range(len(data)):
            file.write(data[position : position + 1])
            time.sleep(pause)
    assert watched.wait_for(1).result.summary == "x" * 20
    assert watched.of(1, ResultInvalid) == []


def test_half_a_file_counts_after_two_quiet_seconds_and_not_before(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert watch_results.QUIET == 2.0
    watched.watch.start()
    begun = time.monotonic()
    watched.result(1).write_bytes(raw()[:10])
    found = watched.wait_for(1, ResultInvalid)
    assert time.monotonic() - begun >= 2.0
    assert "line 1 column" in found.problem
    replace(watched.result(1), raw())
    watched.wait_for(1)
    assert len(watched.of(1, ResultInvalid)) == 1


def test_a_bad_file_that_is_mended_in_time_is_never_reported(live: Watched) -> None:
    replace(live.result(1), b"{")
    replace(live.result(1), raw())
    live.wait_for(1)
    replace(live.result(1), b"{")
    live.result(1).unlink()
    replace(live.result(1), raw(pr_number=2))
    wait_until(lambda: live.of(1)[-1].result.pr == 2)
    assert live.of(1, ResultInvalid) == []


# --- bad input ---


def _symlink(path: Path) -> None:
    target = path.with_name("target.json")
    target.write_bytes(raw())
    path.symlink_to(target)


def _dangling(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def _device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this system makes no devices, also for root")


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "not JSON": (lambda path: path.write_bytes(b"status: success"), "line 1 column 1: expected JSON"),
    "not an object": (lambda path: path.write_bytes(b"[1]"), "expected a JSON object, found a list"),
    "empty": (lambda path: path.write_bytes(b""), "line 1 column 1: expected JSON"),
    "wrong type": (lambda path: path.write_bytes(raw(pr_number="x")), "field pr_number"),
    "unknown status": (lambda path: path.write_bytes(raw(status="finished")), "field status"),
    # In one step: the beginning of it alone would be a result.
    "over 1 MiB": (lambda path: replace(path, raw() + b" " * MAX_BYTES), "at most 1048576 bytes"),
    "far over 1 MiB": (lambda path: path.write_bytes(b" " * 3 * MAX_BYTES), "at most 1048576 bytes"),
    "not UTF-8": (lambda path: path.write_bytes(b'{"status": "\xff"}'), "line 1 column 13: expected UTF-8"),
    "no pull request": (lambda path: path.write_bytes(b'{"status": "success"}'), "pr_number or pr_url"),
    "symbolic link": (_symlink, "is a symbolic link"),
    "dangling link": (_dangling, "is a symbolic link"),
    "named pipe": (os.mkfifo, "is a named pipe"),
    "folder": (Path.mkdir, "is a folder"),
    "device": (_device, "is a device"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_bad_input_is_reported_with_path_and_place_and_stays_where_it_is(
    watched: Watched, what: str, when: str
) -> None:
    make, says = BAD[what]
    if when == "meanwhile":
        watched.watch.start()
    make(watched.result(1))
    if when == "before":
        watched.watch.start()
    found = watched.wait_for(1, ResultInvalid)
    assert str(watched.result(1)) in found.problem
    assert says in found.problem
    assert str(MAX_BYTES + 1) not in found.problem  # one limit, one number
    assert os.path.lexists(watched.result(1))
    assert watched.of(1) == []
    assert watched.trouble == []
    other = watched.add(2)
    watched.watch.rescan()
    replace(other / RESULT, raw())
    watched.wait_for(2)


def test_a_file_that_may_not_be_read_is_reported(live: Watched) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    live.result(1).write_bytes(raw())
    live.result(1).chmod(0)
    assert "no permission" in live.wait_for(1, ResultInvalid).problem


def test_the_same_bad_file_has_the_same_stamp_and_another_writing_has_not(watched: Watched) -> None:
    path = watched.result(1)
    os.mkfifo(path)
    first, second = read_result(1, path), read_result(1, path)
    assert isinstance(first, ResultInvalid)
    assert isinstance(second, ResultInvalid)
    assert first.stamp == second.stamp
    path.unlink()
    path.write_bytes(b"{")
    third = read_result(1, path)
    assert isinstance(third, ResultInvalid)
    assert third.stamp != first.stamp


def test_a_path_that_no_utf_8_has_can_still_be_reported(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    (folder / RESULT).write_bytes(b"{")
    found = read_result(1, folder / RESULT)
    assert isinstance(found, ResultInvalid)
    assert found.model_dump_json()


# --- the conductor's own word ---


def _word(**fields: Any) -> bytes:
    word = {"status": "review_pending", "written_by": "conductor", "granted": "review_pending", "review_cycle": 1}
    return json.dumps({**word, **fields}).encode()


def test_the_conductors_own_word_is_no_result(watched: Watched) -> None:
    watched.result(1).write_bytes(_word())
    assert read_result(1, watched.result(1)) is None


@pytest.mark.parametrize("fields", [{"status": "approved"}, {"written_by": "me"}, {"granted": None}])
def test_a_worker_that_changes_the_conductors_word_is_heard(watched: Watched, fields: dict[str, Any]) -> None:
    watched.result(1).write_bytes(_word(**fields))
    assert isinstance(read_result(1, watched.result(1)), ResultSeen)


def test_a_worker_may_answer_in_the_conductors_file(watched: Watched) -> None:
    watched.result(1).write_bytes(_word(status="review_addressed"))
    assert isinstance(read_result(1, watched.result(1)), ResultSeen)


# --- worktrees ---


def test_a_worktree_that_appears_is_picked_up(live: Watched) -> None:
    replace(live.add(7) / RESULT, raw(pr_number=7))
    assert live.wait_for(7).result.pr == 7
    replace(live.result(7), raw(pr_number=8))
    wait_until(lambda: live.of(7)[-1].result.pr == 8, what="the second result of wt-7")
    assert live.worktrees[-1] == {1, 7}


def test_a_worktree_that_is_moved_in_is_picked_up_with_its_file(live: Watched, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    replace(tmp_path / "made" / RESULT, raw())
    (tmp_path / "made").rename(live.home / "wt-3")
    live.wait_for(3)


def test_a_worktree_that_vanishes_and_comes_back_is_watched_again(live: Watched) -> None:
    for number in range(2, 12):
        replace(live.result(1), raw(pr_number=number))
        live.wait_for(1)
        wait_until(lambda number=number: live.of(1)[-1].result.pr == number, what=f"life {number}")
        shutil.rmtree(live.home / "wt-1")
        live.add(1)  # often with the inode of the old one
    replace(live.result(1), raw(pr_number=99))
    wait_until(lambda: live.of(1)[-1].result.pr == 99)
    assert live.trouble == []


def test_a_worktree_that_is_gone_is_let_go(live: Watched) -> None:
    shutil.rmtree(live.home / "wt-1")
    wait_until(lambda: live.worktrees[-1] == set())
    wait_until(lambda: live.watch._watched == {})


@pytest.mark.parametrize("name", ["wt-01", "wt-0", "wt-", "wt-x", "wt-1x", "awt-1", "wt-\u0661", "wt--1", "wt-9999999"])
def test_other_folders_are_not_worktrees(watched: Watched, name: str) -> None:
    (watched.home / name).mkdir()
    replace(watched.home / name / RESULT, raw())
    watched.watch.start()
    replace(watched.result(1), raw())
    watched.wait_for(1)
    assert {one.pane for one in watched.said} == {1}


def test_a_link_to_a_folder_is_not_a_worktree(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    replace(tmp_path / "elsewhere" / RESULT, raw())
    (watched.home / "wt-2").symlink_to(tmp_path / "elsewhere")
    watched.watch.start()
    replace(watched.result(1), raw())
    watched.wait_for(1)
    assert watched.of(2) == []


def test_other_files_of_a_worktree_are_nobodys_business(live: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    real = live.watch._read
    monkeypatch.setattr(live.watch, "_read", lambda index: (looked.append(index), real(index)))
    for number in range(50):
        (live.home / "wt-1" / f"file-{number}").write_text("x")
    replace(live.result(1), raw())
    live.wait_for(1)
    assert len(looked) <= 4


def test_a_burst_of_a_hundred_worktrees_is_read_in_full(live: Watched) -> None:
    for index in range(2, 102):
        replace(live.add(index) / RESULT, raw(pr_number=index))
    wait_until(lambda: {one.pane for one in live.said} >= set(range(2, 102)), timeout=30)
    for index in range(2, 102):
        replace(live.result(index), raw(pr_number=index + 1000))
    wait_until(
        lambda: {one.result.pr for one in live.said if isinstance(one, ResultSeen)} >= set(range(1002, 1102)), 30
    )
    for index in range(2, 102):
        shutil.rmtree(live.home / f"wt-{index}")
    wait_until(lambda: set(live.watch._watched) == {1}, timeout=30)
    assert live.trouble == []
    assert not any(isinstance(one, ResultInvalid) for one in live.said)


# --- what can go wrong around it ---


def test_a_worktree_that_cannot_be_watched_is_said_and_looked_at(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_results, "LOOK_AGAIN", 0.1)
    real = watched.watch._observer.schedule
    refused = [True]

    def schedule(handler: Any, path: str, **more: Any) -> Any:
        if refused[0] and path.endswith("wt-1"):
            raise OSError(28, "inotify watch limit reached")
        return real(handler, path, **more)

    monkeypatch.setattr(watched.watch._observer, "schedule", schedule)
    watched.watch.start()
    assert "max_user_watches" in watched.trouble[0]
    replace(watched.result(1), raw())
    watched.wait_for(1)
    refused[0] = False
    wait_until(lambda: 1 in watched.watch._watched)
    assert len(watched.trouble) == 1


def test_a_listener_that_fails_does_not_blind_the_watch(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [True]

    def inbox() -> None:
        if failing[0] and watched.asked:
            raise RuntimeError("inbox")
        watched.asked += 1

    def take(found: ResultSeen | ResultInvalid) -> None:
        if failing[0]:
            raise RuntimeError("result")
        watched.said.append(found)

    monkeypatch.setattr(watched.watch, "_on_inbox", inbox)
    watched.watch.start()
    monkeypatch.setattr(watched.watch, "_on_result", take)
    (watched.home / "state" / "inbox" / "1.json").write_text("[]")
    replace(watched.result(1), raw())
    wait_until(lambda: {text.split(": ")[-1] for text in watched.trouble} >= {"inbox", "result"})
    failing[0] = False
    asked = watched.asked
    (watched.home / "state" / "inbox" / "2.json").write_text("[]")
    replace(watched.result(1), raw(pr_number=2))
    assert watched.wait_for(1).result.pr == 2
    wait_until(lambda: watched.asked > asked)


def test_folders_of_others_are_passed_on_by_path(watched: Watched, tmp_path: Path) -> None:
    seen: list[Path] = []
    watched.watch = ResultWatch(
        watched.home, watched.said.append, lambda: None, folders={tmp_path / "receipts": seen.append}
    )
    watched.watch.start()
    (tmp_path / "receipts" / "pane-1.jsonl").write_text("x\n")
    wait_until(lambda: tmp_path / "receipts" / "pane-1.jsonl" in seen)


def test_nothing_is_done_while_nothing_happens(live: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(live.result(1), raw())
    live.wait_for(1)
    wait_until(lambda: not live.watch._asked)
    assert live.watch._until_due() is None
