"""Finds the ``gh`` program, and sees once that it is new enough.

Older ones than ``OLDEST`` ask for fields that github.com does not have any more, or answer without asking. The
version is asked once for each file in a process (path, time of its last change, size), so that a program which is
updated under a running conductor is looked at again.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from schemas.errors import BadInput, Unavailable
from schemas.text import one_line


class NoProgram(Unavailable):
    """There is no gh at all."""


OLDEST = (2, 82, 1)
INSTALL = (
    "Install it with `pip install 'taskmaestro-conductor[gh]'` or from https://cli.github.com (a distribution's own "
    "may be too old), or name one as `program` in [forge.github]."
)
_VERSION = re.compile(r"gh version (\d+)\.(\d+)\.(\d+)")
_TIMEOUT = 20.0
_known: dict[tuple[str, int, int], tuple[int, int, int]] = {}
_lock = Lock()


def find_gh(configured: str | None, environment: Mapping[str, str] | None = None) -> Path:
    """The program that is configured, else the first on PATH or beside this Python that is new enough.

    Raises ``BadInput`` for a configured one that is not there, ``Unavailable`` where there is none or too old a one.
    """
    environment = os.environ if environment is None else environment
    wrong: list[Unavailable] = []
    for path in _places(configured, environment):
        try:
            found = version_of(path)
        except Unavailable as fault:
            wrong.append(fault)
            continue
        if found >= OLDEST:
            return path
        needed = f"{_dotted(OLDEST)} or newer is needed"
        wrong.append(Unavailable(f"{path} is gh {_dotted(found)}; {needed}", INSTALL))
    raise wrong[0]


def _places(configured: str | None, environment: Mapping[str, str]) -> list[Path]:
    """Where a gh is, at least one."""
    places = environment.get("PATH", os.defpath)
    if configured is not None:
        found = shutil.which(str(Path(configured).expanduser()), path=places)
        if found is None:
            raise BadInput(
                f"`program` in [forge.github] is {one_line(configured)}, and no such program is there",
                f"Name the path of gh, or leave the setting out. {INSTALL}",
            )
        return [Path(found).absolute()]
    beside = Path(sys.executable).parent / "gh"
    known = [shutil.which("gh", path=places), shutil.which(str(beside))]
    if known == [None, None]:
        raise NoProgram(
            f"gh was not found: looked in PATH={one_line(places, 400)} and for {beside}; "
            "the github forge works through it",
            INSTALL,
        )
    return [Path(found).absolute() for found in dict.fromkeys(known) if found is not None]


def version_of(path: Path) -> tuple[int, int, int]:
    """Raises ``Unavailable`` where the program does not tell its version."""
    try:
        facts = path.stat()
    except OSError as error:
        raise Unavailable(f"{path} cannot be looked at: {error.strerror or error}", INSTALL) from error
    key = (str(path), facts.st_mtime_ns, facts.st_size)
    with _lock:
        if key not in _known:
            _known[key] = _ask(path)
        return _known[key]


def _ask(path: Path) -> tuple[int, int, int]:
    from conductor.forge.github.gh import gh_environment
    from worker.tools.process import run

    environment = gh_environment(os.environ)
    done = run([str(path), "--version"], cwd="/", timeout=_TIMEOUT, env=environment, merge=False, leave=True)
    found = _VERSION.search(done.output)
    if not done.ok or found is None:
        said = one_line(done.tail(2), 200) or done.ending()
        raise Unavailable(f"{path} does not say that it is gh: {said}", INSTALL)
    return int(found[1]), int(found[2]), int(found[3])


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
