"""The one place that runs tmux commands: over the control client where there is one, else a process for each.

``run`` takes the same arguments either way. A command is never repeated by itself: where the connection ended
before the answer came, ``ConnectionLost`` says so and the caller, who knows whether a repetition is safe,
decides.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from conductor.panes.control import ConnectionLost, ControlClient, TmuxRefused
from conductor.panes.guard import Guard, is_told
from schemas.errors import Fault, Unavailable
from schemas.forge import TOKEN_VARIABLES
from schemas.text import one_line

OLDEST = (3, 2)
_ENDING = 2.0
"""Seconds for which a server may be ending: it takes connections then and answers nothing."""
_RETRY = 1.0
_NO_SERVER = re.compile(r"no server running|error connecting to .*\((No such file|Connection refused)", re.IGNORECASE)
_LOST = re.compile(r"server exited unexpectedly|lost server|server exited", re.IGNORECASE)
_INSTALL = "Install tmux 3.2 or newer (`apt install tmux`, `brew install tmux`) and try again."


class NoServer(Unavailable):
    """No tmux server runs at this socket."""


def _nothing(*_: str) -> None:
    return None


def for_argv(argument: str) -> str:
    """The argument for tmux's command line, where a last ``;`` would otherwise end the command."""
    return argument[:-1] + "\\;" if argument.endswith(";") else argument


def unformatted(text: str) -> str:
    """The text so that tmux's format expansion gives it back unchanged (``-c``, titles).

    A run of ``#`` before ``[`` is kept by tmux as it stands; any other ``#`` is written twice.
    """
    return re.sub(r"#+(?![#\[])", lambda found: found.group() * 2, text)


