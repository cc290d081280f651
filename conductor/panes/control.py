"""A control-mode client: one ``tmux -C`` on pipes that answers commands in a fraction of a millisecond and
tells of output.

Requests are matched to replies by tmux's ``%begin``/``%end``/``%error`` guards, in order. Everything else
that tmux says is a notice, handed to a callback on the reader thread. The client never has a size
(``ignore-size``). A reply that does not come, or a guard that nobody asked for, ends the connection: after
that, order cannot be trusted.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.errors import BadInput, NotSo, Unavailable
from schemas.text import one_line

_READ = 1 << 16


class TmuxRefused(NotSo):
    """tmux understood the command and refused it; ``answer`` holds tmux's own words."""

    def __init__(self, args: Sequence[str], answer: str) -> None:
        super().__init__(f"tmux refused `{one_line(' '.join(args), 120)}`: {one_line(answer) or 'without a word'}")
        self.answer = answer


class ConnectionLost(Unavailable):
    """The connection ended before the answer came: whether the command was carried out is not known."""


def quote(argument: str) -> str:
    """The argument for tmux's command parser, which gives back exactly this text.

    A line feed goes as an escape, since the protocol is one of lines. Raises ``BadInput`` for text that it cannot
    hold: NUL, unpaired surrogates.
    """
    if "\0" in argument:
        raise BadInput("tmux: an argument holds a NUL character", "Remove it.")
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInput(f"tmux: an argument is not valid text ({error.reason})") from error
    return "'" + argument.replace("'", "'\\''").replace("\n", "'\"\\n\"'") + "'"


@dataclass
class _Request:
    """One command that was sent; ``lines`` and ``failed`` hold once ``done`` is set."""

    args: Sequence[str]
    done: threading.Event = field(default_factory=threading.Event)
    lines: list[bytes] = field(default_factory=list)
    failed: bool = False
    lost: str | None = None

    def answer(self) -> list[str]:
        if self.lost is not None:
            raise ConnectionLost(
                f"tmux: the connection ended during `{one_line(' '.join(self.args), 120)}`: {self.lost}",
                "Look whether the tmux server still runs (`tmux ls`), then try again.",
            )
        lines = [line.decode("utf-8", "replace") for line in self.lines]
        if self.failed:
            raise TmuxRefused(self.args, "\n".join(lines))
        return lines


class _Leash:
    """A terminal whose other end this process alone holds. When this process ends, also by ``kill -9``, the kernel
    hangs up, and the client, whose controlling terminal it is, leaves.

    The end of its pipes is not enough: while output for it is unwritten, tmux 3.3a keeps the client, and a server does
    not end before its last client. Where no terminal can be had the client goes without.
    """

    def __init__(self) -> None:
        try:
            self._ours, self._theirs = os.openpty()
        except OSError:
            self._ours = self._theirs = -1

    @property
    def kept_open(self) -> tuple[int, ...]:
        """What the client inherits: a terminal that nobody has open is nobody's controlling one."""
        return (self._theirs,) if self._theirs >= 0 else ()

    def on(self, argv: Sequence[str]) -> list[str]:
        """The command, to be run in a session of its own, where the first terminal that is opened becomes the
        controlling one.
        """
        if self._theirs < 0:
            return list(argv)
        return ["/bin/sh", "-c", 'true 2>/dev/null <>"$0"; exec "$@"', os.ttyname(self._theirs), *argv]

    def handed_over(self) -> None:
        """The client was started, and has its end."""
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1

    def drop(self) -> None:
        self.handed_over()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


