"""What is known of a pane's processes."""

from __future__ import annotations

import os

from conductor.panes.processes import is_zombie, snapshot
from tests.support.waiting import wait_until


def test_a_process_that_ended_and_was_not_asked_for_is_told_from_a_living_and_from_none() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    wait_until(lambda: is_zombie(pid), what="the end")
    assert pid not in snapshot()
    assert not is_zombie(os.getpid())
    os.waitpid(pid, 0)
    assert not is_zombie(pid)
