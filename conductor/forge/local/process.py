"""Runs one check: bounded in time, in log size and in what it leaves behind.

The check gets a session of its own. At its end, or at the end of its time, its process group is ended; then
every descendant of the runner, which includes daemons that left the group, because the runner is their
subreaper.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conductor.forge.local.alive import end_descendants, kill
from schemas.text import clean

KEPT = 1024 * 1024
"""Bytes that a log keeps of its beginning, and again of its end."""
TAIL_LINES = 40
_TAIL_BYTES = 64 * 1024
_TICK = 0.05
_TERM_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """How a check ended. ``detail`` is for a person and says what was unusual; ``exit_code`` None: it did not
    run out.
    """

    passed: bool
    exit_code: int | None
    detail: str
    tail: str


class BoundedLog:
    """A log file with the first and the last ``KEPT`` bytes; never more than about twice that in memory.

    A disk that refuses does not stop the check: ``fault`` says so, and the tail is still known.
    """

    def __init__(self, path: Path) -> None:
        self.fault = ""
        self._total = 0
        self._last = bytearray()
        self._file = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        room = max(0, KEPT - self._total)
        if room:
            self._put(data[:room])
        self._total += len(data)
        self._last += data
        if len(self._last) > 2 * KEPT:
            del self._last[:-KEPT]

    def note(self, text: str) -> None:
        """A line of ours, set off from what the check printed."""
        start = b"" if not self._last or self._last.endswith(b"\n") else b"\n"
        self.write(start + f"[taskmaestro: {text}]\n".encode())

    def tail(self) -> str:
        """The last lines, cleaned for a terminal."""
        text = clean(bytes(self._last[-_TAIL_BYTES:]).decode("utf-8", "replace"))
        return "\n".join(text.rstrip().split("\n")[-TAIL_LINES:])

    def close(self) -> None:
        kept = min(KEPT, max(0, self._total - KEPT))
        left_out = self._total - KEPT - kept
        if left_out > 0:
            self._put(f"\n[taskmaestro: {left_out} bytes left out here]\n".encode())
        if kept:
            self._put(bytes(self._last[-kept:]))
        self._file.close()

    def _put(self, data: bytes) -> None:
        try:
            if not self.fault:
                self._file.write(data)
        except OSError as error:
            self.fault = f"its log is incomplete: {error.strerror or error}"


def run_check(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log_path: Path,
    timeout: float,
    started: Callable[[int], None],
    stop: Callable[[], bool],
) -> Outcome | None:
    """Run ``argv`` without a shell; None when ``stop`` said that the result is not wanted any more.

    ``timeout`` in seconds; ``started`` gets the process id; ``stop`` is asked about twice a second.
    """
    log = BoundedLog(log_path)
    output, printed = os.pipe()
    os.set_blocking(output, False)
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        os.close(output)
        log.note(_not_started(argv[0], error, env.get("PATH", "")))
        log.close()
        return Outcome(False, None, "could not be started", log.tail())
    finally:
        os.close(printed)
    try:
        started(process.pid)
        why = _follow(process, output, log, timeout, stop)
    finally:
        left = _end(process, output, log)
        os.close(output)
    if why == "stopped":
        log.note("ended, because this head was superseded or its run was taken over")
        log.close()
        return None
    return _outcome(process.returncode, why, left, log)


def _outcome(code: int, why: str, left: int, log: BoundedLog) -> Outcome:
    details = []
    if why:
        details.append(why)
    elif code < 0:
        details.append(f"ended by signal {-code} ({_signal_name(-code)})")
    if left:
        details.append(f"{left} process{'' if left == 1 else 'es'} that it left running ended")
    for detail in details:
        log.note(detail)
    log.close()
    if log.fault:
        details.append(log.fault)
    return Outcome(not why and code == 0, None if why else code, "; ".join(details), log.tail())


def _follow(
    process: subprocess.Popen[bytes],
    output: int,
    log: BoundedLog,
    timeout: float,
    stop: Callable[[], bool],
) -> str:
    """Take in its output until it ends; "" then, else why it is to be ended: a time-out, or "stopped"."""
    deadline = time.monotonic() + timeout
    next_stop = 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while process.poll() is None:
            if selector.get_map():
                for key, _ in selector.select(_TICK):
                    if not _take(output, log):
                        selector.unregister(key.fileobj)
            else:
                _wait(process, _TICK)
            moment = time.monotonic()
            if moment >= deadline:
                return f"timed out after {timeout:g} s"
            if moment >= next_stop:
                if stop():
                    return "stopped"
                next_stop = moment + 0.5
    return ""


def _take(descriptor: int, log: BoundedLog) -> bool:
    """Take what is there; False at its end."""
    try:
        data = os.read(descriptor, 256 * 1024)
    except BlockingIOError:
        return True
    log.write(data)
    return bool(data)


def _end(process: subprocess.Popen[bytes], output: int, log: BoundedLog) -> int:
    """End whatever still runs of it; answers how many processes outlived the check itself."""
    if process.poll() is None:
        kill(process.pid, group=True, with_signal=signal.SIGTERM)
        deadline = time.monotonic() + _TERM_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            _take(output, log)
            _wait(process, _TICK)
        kill(process.pid, group=True)
        process.wait()
    left = end_descendants()
    while _more(output):
        if not _take(output, log):
            break
    return left


def _more(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _not_started(program: str, error: OSError | ValueError, path: str) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{program} was not found; looked in {path or 'no folder: PATH is empty'}"
    return f"{program} could not be started: {getattr(error, 'strerror', None) or error}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
