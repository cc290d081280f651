"""Attaching a control client and changing panes take turns: tmux before 3.7 crashes where they meet."""

from __future__ import annotations

import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conductor.panes.guard import SUFFIX, Guard, default_socket, is_told
from conductor.panes.server import Tmux

ATTACHMENTS = 200
"""Without turns some ten are enough for a crash."""


def test_a_server_outlives_clients_that_attach_and_leave_while_panes_come_and_go(private_tmux: Path) -> None:
    others = Tmux("shop", private_tmux)
    others.once(("new-session", "-d", "-s", "shop", "-x", "80", "-y", "24", "cat"))

    def attach() -> None:
        for _ in range(ATTACHMENTS):
            one = Tmux("shop", private_tmux)
            assert one.connect(now=True) is not None
            one.close()

    def change() -> int:
        changes = 0
        while not attaching.done():
            (pane,) = others.once(("split-window", "-P", "-F", "#{pane_id}", "-t", "shop:", "cat"))
            others.once(("kill-pane", "-t", pane))
            changes += 1
        return changes

    with ThreadPoolExecutor(2) as pool:
        attaching = pool.submit(attach)
        changing = pool.submit(change)
        attaching.result()
        assert changing.result() > 3
    assert others.once(("list-clients",)) == []


def test_the_turn_is_had_by_one_at_a_time_and_again_by_whoever_has_it(tmp_path: Path) -> None:
    one, other = (Guard(tmp_path / "socket", patience=30) for _ in range(2))
    order: list[str] = []

    def later() -> None:
        with other.turn():
            order.append("the other")

    with ThreadPoolExecutor(1) as pool:
        with one.turn(), one.turn():
            waiting = pool.submit(later)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.1)
            order.append("one")
        waiting.result()
    assert order == ["one", "the other"]


def test_a_turn_that_does_not_come_is_not_waited_for_without_end(tmp_path: Path) -> None:
    fd = os.open(tmp_path / f"socket{SUFFIX}", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    began = time.monotonic()
    with Guard(tmp_path / "socket", patience=0.2).turn():
        assert time.monotonic() - began >= 0.2
    os.close(fd)


def test_where_no_lock_can_be_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / f"fifo{SUFFIX}").symlink_to(tmp_path / "elsewhere")
    for socket in (tmp_path / "missing" / "socket", tmp_path / "fifo"):
        with Guard(socket, patience=30).turn():
            pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_default_server_s_lock_lies_beside_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", "/run/someone")
    assert default_socket() == Path(f"/run/someone/tmux-{os.getuid()}/default")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("split-window", "-d"), True),
        (("kill-pane", "-t", "%1"), True),
        (("new-session", "-d"), True),
        (("select-pane", "-t", "%1"), True),
        (("set-buffer", "x"), True),
        (("send-keys", "-t", "%1", "-X", "cancel"), True),
        (("send-keys", "-t", "%1", "Enter"), False),
        (("capture-pane", "-p"), False),
        (("list-panes", "-a"), False),
    ],
)
def test_what_control_clients_are_told_of_takes_turns(command: tuple[str, ...], told: bool) -> None:
    assert is_told(command) is told
