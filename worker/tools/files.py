"""Files replaced whole, read with care, appended to durably: the only ways in which both sides touch
shared files.

Each function turns what the file system refuses into a ``Fault`` that names the file and says what to do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from schemas.errors import BadInput, Fault, Unavailable

TEMPORARY_PREFIX = ".taskmaestro-"
TEMPORARY_SUFFIX = ".tmp"
"""Temporary files are named ``.taskmaestro-<random>.tmp``; the private exclude file of the repository
names them.
"""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class MissingFile(BadInput):
    """The file is not there."""


class NotRegular(BadInput):
    """Something else than a regular file bears the name."""


def standard_input() -> BinaryIO:
    """The bytes of standard input. Raises ``BadInput`` where the caller closed it: that is not an empty text."""
    if sys.stdin is None:
        raise BadInput("standard input is closed, so nothing can be read from it", "Name a file, or pipe something in.")
    return sys.stdin.buffer


def replace_file(path: Path | str, data: bytes | str, *, mode: int | None = None) -> None:
    """Replace ``path`` by ``data`` in one step (docs/contracts.md: temporary file in the same folder,
    fsync, rename).

    A reader sees the old or the new content, also after a power cut. A symbolic link at ``path`` is
    replaced itself, never followed. ``mode`` are permission bits; without it those of the old regular
    file stay. Text becomes UTF-8. Raises ``Unavailable`` for a full disk or missing permission,
    ``BadInput`` for text or places that cannot be.
    """
    target = Path(path)
    raw = _encoded(target, data)
    try:
        _replace(target, raw, _mode_of(target) if mode is None else mode)
    except OSError as fault:
        raise _write_fault(target, fault) from fault


def check_replaceable(path: Path | str) -> None:
    """Raises what ``replace_file`` would come to, and ``NotRegular`` for all that is no regular file: links too.

    For a place that a person names: a pipe, a device or a link there has another use, and would be gone.
    """
    target = Path(path)
    try:
        refuse_irregular(target, target.lstat())
    except FileNotFoundError as fault:
        if not target.parent.is_dir():
            raise _write_fault(target, fault) from fault
    except ValueError:
        raise BadInput(f"cannot write {str(target)!r}: it is no file name", "Name a file.") from None
    except OSError as fault:
        raise _write_fault(target, fault) from fault


def make_folder(path: Path) -> None:
    """The folder, with those above it. Raises ``Unavailable`` or ``BadInput`` where it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotRegular(f"{path} cannot be made: a file bears its name, or one above it", "Move it away.") from None
    except OSError as fault:
        raise _write_fault(path, fault) from fault


def _encoded(target: Path, data: bytes | str) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        return data.encode()
    except UnicodeEncodeError as fault:
        raise BadInput(
            f"cannot write {target}: character {fault.start} of the text has no UTF-8 form",
            "Take the character out of the text.",
        ) from fault


def _mode_of(target: Path) -> int | None:
    try:
        status = target.lstat()
    except OSError:  # not there, or not to be looked at: writing it will say which
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _replace(target: Path, raw: bytes, mode: int | None) -> None:
    name = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name, flags, 0o666, dir_fd=folder)
        try:
            try:
                _write_all(handle, raw)
                if mode is not None:
                    os.fchmod(handle, mode)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.rename(name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            raise
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_all(handle: int, raw: bytes) -> None:
    rest = memoryview(raw)
    while rest:
        rest = rest[os.write(handle, rest) :]


def read_regular(path: Path | str, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes; never follows a link, never blocks.

    Raises ``MissingFile`` where nothing is there, ``NotRegular`` for a link, pipe, folder, socket or device,
    ``BadInput`` for a larger file, ``Unavailable`` where it may not be read.
    """
    target = Path(path)
    try:
        refuse_irregular(target, target.lstat())  # a device may act on being opened, so look first
        handle = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        raise _read_fault(target, fault) from fault
    try:
        refuse_irregular(target, os.fstat(handle))
        raw = _read_up_to(handle, limit + 1)
    except OSError as fault:
        raise _read_fault(target, fault) from fault
    finally:
        os.close(handle)
    if len(raw) > limit:
        raise BadInput(f"{target} is larger than the {limit} bytes that are read", "Write a smaller file.")
    return raw


def refuse_irregular(target: Path | str, status: os.stat_result) -> None:
    """Raises ``NotRegular`` that says what bears this name, where that is no regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "not a regular file")
    raise NotRegular(f"{target} is {kind}; expected a regular file", "Remove it and write a plain file there.")


def _read_up_to(handle: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = os.read(handle, min(count, 1 << 20))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def append_line(path: Path | str, line: str) -> None:
    """Append ``line`` (without a line break) and its line break, and wait until it is on disk.

    One write on a file opened for appending, so that lines of several writers do not mix. The file is
    made where it is missing; a symbolic link is refused. Raises ``ValueError`` for a line break inside,
    faults as ``replace_file``.
    """
    if "\n" in line:
        raise ValueError("append_line takes one line")
    target = Path(path)
    raw = _encoded(target, line + "\n")
    fresh = not target.exists()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(target, flags, 0o666)
        try:
            refuse_irregular(target, os.fstat(handle))
            _write_all(handle, raw)
            os.fsync(handle)
        finally:
            os.close(handle)
        if fresh:
            sync_folder(target.parent)
    except OSError as fault:
        raise _write_fault(target, fault) from fault


def sync_folder(folder: Path) -> None:
    """Wait until names that were made, renamed or removed in ``folder`` are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_fault(target: Path, fault: OSError) -> Fault:
    code = fault.errno
    if code in _FULL:
        return Unavailable(f"cannot write {target}: the disk is full", "Free some space, then try again.")
    if code in _FORBIDDEN:
        return Unavailable(
            f"cannot write {target}: no permission ({os.strerror(code or 0)})",
            f"Make {target.parent} writable for this user.",
        )
    if code in (errno.ENOENT, errno.ENOTDIR) and target.parent.is_dir():
        return BadInput(f"cannot write {target}: {target.parent} takes no new files", "Name another place.")
    if code in (errno.ENOENT, errno.ENOTDIR):
        return BadInput(f"cannot write {target}: its folder {target.parent} is not there", "Make the folder first.")
    if code in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
        return NotRegular(f"cannot write {target}: a folder bears that name", "Move the folder away.")
    if code in (errno.ELOOP, errno.ENXIO):
        return NotRegular(f"cannot write {target}: it is not a regular file", "Remove it.")
    return Unavailable(f"cannot write {target}: {fault.strerror or fault}", "See to the disk, then try again.")


def _read_fault(target: Path, fault: OSError) -> Fault:
    code = fault.errno
    if code in (errno.ENOENT, errno.ENOTDIR):
        return MissingFile(f"{target} is not there", "Check the path.")
    if code == errno.ELOOP:
        return NotRegular(f"{target} is a symbolic link; expected a regular file", "Write a plain file there.")
    if code in _FORBIDDEN:
        return Unavailable(f"cannot read {target}: no permission", "Make it readable for this user.")
    return Unavailable(f"cannot read {target}: {fault.strerror or fault}", "See to the disk, then try again.")
