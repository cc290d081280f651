"""Verbs that make and take away panes take turns: who has it is waited for and named, and a dead one has nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conductor.cli import turns
from conductor.cli.turns import turn
from conductor.layout import Layout
from conductor.lock import holder
from schemas.errors import Unavailable
from tests.cli.conftest import environment

OTHER = """
import os, sys
from pathlib import Path
from conductor.cli.turns import turn
from conductor.layout import Layout
with turn(Layout(Path(sys.argv[1])), "cleanup"):
    print(flush=True)
    if sys.stdin.readline() == "die\\n":
        os.kill(os.getpid(), 9)
"""


@contextmanager
def another(repository: Path) -> Iterator[subprocess.Popen[str]]:
    """A clean-up that has its turn until it is told a line."""
    argv = [sys.executable, "-c", OTHER, str(repository)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=environment(), text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "\n"
        yield process


def test_one_that_comes_second_says_whom_it_waits_for_and_then_has_its_turn(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_TOLD_AFTER", 0.0)
    layout = Layout(repository)
    told: list[str] = []
    with another(repository) as first:

        def ends_once_told(text: str) -> None:
            told.append(text)
            first.communicate("end\n")

        monkeypatch.setattr(turns, "note", ends_once_told)
        with turn(layout, "up"):
            held = holder(layout.turn)
    assert told == [f"waiting for `taskmaestro cleanup` (pid {first.pid}), which works on this repository"]
    assert held is not None
    assert (held["verb"], held["pid"]) == ("up", os.getpid())
    assert holder(layout.turn) is None


def test_one_that_takes_too_long_is_named_with_what_to_do(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LONGEST", 0.0)
    with another(repository) as first:
        with (
            pytest.raises(
                Unavailable, match=rf"`taskmaestro cleanup` \(pid {first.pid} on .*nothing was changed"
            ) as no,
            turn(Layout(repository), "stop"),
        ):
            raise AssertionError("two at once")
        assert f"`kill {first.pid}`" in no.value.hint
        first.communicate("end\n")


def test_one_that_was_killed_has_no_turn_any_more(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with another(repository) as first:
        first.communicate("die\n")
    with turn(Layout(repository), "up"):
        pass
    assert capsys.readouterr().err == ""


def test_a_verb_that_fails_gives_its_turn_back(repository: Path) -> None:
    layout = Layout(repository)
    with pytest.raises(RuntimeError, match="far out"), turn(layout, "up"):
        raise RuntimeError("far out")
    assert holder(layout.turn) is None


def test_the_first_turn_keeps_its_file_out_of_commits(repository: Path) -> None:
    with turn(Layout(repository), "up"):
        shown = subprocess.run(["git", "status", "--porcelain"], cwd=repository, capture_output=True, check=True)
    assert shown.stdout == b""