class Tmux:
    """A tmux server and one session of it. ``socket`` None: the server that the user's own ``tmux`` would
    talk to.

    Set ``on_output``, ``on_notice``, ``on_lost`` and ``subscriptions`` before the first command; see
    ``ControlClient``.
    """

    def __init__(self, session: str, socket: Path | None = None, *, timeout: float = 5.0) -> None:
        self.session = session
        self.on_output: Callable[[str], None] = _nothing
        self.on_notice: Callable[[str, str], None] = _nothing
        self.on_lost: Callable[[str], None] = _nothing
        self.on_connect: Callable[[], None] = _nothing
        self.subscriptions: dict[str, str] = {}
        self._timeout = timeout
        inherited = os.environ.get("TMUX", "").rpartition(",")[0].rpartition(",")[0]
        self.socket = socket or (Path(inherited) if inherited else None)
        # A server that is started here keeps this environment, for all that ever runs on it.
        left_out = {"TMUX", "TMUX_PANE", *TOKEN_VARIABLES}
        self._env = {name: value for name, value in os.environ.items() if name not in left_out}
        self._client: ControlClient | None = None
        self._guard = Guard(self.socket, patience=timeout)
        self._lock = threading.Lock()
        self._next_try = 0.0
        self._closed = False

    @property
    def program(self) -> list[str]:
        flags = ["-S", str(self.socket)] if self.socket else []
        return [shutil.which("tmux") or "tmux", "-u", *flags]

    @property
    def connected(self) -> bool:
        """Output of the session's panes is being told of."""
        return self._client is not None and self._client.alive

    def run(self, *args: str) -> list[str]:
        """Run one tmux command; its output, a line each.

        Raises ``TmuxRefused`` with tmux's words, ``NoServer``, ``ConnectionLost``, or ``Unavailable`` without
        tmux.
        """
        return self.run_many(args)[0]

    def run_many(self, *commands: Sequence[str]) -> list[list[str]]:
        """Run commands one after the other, in one write where there is a connection. Raises the first
        failure.
        """
        client = self.connect()
        if client is None:
            return [self.once(command) for command in commands]
        with self._turn(commands):
            return client.run_many(*commands)

    def privately(self, *commands: Sequence[str]) -> None:
        """Run commands over the connection alone: their arguments show on no command line."""
        client = self.connect(now=True)
        if client is None:
            raise Unavailable(f"no connection to the tmux session {self.session}", "Try again.")
        with self._turn(commands):
            client.run_many(*commands)

    def read(self, *args: str) -> list[str]:
        """``run`` for a command that changes nothing: asked again where the connection ended under it, or the server
        is just ending.
        """
        give_up = time.monotonic() + _ENDING
        while True:
            try:
                return self.run(*args)
            except ConnectionLost:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)

    def once(self, *commands: Sequence[str]) -> list[str]:
        """Run commands in a process of their own, as one list that tmux does not interrupt."""
        argv = self.program
        for number, command in enumerate(commands):
            argv += [";"] if number else []
            argv += [for_argv(argument) for argument in command]
        flat = [argument for command in commands for argument in command]
        # Whatever -e says, tmux gives a program that an unattached client starts that client's PATH.
        path = next((word.removeprefix("PATH=") for word in flat if word.startswith("PATH=")), None)
        env = self._env if path is None else {**self._env, "PATH": path}
        try:
            with self._turn(commands):
                done = subprocess.run(argv, capture_output=True, env=env, timeout=self._timeout, check=False)
        except FileNotFoundError as error:
            raise Unavailable("tmux was not found on PATH", _INSTALL) from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"tmux did not answer `{one_line(' '.join(flat), 120)}` within {self._timeout:g} s",
                "Look whether the tmux server hangs (`tmux ls`).",
            ) from error
        out = done.stdout.decode("utf-8", "replace")
        err = done.stderr.decode("utf-8", "replace")
        if done.returncode == 0:
            return out.removesuffix("\n").split("\n") if out else []
        if _NO_SERVER.search(err):
            raise NoServer(f"no tmux server runs at {self.socket or 'the default socket'}: {one_line(err)}")
        if _LOST.search(err):
            raise ConnectionLost(f"tmux went away during `{one_line(' '.join(flat), 120)}`: {one_line(err)}")
        raise TmuxRefused(flat, err or out)

    def _turn(self, commands: Sequence[Sequence[str]]) -> contextlib.AbstractContextManager[None]:
        return self._guard.turn() if any(map(is_told, commands)) else contextlib.nullcontext()

    def connect(self, *, now: bool = False) -> ControlClient | None:
        """The control client, attached anew where it was lost; None where the session is not there (asked
        once a second).

        With ``now`` it is tried at once, as after the session was made.
        """
        client = self._client
        if client is not None and client.alive:
            return client
        with self._lock:
            if self._client is not None and self._client.alive:
                return self._client
            if self._closed or (not now and time.monotonic() < self._next_try):
                return None
            self._next_try = time.monotonic() + _RETRY
            try:
                with self._guard.turn():
                    fresh = ControlClient(
                        self.program, self.session, env=self._env, timeout=self._timeout,
                        on_output=self._output, on_notice=self._notice, on_lost=self._lost,
                    )  # fmt: skip
            except FileNotFoundError as error:
                raise Unavailable("tmux was not found on PATH", _INSTALL) from error
            except Unavailable:
                # No server or no session: what the command itself says then is the better message.
                return None
            self._client = fresh
        # A verb that ends leaves its session in good order, and in its turn.
        atexit.register(self.close)
        self.on_connect()
        for name, text in list(self.subscriptions.items()):
            fresh.run("refresh-client", "-B", f"{name}:{text}")
        return fresh

    def subscribe(self, name: str, text: str) -> None:
        """Be told of changes of ``text`` (``target:format``), also by later connections; once for each name."""
        if self.subscriptions.get(name) != text:
            self.subscriptions[name] = text
            self._refresh(f"{name}:{text}")

    def unsubscribe(self, name: str) -> None:
        if self.subscriptions.pop(name, None) is not None:
            self._refresh(name)

    def _refresh(self, subscription: str) -> None:
        client = self._client
        if client is not None and client.alive:
            # Where this is lost the connection is too, and the next one subscribes to all again.
            with contextlib.suppress(Fault):
                client.run("refresh-client", "-B", subscription)

    def drop(self, reason: str) -> None:
        """End a connection that cannot be trusted any more; the next command makes a new one."""
        client = self._client
        if client is not None:
            self._leave(client, reason)

    def close(self) -> None:
        """End the connection; the session goes on."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            self._leave(client, "closed")
        atexit.unregister(self.close)

    def _leave(self, client: ControlClient, reason: str) -> None:
        """End a connection. Others are told of it, so the turn lasts until the server has said something after it."""
        if not client.alive:
            client.close(reason)
            return
        with self._guard.turn():
            client.close(reason)
            with contextlib.suppress(Fault):
                self.once(("display-message", "-p", ""))

    def _output(self, pane_id: str) -> None:
        self.on_output(pane_id)

    def _notice(self, name: str, rest: str) -> None:
        self.on_notice(name, rest)

    def _lost(self, reason: str) -> None:
        if not self._closed:
            self.on_lost(reason)


def require_tmux(tmux: Tmux) -> None:
    """Raise ``Unavailable`` where tmux is missing or older than 3.2, whose control mode is needed."""
    text = " ".join(tmux.once(("-V",)))
    found = re.search(r"(\d+)\.(\d+)", text)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise Unavailable(f"tmux 3.2 or newer is needed; this is {one_line(text)}", _INSTALL)
