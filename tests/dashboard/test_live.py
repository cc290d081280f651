"""What ``conduct`` shows: a table drawn only when something changed, lines elsewhere, a picture for the README."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console, ConsoleDimensions

from conductor.core.state import Fleet
from conductor.dashboard.live import LiveTable, PlainLines, live_view, rows_of, svg
from conductor.dashboard.narrate import Narrator
from conductor.journal import read
from schemas.pane import Role
from tests.support.stories import Run, tell_it_all
from tests.support.tmux_server import tmux
from tests.support.tree import ROOT
from tests.support.waiting import wait_until

CONDUCTOR = {"pid": 4711, "host": "here"}


@pytest.fixture
def story(tmp_path: Path) -> Run:
    run = tell_it_all(tmp_path)
    run.close()
    return run


def console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width, height=24, force_terminal=True, color_system=None)


def written(one: Console) -> str:
    assert isinstance(one.file, io.StringIO)
    return one.file.getvalue()


def test_plain_lines_tell_time_pane_and_change(story: Run) -> None:
    stream = io.StringIO()
    narrator = Narrator()
    with PlainLines(stream) as view:
        for line in read(story.layout.journal):
            view.said(narrator.tell(line))
        view.update(narrator.fleet, CONDUCTOR)
        view.line("⚠️ Pane 3: unresolved\x1b[2J issues\nPR: #23", at=story.now)
    lines = stream.getvalue().splitlines()
    assert (
        "09:12:33 pane 3  review asks for changes at the cap: 1 finding, 1 blocking, at 3333333"
        " → review_pending (cycle 3) — needs a person: cycle_cap"
    ) in lines
    assert lines[-2:] == [f"{story.now:%H:%M:%S} ⚠️ Pane 3: unresolved[2J issues", "         PR: #23"]
    assert not any("begins" in line for line in lines)


def test_the_table_is_drawn_again_only_when_something_changed(story: Run) -> None:
    one = console()
    view = LiveTable(one)
    with view:
        view.update(story.memory.fleet, CONDUCTOR)
        wait_until(lambda: "review_pending" in written(one), what="the table")
        drawn = len(written(one))
        view.update(story.memory.fleet, CONDUCTOR)
        view.line("a line after it")
        wait_until(lambda: "a line after it" in written(one), what="the line")
        assert written(one)[drawn:].count("conductor: pid 4711") == 1  # with the line, and not for the update
    assert "conductor: pid 4711 on here" in written(one)


def test_in_few_rows_the_table_and_one_line_for_each_attention_are_seen(story: Run) -> None:
    one = Console(file=io.StringIO(), width=80, height=8, force_terminal=True, color_system=None)
    one.print(live_view(rows_of(story.memory.fleet), CONDUCTOR, 80, 8))
    lines = written(one).splitlines()
    assert len(lines) <= 8
    wanted = [row for row in rows_of(story.memory.fleet) if row.attention]
    assert wanted
    assert sum("needs a person" in line for line in lines) == len(wanted)
    assert sum(bool(re.match(r" *[1-4]\b", line)) for line in lines) == 4


def test_no_thread_wakes_while_nothing_happens(story: Run) -> None:
    with LiveTable(console()) as view:
        view.update(story.memory.fleet, CONDUCTOR)
        names = [thread.name for thread in threading.enumerate()]
        assert "display" in names
        assert not any("refresh" in name.casefold() for name in names)


def test_a_stopped_terminal_does_not_hold_the_caller_up(story: Run) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", buffering=1) as stream:
        view = PlainLines(stream)
        done = threading.Event()

        def talk() -> None:
            for number in range(2000):
                view.line(f"{number} {'x' * 200}")
            done.set()

        view.__enter__()
        threading.Thread(target=talk).start()
        assert done.wait(10), "the caller waits for a reader of the output"
        sink = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(reading, 65536), b"")])
        sink.start()
        view.__exit__(None, None, None)
    sink.join()
    os.close(reading)


def test_before_there_are_panes_it_says_how_to_get_some() -> None:
    one = console()
    with LiveTable(one) as view:
        view.update(Fleet(), CONDUCTOR)
    assert "no panes yet: taskmaestro up 3" in written(one)


def test_the_picture_has_lines_and_table_is_stable_and_fetches_nothing(story: Run) -> None:
    narrator = Narrator()
    said = [narrator.tell(line) for line in read(story.layout.journal)]
    picture = svg(narrator.fleet, said[-8:], CONDUCTOR)
    assert picture == svg(narrator.fleet, said[-8:], CONDUCTOR)
    ElementTree.fromstring(picture)  # noqa: S314  # our own text
    text = re.sub(r"<[^>]+>", "", picture).replace("&#160;", " ")
    assert "review_pending" in text
    assert "cycle_cap" in text
    assert "@font-face" not in picture
    assert "url(http" not in picture


SHOW = """
import sys, threading
from pathlib import Path
from conductor.core.memory import Memory
from conductor.dashboard.live import LiveTable, terminal
from conductor.dashboard.narrate import Narrator
from conductor.journal import read
narrator = Narrator()
with LiveTable(terminal()) as view:
    for line in read(Path(sys.argv[1])):
        view.said(narrator.tell(line))
        view.update(narrator.fleet, {"pid": 4711, "host": "here"})
    view.line("the end of it")
    sys.stdin.readline()
"""


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
def test_in_a_real_terminal_lines_scroll_above_one_table(
    story: Run, private_tmux: Path, width: int, height: int
) -> None:
    run = Run(story.layout.root)
    run.add(5, role=Role.REVIEWER)
    run.close()
    size = ["-x", str(width), "-y", str(height)]
    where = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", SHOW, str(story.layout.journal)]
    made = tmux(private_tmux, "-f", "/dev/null", "new-session", "-d", *size, *where)
    assert made.returncode == 0, made.stderr

    def screen() -> str:
        return tmux(private_tmux, "capture-pane", "-p").stdout

    def table_drawn() -> str | None:
        text = screen()
        below = text.rpartition("the end of it")[2].rpartition("PANE ")[2]
        ended = "the end of it" in text
        return text if ended and "reviewer: " in below and "needs a person" in below else None

    shown = (wait_until(table_drawn, timeout=30, what="the table") or "").splitlines()
    heads = [number for number, line in enumerate(shown) if line.startswith("PANE ")]
    assert len(heads) == 1, "the table stands there once"
    table = shown[heads[0] + 1 : heads[0] + 6]
    assert [line.split()[0] for line in table] == ["1", "2", "3", "4", "5"]
    assert table[1].rstrip().endswith("the fix")
    assert "reviewer: " in table[4]
    assert ("LAST EVENT" in shown[heads[0]]) is (width >= 100)
    assert any("the end of it" in line for line in shown[: heads[0]])


def test_the_table_is_drawn_anew_when_the_terminal_shrinks(story: Run) -> None:
    one = console(width=200)
    with LiveTable(one) as view:
        view.update(story.memory.fleet, CONDUCTOR)
        wait_until(lambda: "LAST EVENT" in written(one), what="the wide table")
        drawn = len(written(one))
        one.size = ConsoleDimensions(80, 8)
        os.kill(os.getpid(), signal.SIGWINCH)
        wait_until(lambda: "needs a person" in written(one)[drawn:], what="the small table")
    assert "LAST EVENT" not in written(one)[drawn:]
