"""Run one program to its end: bounded in time and memory, and gone with all it started when it is not
wanted any more.

How everything is found, at a time-out and after a normal end: the program leads a session of its own, and
its environment carries a random mark (``TASKMAESTRO_RUN``) that every descendant inherits, daemons too,
which are otherwise nobody's children. Making this process a subreaper instead would adopt every orphan of
the whole conductor, tmux servers included, and a supervising helper would add a process start to every git
call. So three nets are cast, over ``/proc``: descendants by parent, members of the session, bearers of the
mark. Only a daemon that left both and cleared its environment before that gets away. Where there is no
``/proc``, the process group is ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import BadInput, Fault, Unavailable
from schemas.text import clean, one_line

MARK = "TASKMAESTRO_RUN"
KEEP = 1024 * 1024
GRACE = 2.0
"""Seconds between asking a program to end (SIGTERM) and ending it (SIGKILL)."""
DRAIN = 0.5
"""Seconds to read on after the program ended while something it left behind holds its output open."""
_TICK = 0.1
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """How a program ended. ``returncode`` is None where it was ended by us, negative where a signal ended it.

    ``output`` is its stdout (with stderr in it when merged), ``errors`` its stderr when kept apart; both
    cleaned of control characters. ``data`` are the bytes of stdout as they came. ``seconds`` is the time
    it took.
    """

    argv: tuple[str, ...]
    returncode: int | None
    output: str
    errors: str
    data: bytes
    truncated: bool
    timed_out: bool
    cancelled: bool
    seconds: float

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    def tail(self, lines: int = 20) -> str:
        """The last non-empty lines of what it said: stderr first where it was kept apart, then stdout."""
        said = [line for line in f"{self.errors}\n{self.output}".splitlines() if line.strip()]
        return "\n".join(said[-lines:])

    def ending(self) -> str:
        """In words: ``exit code 2``, ``ended by SIGSEGV``, ``timed out after 3 s``."""
        if self.cancelled:
            return "cancelled"
        if self.timed_out or self.returncode is None:
            return f"timed out after {self.seconds:.0f} s"
        if self.returncode < 0:
            with contextlib.suppress(ValueError):
                return f"ended by {signal.Signals(-self.returncode).name}"
            return f"ended by signal {-self.returncode}"
        return f"exit code {self.returncode}"


class _Ends:
    """The first and the last bytes of a stream, half of ``keep`` each."""

    def __init__(self, keep: int) -> None:
        self.half = max(1, keep // 2)
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = self.half - len(self.head)
        if room > 0:
            self.head += chunk[:room]
            chunk = chunk[room:]
        self.tail += chunk
        if len(self.tail) > 2 * self.half:
            del self.tail[: -self.half]

    @property
    def left_out(self) -> int:
        return max(0, self.total - 2 * self.half)

    def value(self) -> bytes:
        if not self.left_out:
            return bytes(self.head + self.tail)
        gap = f"\n... ({self.left_out} bytes left out) ...\n".encode()
        return bytes(self.head) + gap + bytes(self.tail[-self.half :])


def run(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    timeout: float,
    env: Mapping[str, str] | None = None,
    input: bytes | str | None = None,
    keep: int = KEEP,
    cancelled: Callable[[], bool] | None = None,
    merge: bool = True,
    leave: bool = False,
) -> Outcome:
    """Run ``argv`` in ``cwd`` for at most ``timeout`` seconds and answer how it ended; no shell in between.

    ``env`` replaces the environment (default: ours). ``input`` goes to its stdin, which is empty
    otherwise. Of each stream the first and last ``keep / 2`` bytes are kept. ``merge`` puts stderr into
    ``output``. ``cancelled`` is asked ten times a second; once it says yes, the program is ended as at a
    time-out. What it leaves running after a normal end is ended too, unless ``leave``. Raises ``Unavailable`` where
    the program is not found or cannot be started.
    """
    command = [os.fspath(part) for part in argv]
    if not command:
        raise BadInput("an empty command cannot be run", "Name a program.")
    if any("\0" in part for part in command):
        raise BadInput(f"the command {one_line(command[0])} has a NUL character in it", "Take it out.")
    given = dict(os.environ if env is None else env)
    mark = secrets.token_hex(8)
    given[MARK] = f"{given[MARK]},{mark}" if given.get(MARK) else mark
    began = time.monotonic()
    program = _start(command, Path(cwd), given, input is not None, merge)
    watch = _Watch(program, input, keep, mark, timeout, cancelled, leave)
    try:
        why = watch.until_end()
    except BaseException:
        end_everything(program, mark)
        raise
    finally:
        watch.close()
    return Outcome(
        argv=tuple(command),
        returncode=None if why else program.returncode,
        output=_text(watch.out.value()),
        errors=_text(watch.err.value()),
        data=watch.out.value(),
        truncated=bool(watch.out.left_out or watch.err.left_out),
        timed_out=why == "timeout",
        cancelled=why == "cancelled",
        seconds=time.monotonic() - began,
    )


def _text(raw: bytes) -> str:
    return clean(raw.decode("utf-8", "replace"))


def _start(command: list[str], cwd: Path, env: dict[str, str], has_input: bool, merge: bool) -> subprocess.Popen[bytes]:
    program = find_program(command[0], cwd, env)
    if program is None:
        raise _not_found(command[0], cwd, env)
    try:
        return subprocess.Popen(
            command,
            executable=program,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as fault:
        raise _cannot_start(program, cwd, fault) from fault


def find_program(name: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """The full path of the program: on ``env``'s PATH, or below ``cwd`` for a relative path; None where
    there is none.
    """
    if "/" in name:
        path = cwd / name
        return str(path.absolute()) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(name, path=env.get("PATH", os.defpath))


def _not_found(name: str, cwd: Path, env: Mapping[str, str]) -> Fault:
    shown = one_line(name)
    if not cwd.is_dir():
        return Unavailable(f"cannot run {shown}: the folder {cwd} is not there", "Check the path.")
    if "/" in name:
        return Unavailable(f"program {shown} not found: looked at {cwd / name}", "Install it, or mend the path.")
    places = env.get("PATH", os.defpath)
    return Unavailable(f"program {shown} not found: looked in PATH={one_line(places, 1000)}", f"Install {shown}.")


def _cannot_start(program: str, cwd: Path, fault: OSError) -> Fault:
    if not cwd.is_dir():
        return Unavailable(f"cannot run {program}: the folder {cwd} is not there", "Check the path.")
    if isinstance(fault, FileNotFoundError):
        return Unavailable(
            f"cannot run {program}: the interpreter that its first line names is not there",
            "Install that interpreter.",
        )
    return Unavailable(f"cannot run {program}: {fault.strerror or fault}", "Check the file and its permissions.")


class _Watch:
    """Reads and feeds one program until it has ended, or has to be."""

    def __init__(
        self,
        program: subprocess.Popen[bytes],
        input: bytes | str | None,
        keep: int,
        mark: str,
        timeout: float,
        cancelled: Callable[[], bool] | None,
        leave: bool,
    ) -> None:
        self.program = program
        self.leave = leave
        self.mark = mark
        self.deadline = time.monotonic() + timeout
        self.cancelled = cancelled
        self.out, self.err = _Ends(keep), _Ends(keep)
        self.rest = memoryview(input.encode("utf-8", "surrogateescape") if isinstance(input, str) else input or b"")
        self.selector = selectors.DefaultSelector()
        self.streams = 0
        for stream, ends in ((program.stdout, self.out), (program.stderr, self.err)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self.selector.register(stream, selectors.EVENT_READ, ends)
                self.streams += 1
        if program.stdin is not None:
            os.set_blocking(program.stdin.fileno(), False)
            self.selector.register(program.stdin, selectors.EVENT_WRITE)
        self.pidfd = self._watch_end()

    def _watch_end(self) -> int | None:
        opener = getattr(os, "pidfd_open", None)  # Linux alone has it; elsewhere the tick notices the end
        if opener is None:
            return None
        try:
            handle = int(opener(self.program.pid))
        except OSError:  # an old kernel, or a sandbox that forbids it: the tick serves
            return None
        self.selector.register(handle, selectors.EVENT_READ)
        return handle

    def until_end(self) -> str | None:
        """None after a normal end; ``timeout`` or ``cancelled`` after the program had to be ended."""
        drained: float | None = None
        while True:
            now = time.monotonic()
            ended = self._has_ended()
            if ended and drained is None:
                now = time.monotonic()  # ending what it left behind may have taken a while
                drained = now + DRAIN
                self._forget_pidfd()
            if ended and (not self.streams or now >= (drained or now)):
                return None
            why = self._why_stop(now) if not ended else None
            if why is not None:
                end_everything(self.program, self.mark)
                self._read_rest()
                return why
            limit = drained if drained is not None else self.deadline
            self._step(max(0.0, min(_TICK, limit - now)))

    def _has_ended(self) -> bool:
        if self.program.returncode is None and not self.leave and _has_ended(self.program):
            end_left_behind(self.program, self.mark)
        return self.program.poll() is not None

    def _why_stop(self, now: float) -> str | None:
        if now >= self.deadline:
            return "timeout"
        if self.cancelled is not None and self.cancelled():
            return "cancelled"
        return None

    def _step(self, wait: float) -> None:
        for key, _ in self.selector.select(wait):
            if key.data is not None:
                self._read(key)
            elif key.fileobj is self.program.stdin:
                self._feed()

    def _read(self, key: selectors.SelectorKey) -> None:
        try:
            chunk = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return
        if chunk:
            key.data.add(chunk)
            return
        self.selector.unregister(key.fileobj)
        self.streams -= 1

    def _feed(self) -> None:
        stdin = self.program.stdin
        if stdin is None:
            return
        try:
            self.rest = self.rest[os.write(stdin.fileno(), self.rest[:_CHUNK]) :] if self.rest else self.rest
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not want more; how it ends will tell
            self.rest = self.rest[:0]
        if not self.rest:
            self.selector.unregister(stdin)
            stdin.close()

    def _read_rest(self) -> None:
        """What stood in the pipes when the program was ended; its last words often name the trouble."""
        end = time.monotonic() + DRAIN
        while self.streams and time.monotonic() < end and self.selector.get_map():
            ready = [key for key, _ in self.selector.select(0) if key.data is not None]
            if not ready:
                return
            for key in ready:
                self._read(key)

    def _forget_pidfd(self) -> None:
        if self.pidfd is not None:
            self.selector.unregister(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = None

    def close(self) -> None:
        self._forget_pidfd()
        self.selector.close()
        for stream in (self.program.stdin, self.program.stdout, self.program.stderr):
            if stream is not None:
                stream.close()


def end_everything(program: subprocess.Popen[bytes], mark: str) -> None:
    """End the program and all it started: SIGTERM, ``GRACE`` seconds, SIGKILL until nothing is found any
    more.
    """
    known = _family(program.pid, mark)
    _signal(program, known, signal.SIGTERM)
    end = time.monotonic() + GRACE
    while time.monotonic() < end:
        program.poll()
        known |= _family(program.pid, mark)
        if program.returncode is not None and not any(_alive(*one) for one in known):
            return
        time.sleep(0.05)
    for _ in range(50):
        known |= _family(program.pid, mark)
        _signal(program, known, signal.SIGKILL)
        if program.poll() is not None and not any(_alive(*one) for one in known):
            return
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel; it is dead as soon as it wakes
        program.wait(timeout=GRACE)


def _has_ended(program: subprocess.Popen[bytes]) -> bool:
    """Whether our child has ended. It stays uncollected where that can be asked (Linux): its pid is still its own."""
    if not hasattr(os, "waitid"):
        return program.poll() is not None
    try:
        return os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # collected elsewhere
        return program.poll() is not None


def end_left_behind(program: subprocess.Popen[bytes], mark: str) -> None:
    """End what a program that has ended, and is not collected yet, left running."""
    if not _pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
    elif any(_alive(*one) for one in _family(program.pid, mark)):
        end_everything(program, mark)


def _signal(program: subprocess.Popen[bytes], known: set[tuple[int, int]], number: signal.Signals) -> None:
    if program.poll() is None:  # not collected, so its pid is still its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, number)
    for pid, began in known:
        if pid != program.pid and _alive(pid, began):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _family(leader: int, mark: str) -> set[tuple[int, int]]:
    """(pid, start time) of the leader's descendants, its session's members and the bearers of the mark."""
    found: set[tuple[int, int]] = set()
    table = {pid: facts for pid in _pids() if (facts := _stat(pid)) is not None}
    wanted = {leader}
    grown = True
    while grown:
        children = {pid for pid, facts in table.items() if facts[0] in wanted} - wanted
        wanted |= children
        grown = bool(children)
    own = os.getpid()
    for pid, (_, session, began, _) in table.items():
        if pid != own and (pid in wanted or session == leader or _bears(pid, mark)):
            found.add((pid, began))
    return found


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names alone, quickly
    except OSError:  # no /proc on this system: the process group is all we have
        return []


def _stat(pid: int) -> tuple[int, int, int, str] | None:
    """(parent, session, start time in ticks, state) of a process, None where it is gone."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = raw[raw.rfind(b")") + 2 :].split()
    return int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode()


def _alive(pid: int, began: int) -> bool:
    facts = _stat(pid)
    return facts is not None and facts[2] == began and facts[3] not in ("Z", "X")


def _bears(pid: int, mark: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # somebody else's, or gone
        return False
    prefix = f"{MARK}=".encode()
    return any(entry.startswith(prefix) and mark.encode() in entry for entry in environ.split(b"\0"))
