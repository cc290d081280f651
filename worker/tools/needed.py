"""Files that git ignores and a checkout needs all the same (`needed` in the configuration): generated ones, say.

They are copied from the main checkout into each new one. The names are the configuration's; the checkout is of
somebody's branch, so that a link in it must not lead the copy elsewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from schemas.errors import BadInput
from schemas.text import one_line


def copy_needed(main: Path, checkout: Path, names: Sequence[str]) -> list[str]:
    """Copy what is there in ``main`` and not in ``checkout``; answers the names that were copied.

    Raises ``BadInput`` for a name that leads out of the repository.
    """
    copied = []
    inside = checkout.resolve()
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or ".git" in path.parts or not path.parts:
            raise BadInput(f"`needed` in config.toml: {one_line(repr(name))} leads out of the repository", "Remove it.")
        source, target = main / path, checkout / path
        if not source.is_file() or target.exists() or target.is_symlink():
            continue
        if not target.parent.resolve().is_relative_to(inside):
            continue  # a link of the branch leads elsewhere: its tests will say what is missing
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        copied.append(name)
    return copied
