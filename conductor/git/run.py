"""Every git command of the conductor goes through here, by GitPython's engine.

No shell, no prompt, messages in English, a time limit that ends the whole process group, and no variable of a
surrounding git process (a hook, say) that would point the command at another repository.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from schemas.errors import Fault, NotSo, Unavailable
from schemas.text import clean, one_line
from worker.tools.git import INSTALL

QUICK = 60.0
"""Seconds for a command that only touches this machine."""
NETWORK = 120.0
"""Seconds for a command that talks to a remote."""
LOCK_WAIT = 15.0
"""Seconds during which a lock that another git process holds is waited for."""

# What git itself calls local to a repository (git rev-parse --local-env-vars), without the -c settings.
REPOSITORY_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_REPLACE_REF_BASE",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_IMPLICIT_WORK_TREE",
)
SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    # Reading must not take the index lock away from a worker that commits at the same moment.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
}
# fsmonitor and the untracked cache may be stale or start a daemon; a clean-up has to see what is there.
OPTIONS = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)
_CONTENDED = re.compile(
    r"\.lock'?: File exists|could not lock|Another git process|unable to write new index"
    r"|cannot lock ref .*(?:but expected|reference already exists)"
    # Another git process is writing the record of a new worktree.
    r"|failed to read .*worktrees/.*/(?:commondir|gitdir|HEAD)"
)
_SHA = re.compile(r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")


@dataclass(frozen=True)
class Done:
    """A finished command: its exit code, its stdout as bytes, its stderr cleaned for people."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """stdout; bytes that are not UTF-8 come as surrogates, as Python has them in paths."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def fields(self) -> list[str]:
        """The parts of NUL-separated output."""
        return [part for part in self.text.split("\0") if part]

    @property
    def reason(self) -> str:
        """The first telling line of stderr."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote:", "ssh:"))]
        return one_line((told or lines or [f"git ended with exit code {self.code}"])[0], 400)


class Git:
    """Runs git in one folder. Cheap to make; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self,
        *arguments: str,
        folder: Path | None = None,
        data: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = QUICK,
    ) -> Done:
        """Run ``git <arguments>``; any exit code is an answer.

        ``data`` is given on stdin; ``env`` is added to the environment; ``timeout`` is in seconds.
        Raises ``Unavailable`` where git is missing or does not end in time.
        """
        where = folder or self.folder
        inherited = [name for name in REPOSITORY_VARIABLES if name in os.environ]
        prefix = ["env", *(part for name in inherited for part in ("-u", name))] if inherited else []
        # -C names the folder although it is the working directory: GitPython silently falls back to its own
        # where it cannot enter the folder.
        command = [*prefix, "git", "-C", str(where), *OPTIONS, *arguments]
        if prefix and env:
            command[len(prefix) : len(prefix)] = [f"{name}={value}" for name, value in env.items()]
        process = self._start(command, where, {**SETTINGS, **(env or {})}, data is not None)
        try:
            out, err = process.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            raise Unavailable(
                f"git {arguments[0]} in {where} did not end within {timeout:g} s",
                "Look for a network or disk that hangs, or a credential helper that waits; then try again.",
            ) from late
        finally:
            _end(process)
        return Done(process.returncode, out, clean(err.decode("utf-8", "replace")))

    @staticmethod
    def _start(command: list[str], where: Path, env: Mapping[str, str], has_input: bool) -> subprocess.Popen[bytes]:
        try:
            import git
        except ImportError as error:  # GitPython answers so where there is no git program
            raise Unavailable("git was not found on PATH", INSTALL) from error
        try:
            started = git.Git(str(where)).execute(
                command,
                as_process=True,
                istream=subprocess.PIPE if has_input else subprocess.DEVNULL,
                env=env,
                shell=False,
                # A group of its own, without a terminal: ssh cannot ask there, and all of it can be ended.
                start_new_session=True,
            )
        except git.GitCommandNotFound as error:
            raise Unavailable("git was not found on PATH", INSTALL) from error
        process = started.proc
        if process is None:
            raise Unavailable(f"git did not start in {where}", "Look for limits on processes, and try again.")
        # The wrapper ends its process as soon as it is collected; from here on the process is ours.
        started.proc = None
        return process

    def must(
        self,
        *arguments: str,
        folder: Path | None = None,
        data: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = QUICK,
        hint: str = "",
    ) -> Done:
        """Run git and answer only success. Another process's lock, or half-written record, is waited for, at most
        ``LOCK_WAIT`` s.

        Raises ``Unavailable`` where the lock stays, ``NotSo`` with git's own words for any other failure.
        """
        until = monotonic() + LOCK_WAIT
        pause = 0.02
        while True:
            done = self.run(*arguments, folder=folder, data=data, env=env, timeout=timeout)
            if done.code == 0:
                return done
            if not _CONTENDED.search(done.err):
                raise self.fault(done, arguments[0], folder, hint)
            if monotonic() >= until:
                raise Unavailable(
                    f"git {arguments[0]} in {folder or self.folder}: another git process holds a lock: {done.reason}",
                    "Wait for that process. Where none runs any more, delete the .lock file.",
                )
            sleep(pause)
            pause = min(pause * 2, 0.5)

    def ask(self, *arguments: str, folder: Path | None = None) -> str:
        """Stdout of a command that must succeed, without the last line break."""
        return self.must(*arguments, folder=folder).text.removesuffix("\n")

    def fault(self, done: Done, verb: str, folder: Path | None = None, hint: str = "") -> Fault:
        """A failure in git's words, with what to do about the kinds that are known."""
        where = folder or self.folder
        what = f"git {verb} failed in {one_line(str(where), 300)}: {done.reason}"
        if "dubious ownership" in done.err:
            hint = f"If you trust its owner: git config --global --add safe.directory {where}"
        elif "No space left" in done.err:
            hint = "The disk is full: make room, then try again."
        elif "git-lfs" in done.err or "filter-process" in done.err or "smudge filter" in done.err:
            hint = "A content filter of this repository does not run; for LFS install git-lfs, then try again."
        return NotSo(what, hint)

    def commit(self, name: str) -> str | None:
        """The full SHA of the commit that ``name`` (a full ref or a SHA) means, None where it is not here.

        Raises ``NotSo`` where the repository cannot be read.
        """
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        sha = done.text.strip()
        if done.code == 0 and _SHA.match(sha):
            return sha
        if "dubious" in done.err or "not a git repository" in done.err:
            raise self.fault(done, "rev-parse")
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group of a command that was not waited for to its end."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(2.0)
    # A grandchild may ignore the signal, and outlives its parent by a moment where it does not.
    if not _group_ends(process.pid, 1.0):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        _group_ends(process.pid, 1.0)
    # A grandchild may hold the pipes open; reading on would wait for it.
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()


def _group_ends(group: int, seconds: float) -> bool:
    """Whether no process of the group is left, waited for at most so long."""
    deadline = monotonic() + seconds
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # another user's, which we may neither see nor end
            return False
        if monotonic() > deadline:
            return False
        sleep(0.01)


def is_sha(text: str) -> bool:
    """Whether this is a full object name."""
    return bool(_SHA.match(text))


def valid_branch(name: str) -> bool:
    """Whether git takes this as a branch's name (git check-ref-format), without a process."""
    if not name or name in ("HEAD", "@") or name.startswith("-") or name.endswith((".", "/")):
        return False
    if re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//", name):
        return False
    return not any(part.startswith(".") or part.endswith(".lock") or not part for part in name.split("/"))


def safe_name(text: str, limit: int = 80) -> str:
    """Any text as one part of a ref's or a folder's name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    name = re.sub(r"\.{2,}", ".", name).strip(".-")[:limit]
    while (shorter := name.rstrip(".-").removesuffix(".lock")) != name:
        name = shorter
    return name or "unnamed"
