"""Standard output whose failures can be told from all others: a full disk or nobody there is no defect of ours."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT = 1


class OutputLostError(OSError):
    """The answer could not be written. ``errno`` as the system gave it; ``EBADF``: standard output is closed."""


class _Raw(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise OutputLostError(fault.errno, fault.strerror) from fault


def watch_stdout() -> None:
    """From now on failures of standard output are ``OutputLostError`` (a closed pipe stays ``BrokenPipeError``).

    A stand-in that somebody else put in place is left alone. A closed standard output gets its number back, as a file
    that takes nothing: otherwise the next file that is opened would be it, and would be written to.
    """
    old = sys.stdout
    if old is not sys.__stdout__:
        return
    if old is None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        if nothing != _STDOUT:
            os.dup2(nothing, _STDOUT)
            os.close(nothing)
        sys.stdout = _stream("utf-8", "backslashreplace", lines=False, at_once=False)
    elif isinstance(old, io.TextIOWrapper):
        old.flush()
        encoding, errors = old.encoding, old.errors or "strict"
        sys.stdout = _stream(encoding, errors, lines=old.line_buffering, at_once=old.write_through)


def let_go_of_stdout() -> None:
    """Nobody reads any more: what is still buffered must not raise again when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def closed(fault: OutputLostError) -> bool:
    """Whether standard output was closed from the start."""
    return fault.errno == errno.EBADF


def _stream(encoding: str, errors: str, *, lines: bool, at_once: bool) -> io.TextIOWrapper:
    # The mode says "w" of a file that may be open for reading alone; only a write can tell.
    raw = io.BufferedWriter(_Raw(_STDOUT, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding, errors, line_buffering=lines, write_through=at_once)
