"""Which managed repository a command is about, and its configuration; without a process or a heavy library.

The repository is found from the current folder upward. Inside a worker's worktree it is the main one, through
git's own pointers (``.git`` file, ``commondir``). ``TASKMAESTRO_ROOT`` names it outright, for panes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from schemas.config import Config

ROOT_VARIABLE = "TASKMAESTRO_ROOT"
FOLDER = ".taskmaestro"


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
        from worker.tools.config import load_config

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
            _refuse_bare(root)
            raise BadInput(
                f"{ROOT_VARIABLE} names {root}, which is not a git repository",
                f"Unset {ROOT_VARIABLE}, or set it to the main folder of the managed repository.",
            )
        belongs = worktree is not None and _main_of(worktree) == root
        return Context(root, worktree if worktree is not None and belongs else root)
    if worktree is None:
        for folder in (here, *here.parents):
            _refuse_bare(folder)
        raise BadInput(
            f"{here} is not in a git repository",
            "Change to the managed repository, or run `git init` there first.",
        )
    return Context(_main_of(worktree), worktree)


def _refuse_bare(folder: Path) -> None:
    """Raises ``BadInput`` where the folder is a repository by itself (git's own test of one), without a work tree."""
    if (folder / "HEAD").is_file() and all((folder / name).is_dir() for name in ("objects", "refs")):
        raise BadInput(f"{folder} is a bare repository", "Workers need a working tree: clone it, and start there.")


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
