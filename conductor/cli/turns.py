"""Taking turns: the verbs that make and take away a repository's panes work on it one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from conductor.cli.output import note
from conductor.layout import Layout
from conductor.lock import HeldError, OneOwner
from schemas.errors import Unavailable
from schemas.text import one_line

_TOLD_AFTER = 1.0
_LONGEST = 60.0
"""Seconds for which another verb is waited for."""
_LOOK = 0.05


@contextmanager
def turn(layout: Layout, verb: str) -> Iterator[None]:
    """Holds the repository for this verb, after waiting for another one that has it, which is told on stderr.

    Raises ``Unavailable`` that names the other one where it takes too long. The conductor never takes it, so that a
    verb may wait for the conductor while it holds this.
    """
    if not layout.state.is_dir():
        from worker.tools.git import exclude_private

        exclude_private(layout.root)  # before the first file of ours is there
    lock = OneOwner(layout.turn, verb=verb)
    began, told = time.monotonic(), False
    while True:
        try:
            lock.acquire()
            break
        except HeldError as held:
            other = f"`taskmaestro {one_line(str(held.facts.get('verb', '?')), 20)}`"
            pid, waited = held.facts.get("pid", "?"), time.monotonic() - began
            if waited >= _LONGEST:
                raise Unavailable(
                    f"{other} (pid {pid} on {held.facts.get('host', '?')}) works on this repository and did not end"
                    f" within {_LONGEST:.0f} s; nothing was changed",
                    f"Wait until it has ended and try again, or end it: `kill {pid}`; each verb can be repeated.",
                ) from None
            if waited >= _TOLD_AFTER and not told:
                told = True
                note(f"waiting for {other} (pid {pid}), which works on this repository")
        time.sleep(_LOOK)
    try:
        yield
    finally:
        lock.release()
