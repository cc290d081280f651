"""Files that a person names on the command line: opened without ever blocking on them, replaced only where they are
plain files.

A pipe without a writer would be waited for without an end, and a device may act on being opened. What the shell hands
over as an open file (``<(...)``, ``/dev/stdin``) is read as it is: it has somebody at its other end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from schemas.errors import BadInput
from worker.tools.files import NotRegular, check_replaceable, refuse_irregular, replace_file, standard_input

_HANDED_OVER = re.compile(r"^/dev/(fd/\d+|stdin)$|^/proc/(self|\d+)/fd/\d+$")


@contextmanager
def opened(name: str, *, what: str = "") -> Iterator[BufferedReader | Any]:
    """The file of this name, ``-`` for standard input. Raises ``BadInput`` where it cannot be opened or read.

    ``what``: the option that named it, for messages.
    """
    if name == "-":
        yield standard_input()
        return
    file = _open(name, f"{what} {name}".strip())
    with file:
        yield file


def _open(name: str, shown: str) -> BufferedReader:
    if not name:
        raise BadInput(f"{shown or 'the input'}: a file's name is expected, not an empty text", _HINT)
    try:
        handle = _handle(name)
    except NotRegular as fault:
        raise BadInput(f"{shown} cannot be read: it{fault.what.removeprefix(name)}", _HINT) from None
    except (OSError, ValueError) as fault:
        raise unreadable(shown, fault) from None
    return os.fdopen(handle, "rb")


_HINT = "Name a plain file, or - for standard input."


def _handle(name: str) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC
    if _HANDED_OVER.match(name) or name == os.devnull:
        return os.open(name, flags)
    refuse_irregular(name, os.stat(name))  # noqa: PTH116  # a Path would change the name that is told
    handle = os.open(name, flags | os.O_NONBLOCK)
    try:
        refuse_irregular(name, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def unreadable(shown: str, fault: Exception) -> BadInput:
    """What to tell where a file cannot be opened or read."""
    reason = fault.strerror if isinstance(fault, OSError) else "it is no file name"
    return BadInput(f"{shown} cannot be read: {reason}", _HINT)


def read_whole(name: str, *, what: str = "", limit: int = -1) -> bytes:
    """The content; of what is larger than ``limit`` one byte more than that."""
    with opened(name, what=what) as file:
        try:
            found: bytes = file.read(limit + 1 if limit >= 0 else -1)
        except OSError as fault:
            raise unreadable(f"{what} {name}".strip(), fault) from None
    return found


def read_text(name: str, *, what: str, strict: bool = True) -> str:
    """The text of a file that is UTF-8, with plain line ends. What is not is replaced, or ``BadInput`` if ``strict``.

    Standard input is never refused for that: whoever made it cannot be asked again.
    """
    raw = read_whole(name, what=what)
    try:
        text = raw.decode("utf-8", "strict" if strict and name != "-" else "replace")
    except UnicodeDecodeError as fault:
        raise BadInput(f"{what} {name} cannot be read: it is not UTF-8", "Name a text file.") from fault
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_output(name: str) -> Path:
    """The place to write to. Raises ``BadInput`` unless a plain file is there, or nothing in a folder that is.

    To be asked before anything else is done, so that nothing is done whose outcome cannot be kept.
    """
    if name in ("", "-"):
        raise BadInput(f"{name or 'an empty text'} is no place to write to", "Name a file.")
    check_replaceable(name)
    return Path(name)


def write_output(path: Path, text: str) -> None:
    """Replace the file, looking once more at what is there."""
    check_replaceable(path)
    replace_file(path, text)
