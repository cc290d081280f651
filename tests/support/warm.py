"""``taskmaestro`` as a process of its own, without the time that Python takes to load it.

A server process (``python -m tests.support.warm SOCKET``) has every module loaded and forks for each call: the child
gets the caller's folder, environment and pipes, and runs the same ``main`` as the installed command. The tests of the
installed command itself do not use it. ``run`` is the client; one server serves one pytest worker.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, ModuleType
from typing import IO

ROOT = Path(__file__).parents[2]
_STARTING = threading.Lock()
_servers: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
_LIMIT = 1 << 20


def run(
    argv: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], timeout: float, input: str = ""
) -> subprocess.CompletedProcess[str]:
    """Like ``subprocess.run`` with text and captured output; raises ``TimeoutExpired`` after ending the child."""
    request = {"argv": list(argv), "cwd": str(cwd), "environment": dict(env)}
    with ExitStack() as stack:
        stdin, *outputs = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        stdin.write(input.encode())
        stdin.seek(0)
        connection.settimeout(timeout)
        connection.connect(_address())
        socket.send_fds(connection, [b"\0"], [stdin.fileno(), *(file.fileno() for file in outputs)])
        connection.sendall(json.dumps(request).encode() + b"\n")
        said = connection.makefile("rb")
        pid = int(said.readline())
        try:
            code = int(said.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(argv), timeout) from None
        texts = [_text(file) for file in outputs]
    return subprocess.CompletedProcess(["taskmaestro", *argv], code, *texts)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _address() -> str:
    """The socket of this process's server, started where there is none."""
    with _STARTING:
        if os.getpid() not in _servers:
            folder = tempfile.mkdtemp(prefix="tm-warm-", dir="/tmp")
            address = f"{folder}/s"
            argv = [sys.executable, "-m", "tests.support.warm", address]
            process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            _servers[os.getpid()] = (address, process)
            atexit.register(_end, os.getpid(), address, process)
        return _servers[os.getpid()][0]


def _end(owner: int, address: str, process: subprocess.Popen[bytes]) -> None:
    if os.getpid() == owner and process.stdin is not None:
        process.stdin.close()
        process.wait(timeout=10)
        Path(address).unlink()
        Path(address).parent.rmdir()


def _load_everything() -> Callable[[], int]:
    for name in ("conductor", "schemas", "worker"):
        for module in _modules_of(importlib.import_module(name)):
            importlib.import_module(module)
    for name in ("libtmux", "rich.live", "rich.table", "watchdog.observers"):
        importlib.import_module(name)
    from conductor.cli.main import main

    gc.collect()
    gc.freeze()
    return main


def _modules_of(package: ModuleType) -> list[str]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [one.name for one in found if not one.name.endswith("__main__")]


def _child(main: Callable[[], int], fds: Sequence[int], request: Mapping[str, object]) -> int:
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, 4096)
    environment = request["environment"]
    argv, cwd = request["argv"], request["cwd"]
    assert isinstance(environment, dict)
    assert isinstance(argv, list)
    assert isinstance(cwd, str)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.argv = ["taskmaestro", *argv]
    code = main()
    # What the installed command does at its end, which a fork leaves out.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _serve(address: str) -> None:
    main = _load_everything()
    waiting: dict[int, socket.socket] = {}
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    ended, wake = os.pipe()
    for fd in (ended, wake):
        os.set_blocking(fd, False)

    def seen(_number: int, _frame: FrameType | None) -> None:
        """The wake-up descriptor has told; the handler only makes Python install one."""

    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, seen)
    chosen = selectors.DefaultSelector()
    for source in (listener, ended, 0):
        chosen.register(source, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in chosen.select():
            if key.fileobj == 0:
                return
            if key.fileobj == ended:
                os.read(ended, 4096)
                _answer(waiting)
                continue
            connection, _ = listener.accept()
            _, fds, _, _ = socket.recv_fds(connection, 1, 3)
            with connection.makefile("rb") as said:
                request = json.loads(said.readline(_LIMIT))
            pid = os.fork()
            if pid == 0:
                _become(main, fds, request)
            for fd in fds:
                os.close(fd)
            connection.sendall(b"%d\n" % pid)
            waiting[pid] = connection


def _become(main: Callable[[], int], fds: Sequence[int], request: Mapping[str, object]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    code = 1
    try:
        code = _child(main, fds, request)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _answer(waiting: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with waiting.pop(pid) as connection:
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _serve(sys.argv[1])