class ControlClient:
    """One connection, for the length of its life; thread-safe.

    ``program`` is the tmux command with its server flags. ``on_output`` gets a pane's ``%N`` for each piece
    of output, ``on_notice`` a notice's name and the rest of its line, ``on_lost`` the reason, once. All three
    are called on the reader thread and must not call ``run``. Raises ``Unavailable`` where tmux does not let
    it in, ``FileNotFoundError`` without tmux.
    """

    def __init__(
        self,
        program: Sequence[str],
        session: str,
        *,
        env: Mapping[str, str],
        on_output: Callable[[str], None],
        on_notice: Callable[[str, str], None],
        on_lost: Callable[[str], None],
        timeout: float = 5.0,
    ) -> None:
        self._on_output, self._on_notice, self._on_lost = on_output, on_notice, on_lost
        self._timeout = timeout
        self._waiting: deque[_Request] = deque()
        self._lock = threading.Lock()
        self._over: str | None = None
        self._farewell = ""
        if shutil.which(program[0]) is None:
            raise FileNotFoundError(program[0])
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the reader thread at the end
        self._attached = _Request(("attach-session", session))
        # -N: attach-session would start a server, in the way of whoever makes the session then.
        argv = [*program, "-N", "-C", "attach-session", "-f", "ignore-size", "-t", f"={session}"]
        self._leash = _Leash()
        try:
            self._process = subprocess.Popen(
                self._leash.on(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0,
                env=dict(env), start_new_session=True, pass_fds=self._leash.kept_open,
            )  # fmt: skip
        except OSError:
            self._stderr.close()
            self._leash.drop()
            raise
        self._leash.handed_over()
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        assert self._process.stdout is not None  # noqa: S101 - PIPE was asked for
        self._input = self._process.stdin.fileno()
        self._outputs = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        self._reader = threading.Thread(target=self._read, name=f"tmux-control-{session}", daemon=True)
        self._reader.start()
        try:
            self._await([self._attached])
        except TmuxRefused as refusal:
            self.close()
            raise Unavailable(refusal.what) from refusal

    @property
    def alive(self) -> bool:
        return self._over is None

    def run(self, *args: str) -> list[str]:
        """Run one command; its lines of output. Raises ``TmuxRefused``, ``ConnectionLost``."""
        return self.run_many(args)[0]

    def run_many(self, *commands: Sequence[str]) -> list[list[str]]:
        """Run commands in one go and in order, also those after one that failed; raises the first failure."""
        requests = [_Request(command) for command in commands]
        data = "".join(" ".join(map(quote, command)) + "\n" for command in commands).encode()
        with self._lock:
            if self._over is None:
                self._waiting.extend(requests)
                self._write(data)
            else:
                for request in requests:
                    request.lost = self._over
                    request.done.set()
        return self._await(requests)

    def close(self, reason: str = "closed") -> None:
        """End the connection; the session goes on."""
        self._end(reason)
        if threading.current_thread() is not self._reader:
            self._reader.join(self._timeout)

    def _await(self, requests: Sequence[_Request]) -> list[list[str]]:
        deadline = time.monotonic() + self._timeout
        for request in requests:
            if not request.done.wait(max(0.0, deadline - time.monotonic())):
                # Not left to the reader thread: a server that hangs holds the stream open.
                self._end(f"no answer within {self._timeout:g} s")
                self._fail_waiting()
        return [request.answer() for request in requests]

    def _write(self, data: bytes) -> None:
        deadline = time.monotonic() + self._timeout
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._process.kill()
                    return
                select.select([], [self._input], [], left)
            except (OSError, ValueError):
                # The client has ended: the reader thread sees that too, and fails what waits.
                self._process.kill()
                return

    def _end(self, reason: str) -> None:
        """Mark the connection as over; the reader thread fails what waits at the end of the stream."""
        if self._over is None:
            self._over = reason
        self._process.kill()

    def _fail_waiting(self) -> None:
        with self._lock:
            left = [self._attached, *self._waiting]
            self._waiting.clear()
        for request in left:
            if not request.done.is_set():
                request.lost = self._over
                request.done.set()

    def _read(self) -> None:
        block: tuple[bytes, bytes, list[bytes]] | None = None
        rest = b""
        while chunk := os.read(self._outputs, _READ):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if block is not None:
                    end, error, body = block
                    if line in (end, error):
                        block = None
                        self._reply(end, body, failed=line == error)
                    else:
                        body.append(line)
                elif line.startswith(b"%output "):
                    self._on_output(line[8 : line.find(b" ", 8)].decode("ascii", "replace"))
                elif line.startswith(b"%begin "):
                    block = b"%end" + line[6:], b"%error" + line[6:], []
                elif line.startswith((b"%end ", b"%error ")):
                    self._end("a reply that nobody asked for")
                else:
                    self._notice(line.decode("utf-8", "replace"))
        self._finish()

    def _reply(self, guard: bytes, body: list[bytes], *, failed: bool) -> None:
        if not self._attached.done.is_set():
            request = self._attached
        elif not guard.endswith(b" 1"):
            return  # a hook's commands, not ours
        elif self._waiting:
            request = self._waiting.popleft()
        else:
            self._end("a reply that nobody asked for")
            return
        request.lines, request.failed = body, failed
        request.done.set()

    def _notice(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        if name == "%exit":
            self._farewell = rest or "tmux ended it"
        elif name.startswith("%"):
            self._on_notice(name[1:], rest)

    def _finish(self) -> None:
        self._process.kill()
        self._process.wait()
        self._leash.drop()
        self._stderr.seek(0)
        said = one_line(self._stderr.read(4096).decode("utf-8", "replace"))
        with self._lock:
            self._over = self._over or "; ".join(filter(None, (self._farewell, said))) or "tmux went away"
            for stream in (self._process.stdin, self._process.stdout, self._stderr):
                if stream is not None:
                    stream.close()
        was_in = self._attached.done.is_set() and self._attached.lost is None and not self._attached.failed
        self._fail_waiting()
        if was_in:
            self._on_lost(self._over)
