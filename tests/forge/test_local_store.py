"""The local forge's file under many hands and on bad disks."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conductor.forge.local.forge import LocalForge
from conductor.forge.local.store import Store
from conductor.forge.local.tables import MIGRATIONS
from schemas.config import LocalForgeConfig
from schemas.errors import Unavailable
from schemas.review import Verdict
from tests.forge.stage import MakeStage
from tests.support.repos import git, make_repository

CODE = Path(__file__).resolve().parents[2]

RACE = """
import sys
from pathlib import Path
from conductor.forge.local.forge import LocalForge
from schemas.config import LocalForgeConfig
from schemas.review import Verdict
root, what, number, head = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
forge = LocalForge.create_or_open(root, LocalForgeConfig(), "conductor")
print("ready", flush=True)
sys.stdin.readline()
if what == "comment":
    print(forge.comment(number, "once", marker="<!-- m -->").already)
elif what == "review":
    posted = forge.post_review(number, body="b", verdict=Verdict.CHANGES, head=head, marker="<!-- m -->")
    print(posted.already)
elif what == "create":
    print(forge.create_pull_request(branch="raced", base="main", title="T", body="", draft=False).number)
else:
    for n in range(25):
        forge.comment(number, f"note {n}")
    print("done")
"""


def race(root: Path, what: str, number: int = 0, head: str = "", count: int = 4) -> list[str]:
    """Start processes, let all of them go at once, and answer what each printed."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(root), what, str(number), head],
            cwd=CODE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0] * count
    return answers


@pytest.mark.parametrize("what", ["comment", "review"])
def test_of_racing_posts_with_one_marker_one_is_made(make_stage: MakeStage, what: str) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    assert sorted(race(stage.root, what, opened.number, opened.head)) == ["False", "True", "True", "True"]
    assert len(stage.forge.comments(opened.number)) == 1


def test_racing_processes_open_one_pull_request(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.push("raced")
    answers = race(stage.root, "create")
    assert len(set(answers)) == 1
    assert [one.number for one in stage.forge.pull_requests()] == [int(answers[0])]


def test_no_comment_is_lost_when_many_write(make_stage: MakeStage) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    assert race(stage.root, "comments", number) == ["done"] * 4
    assert len(stage.forge.comments(number)) == 100


def test_racing_makers_make_one_forge(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")

    def make(n: int) -> str:
        forge = LocalForge.create_or_open(root, LocalForgeConfig(), f"worker-{n}")
        forge.create_issue(f"Issue {n}", "")
        forge.close()
        return forge.remote_name

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(make, range(6))) == {"origin"}
    forge = LocalForge.create_or_open(root, LocalForgeConfig(), "x")
    assert len(forge.issues()) == 6
    assert git(root, "remote") == "origin"


def test_threads_share_one_forge(make_stage: MakeStage) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: stage.forge.comment(number, f"note {n}"), range(40)))
    assert len(stage.forge.comments(number)) == 40


def test_a_locked_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "forge.sqlite3"
    store = Store(path, busy_seconds=0.1)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match=r"locked.*forge\.sqlite3.*0\.1 s") as caught, store.write():
            pytest.fail("the lock was not seen")
        assert "fuser" in caught.value.hint
        other.execute("ROLLBACK")
    other.close()
    with store.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")


def test_a_full_disk_changes_nothing_and_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "forge.sqlite3")
    store._connection.execute("PRAGMA max_page_count = 60")

    def fill() -> None:
        with store.write() as connection:
            for n in range(1000):
                connection.execute("INSERT INTO meta VALUES (?, ?)", (str(n), "x" * 4000))

    with pytest.raises(Unavailable, match="disk is full") as caught:
        fill()
    assert "Free some space" in caught.value.hint
    with store.read() as connection:
        assert connection.execute("SELECT count(*) FROM meta").fetchone()[0] == 0
    with store.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")


def test_a_damaged_file_is_said_to_be_so(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()
    path = root / ".taskmaestro" / "forge" / "forge.sqlite3"
    path.write_bytes(b"this is not a database, only as long as one " * 300)
    with pytest.raises(Unavailable, match=r"damaged: .*forge\.sqlite3") as caught:
        LocalForge.create_or_open(root, LocalForgeConfig(), "x")
    assert "aside" in caught.value.hint


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_lost_database_is_never_an_empty_one(tmp_path: Path, how: str) -> None:
    root = make_repository(tmp_path / "managed")
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()
    path = root / ".taskmaestro" / "forge" / "forge.sqlite3"
    kept = path.read_bytes()
    for name in ("forge.sqlite3", "forge.sqlite3-wal", "forge.sqlite3-shm"):
        path.with_name(name).unlink(missing_ok=True)
    if how == "empty":
        path.touch()
    for _ in range(2):
        with pytest.raises(Unavailable, match="lost") as caught:
            LocalForge.create_or_open(root, LocalForgeConfig(), "x")
    subprocess.run(shlex.split(caught.value.hint.rpartition(": ")[2]), check=True)
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()
    path.write_bytes(kept)
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()


def test_a_lost_repository_is_not_made_anew(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()
    folder, aside = root / ".taskmaestro" / "forge", tmp_path / "aside"
    folder.rename(aside)
    with pytest.raises(Unavailable, match=r"lost: .*repo\.git is missing") as caught:
        LocalForge.create_or_open(root, LocalForgeConfig(), "x")
    assert "git remote remove origin" in caught.value.hint
    assert not folder.exists()
    aside.rename(folder)
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()


def test_a_forge_whose_making_was_cut_off_is_made_to_its_end(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    LocalForge.create_or_open(root, LocalForgeConfig(), "x").close()
    folder = root / ".taskmaestro" / "forge"
    (folder / "repo.git" / "taskmaestro-database").unlink()
    (folder / "forge.sqlite3").unlink()
    assert LocalForge.create_or_open(root, LocalForgeConfig(), "x").pull_requests() == []
    assert (folder / "repo.git" / "taskmaestro-database").exists()


def test_a_file_damaged_inside_is_said_to_be_so(tmp_path: Path) -> None:
    path = tmp_path / "forge.sqlite3"
    store = Store(path)
    with store.write() as connection:
        for n in range(300):
            connection.execute("INSERT INTO meta VALUES (?, ?)", (str(n), "x" * 500))
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(Unavailable, match="damaged"):
        Store(path)


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "forge.sqlite3"
    Store(path).close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    other.close()
    with pytest.raises(Unavailable, match="newer taskmaestro"):
        Store(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    (root / ".taskmaestro").write_text("a file in the way\n", encoding="utf-8")
    with pytest.raises(Unavailable, match=r"\.taskmaestro"):
        LocalForge.create_or_open(root, LocalForgeConfig(), "x")


def test_a_write_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "forge.sqlite3")

    def stop_midway() -> None:
        with store.write() as connection:
            connection.execute("INSERT INTO meta VALUES ('a', 'b')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stop_midway()
    with store.read() as connection:
        assert connection.execute("SELECT count(*) FROM meta").fetchone()[0] == 0


def test_a_workers_quoted_marker_does_not_keep_a_review_from_being_posted(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature", author="worker-1")
    stage.forge.comment(opened.number, "<!-- m -->", author="worker-1")
    posted = stage.forge.post_review(
        opened.number, body="b", verdict=Verdict.CHANGES, head=opened.head, marker="<!-- m -->"
    )
    assert not posted.already
