"""The folders of worktrees: making one, mending one that a crash left half-made, taking one away."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from conductor.git.dirt import shown
from conductor.git.dropped import keep_dropped
from conductor.git.repository import Entry, Repository
from schemas.errors import NotSo, StillPending
from worker.tools.exclude import FOLDER

CHECKOUT = 900.0
"""Seconds that checking out a worktree may take."""
HALF_MADE = 10.0
"""Seconds without a write after which a worktree that is being made counts as left half-made."""


def state_folder(repository: Repository) -> Path:
    return repository.root / FOLDER / "state"


def scratch_folder(repository: Repository) -> Path:
    """Where private indexes lie while they are needed."""
    return state_folder(repository) / "git"


def entry_at(repository: Repository, path: Path) -> Entry | None:
    """The registered worktree in this folder, whether the folder is there or not."""
    wanted = os.path.realpath(path)
    return next((entry for entry in repository.entries() if os.path.realpath(entry.path) == wanted), None)


def usable(repository: Repository, entry: Entry | None) -> bool:
    """Whether the folder is a working tree of its own that was made to its end."""
    if entry is None or entry.half_made or entry.prunable:
        return False
    done = repository.git.run("rev-parse", "--show-toplevel", folder=entry.path) if entry.path.is_dir() else None
    return done is not None and done.code == 0 and _same(done.text.removesuffix("\n"), entry.path)


def _same(one: str, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def make_room(repository: Repository, index: int, path: Path) -> None:
    """Bring the folder into a state in which ``git worktree add`` can make it.

    Of a worktree whose folder was deleted by hand the commits that no ref holds are kept first. A half-made
    worktree is moved to ``state/leftover`` and forgotten by git; a registered folder that lost its ``.git``
    file is repaired; anything that git does not know is left alone and explained (``NotSo``).
    """
    entry = _settled(repository, path)
    if entry is None:
        if os.path.lexists(path) and (not path.is_dir() or path.is_symlink() or any(path.iterdir())):
            raise NotSo(
                f"{shown(str(path))} is there, but it is no worktree of {repository.root}",
                "It may hold somebody's work: look at it, then move it elsewhere or delete it.",
            )
        return
    if entry.held:
        raise locked(entry)
    if entry.half_made:
        if os.path.lexists(path):
            _move_aside(repository, path)
        forget(repository, path)
    elif not os.path.lexists(path):
        keep_dropped(repository, index, path)
        forget(repository, path)
    else:
        repository.git.must("worktree", "repair")
        if not usable(repository, entry_at(repository, path)):
            raise NotSo(
                f"{shown(str(path))} is a worktree that git cannot use, nor repair",
                f"Look at it, move the folder elsewhere, then run git -C {repository.root} worktree prune.",
            )


def locked(entry: Entry) -> NotSo:
    why = f" ({shown(entry.locked)})" if entry.locked else ""
    return NotSo(
        f"worktree {shown(str(entry.path))} is locked{why}",
        f"Unlock it: git worktree unlock {shown(str(entry.path))}",
    )


def _settled(repository: Repository, path: Path) -> Entry | None:
    """The entry, after waiting for a git process that is still making this worktree."""
    until = time.monotonic() + HALF_MADE
    last = None
    while True:
        entry = entry_at(repository, path)
        if entry is None or not entry.half_made:
            return entry
        now = _activity(path)
        if now != last:
            last, until = now, time.monotonic() + HALF_MADE
        if time.monotonic() >= until:
            return entry
        time.sleep(0.2)


def _activity(path: Path) -> tuple[int, int]:
    """Changes while files are written anywhere in the folder."""
    count = newest = 0
    for where, folders, files in os.walk(path):
        count += len(folders) + len(files)
        with suppress(FileNotFoundError):
            newest = max(newest, Path(where).stat().st_mtime_ns)
    return count, newest


def _move_aside(repository: Repository, path: Path) -> None:
    target = state_folder(repository) / "leftover" / f"{path.name}-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def forget(repository: Repository, path: Path) -> None:
    """Have git forget a worktree whose folder is gone; only this one, unlike ``git worktree prune``."""
    repository.git.must("worktree", "remove", "--force", "--force", "--", str(path))


def check_out(
    repository: Repository,
    path: Path,
    *what: str,
    env: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> None:
    """``git worktree add``; a failing post-checkout hook of a worktree that is complete does no harm.

    Raises ``NotSo`` with git's words, and leaves nothing half-made behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        repository.git.must(*options, "worktree", "add", "--quiet", *what, env=env, timeout=CHECKOUT)
    except NotSo:
        if not usable(repository, entry_at(repository, path)):
            if entry_at(repository, path) is not None:
                delete(path)
                forget(repository, path)
            raise


def take_away(repository: Repository, path: Path) -> None:
    """Remove folder and registration of a worktree; the caller has made sure that nothing is lost."""
    entry = entry_at(repository, path)
    if entry is not None and entry.held:
        raise locked(entry)
    if entry is not None:
        # git removes its record even where it could not delete all files; the rest is deleted below.
        done = repository.git.run("worktree", "remove", "--force", "--force", "--", str(path), timeout=CHECKOUT)
        if done.code != 0 and entry_at(repository, path) is not None:
            delete(path)
            forget(repository, path)
    delete(path)


def delete(path: Path) -> None:
    """Delete a folder, also where parts of it are read-only. Raises ``NotSo`` naming what stays."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return

    def retry(action: Callable[[str], object], name: str, _: object) -> None:
        Path(name).parent.chmod(Path(name).parent.stat().st_mode | stat.S_IRWXU)
        if os.path.lexists(name) and not Path(name).is_symlink():
            Path(name).chmod(Path(name).stat().st_mode | stat.S_IRWXU)
        action(name)

    try:
        if path.exists():
            shutil.rmtree(path, onerror=retry)
    except OSError as error:
        raise NotSo(
            f"{shown(str(error.filename or path))} cannot be deleted: {error.strerror}",
            "Its work is kept; mend its owner or mode, then run the clean-up again.",
        ) from error


def busy(index: int) -> StillPending:
    return StillPending(
        f"another process works on worktree wt-{index}",
        "Wait for it to end, then try again; nothing was changed.",
    )
