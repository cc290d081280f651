"""Faults that a person is told about: what was wrong, where, and what to do next.

Every expected fault is a ``Fault``; the command line turns it into one message and an exit code
(docs/contracts.md, "Command line"). Anything else that escapes is a defect of ours.
"""

from __future__ import annotations

from typing import ClassVar


class Fault(Exception):
    """An expected fault. ``what`` names the problem and the place, ``hint`` what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n{self.hint}" if self.hint else self.what


class NotSo(Fault):
    """The thing asked about is not so: checks failed, a gate is closed, states differ."""

    exit_code = 1


class BadInput(Fault):
    """Usage or input that cannot be taken."""

    exit_code = 2


class Unavailable(Fault):
    """A needed program or service is missing or cannot be reached."""

    exit_code = 3


class NeedsPerson(Fault):
    """A person must decide before this can go on."""

    exit_code = 4


class NoLeave(NeedsPerson):
    """The forge does nothing for this login before a person mends it: no login, or no right to it."""


class StillPending(Fault):
    """Not decided yet; ask again later."""

    exit_code = 8
