"""Where the local forge keeps what, and how it wakes those who watch it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import Unavailable


@dataclass(frozen=True)
class Layout:
    """The forge's folder, by default ``.taskmaestro/forge`` of the managed repository; absolute."""

    folder: Path

    @property
    def repo(self) -> Path:
        return self.folder / "repo.git"

    @property
    def database(self) -> Path:
        return self.folder / "forge.sqlite3"

    @property
    def made(self) -> Path:
        """There once the database was made: where that is missing later it was lost, and is not made anew."""
        return self.repo / "taskmaestro-database"

    @property
    def events(self) -> Path:
        """Watched by the conductor: a file is renamed into it whenever heads, checks or posts change."""
        return self.folder / "events"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def open_pulls(self) -> Path:
        """Lines ``<number> <branch>`` of the open pull requests, for the post-receive hook."""
        return self.repo / "taskmaestro-pulls"

    @property
    def needed(self) -> Path:
        """JSON: the main checkout, and the files of it that checkouts for checks get a copy of."""
        return self.folder / "needed.json"

    def wake(self, name: str) -> None:
        """Rename a fresh empty file over ``events/<name>``: one change to be seen, however many watch.

        Called after something was written. Where the disk refuses this, that write still stands, and must not
        be reported as failed: watchers also look by themselves every now and then.
        """
        with contextlib.suppress(Unavailable):
            replace_text(self.events / name, "")


def replace_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a small file of ours in one step. Raises ``Unavailable`` naming the path.

    Not synced to disk: whatever is written here can be made again from the database.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Unavailable(
            f"the local forge cannot write {path}: {error.strerror or error}",
            "Free some disk space, or make the folder writable, and run it again.",
        ) from error


def write_needed(layout: Layout, root: Path, names: Sequence[str]) -> None:
    """Write down what checkouts need of ``root``, where that changed: runners know the forge's folder alone."""
    text = json.dumps({"root": str(root), "needed": list(names)}) + "\n"
    try:
        same = layout.needed.read_text(encoding="utf-8") == text
    except FileNotFoundError:
        same = not names
    if not same:
        replace_text(layout.needed, text)


def read_needed(layout: Layout, checkout: Path) -> tuple[Path, Path, list[str]]:
    """The arguments of ``copy_needed`` for this checkout."""
    try:
        data = json.loads(layout.needed.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return checkout, checkout, []
    return Path(data["root"]), checkout, [str(name) for name in data["needed"]]
