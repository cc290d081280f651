"""Which managed repository a command is about, and its configuration; without a process or a heavy library.

The repository is found from the current folder upward. Inside a worker's worktree it is the main one, through
git's own pointers (``.git`` file, ``commondir``). ``TASKMAESTRO_ROOT`` names it outright, for panes.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.config import Config
from schemas.errors import BadInput, Unavailable
from schemas.text import one_line

ROOT_VARIABLE = "TASKMAESTRO_ROOT"
FOLDER = ".taskmaestro"
CONFIG = "config.toml"
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*[=.]""")


@dataclass(frozen=True)
class Context:
    """The managed repository ``root`` (its main worktree) and the worktree that ``cwd`` lies in; absolute
    paths.
    """

    root: Path
    worktree: Path

    @cached_property
    def config(self) -> Config:
        """Read when first asked for. Raises ``BadInput`` naming file, line, key and what was expected."""
        return load_config(self.root)

    def current_branch(self) -> str | None:
        """The branch checked out in the worktree; None when its HEAD is detached."""
        head = _git_dir(self.worktree) / "HEAD"
        text = _read(head)
        return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else None


def find_context(cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Context:
    """The context of a folder, by default the current one. Raises ``BadInput`` outside of a repository."""
    here = (cwd or Path.cwd()).resolve()
    named = (os.environ if environment is None else environment).get(ROOT_VARIABLE)
    worktree = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    if named:
        root = Path(named).expanduser().resolve()
        if not (root / ".git").exists():
            raise BadInput(
                f"{ROOT_VARIABLE} names {root}, which is not a git repository",
                f"Unset {ROOT_VARIABLE}, or set it to the main folder of the managed repository.",
            )
        belongs = worktree is not None and _main_of(worktree) == root
        return Context(root, worktree if worktree is not None and belongs else root)
    if worktree is None:
        raise BadInput(
            f"{here} is not in a git repository",
            "Change to the managed repository, or run `git init` there first.",
        )
    return Context(_main_of(worktree), worktree)


def load_config(root: Path) -> Config:
    """``.taskmaestro/config.toml`` of this repository; the defaults where there is none.

    Raises ``BadInput`` that lists every fault with its line, ``Unavailable`` where the file cannot be read.
    """
    path = root / FOLDER / CONFIG
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return Config()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 (byte {error.start})", "Save it as UTF-8.") from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror or error}", "Make it a readable file.") from error
    try:
        return Config.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not valid TOML: {one_line(str(error))}", "Mend that line.") from error
    except ValidationError as error:
        faults = [_fault(path, text, detail["loc"], detail["msg"], detail["input"]) for detail in error.errors()]
        raise BadInput(
            "\n".join(faults), "See `.taskmaestro/config.toml` in the documentation for all keys."
        ) from error


def _fault(path: Path, text: str, loc: tuple[int | str, ...], expected: str, got: Any) -> str:
    keys = [part for part in loc if isinstance(part, str)]
    line = line_of(text, keys)
    place = f"{path}:{line}" if line else str(path)
    said = (
        "is not a known key" if expected.startswith("Extra inputs") else f"{expected} (got {one_line(repr(got), 80)})"
    )
    return f"{place}: {one_line('.'.join(str(part) for part in loc))}: {one_line(said, 300)}"


def line_of(text: str, keys: list[str]) -> int | None:
    """The line, from 1, on which this key is set, or the longest part of its path that is found."""
    table: list[str] = []
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = _TABLE.match(line)
        key = _KEY.match(line)
        if header:
            table = [part.strip().strip("\"'") for part in header[1].split(".")]
            path = table
        elif key:
            path = [*table, next(group for group in key.groups() if group is not None)]
        else:
            continue
        if path == keys[: len(path)] and (best is None or len(path) > best[0]):
            best = (len(path), number)
    return None if best is None else best[1]


def _main_of(worktree: Path) -> Path:
    """The main worktree of the repository that this worktree belongs to."""
    pointer = worktree / ".git"
    if pointer.is_dir():
        return worktree
    git_dir = _git_dir(worktree)
    common_file = git_dir / "commondir"
    if not common_file.is_file():
        return worktree  # a submodule, or a git directory kept elsewhere
    common = (git_dir / _read(common_file)).resolve()
    if common.name == ".git":
        return common.parent
    if worktree.parent.name == FOLDER:
        return worktree.parent.parent
    raise BadInput(
        f"{worktree} is a worktree of {common}, which has no main folder",
        f"Set {ROOT_VARIABLE} to the main folder.",
    )


def _git_dir(worktree: Path) -> Path:
    pointer = worktree / ".git"
    if pointer.is_dir():
        return pointer
    text = _read(pointer)
    if not text.startswith("gitdir: "):
        raise BadInput(f"{pointer} is no git pointer", "Repair the worktree: git worktree repair")
    return (worktree / text.removeprefix("gitdir: ")).resolve()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be read: {error.strerror or error}", "Repair the worktree: git worktree repair"
        ) from error
