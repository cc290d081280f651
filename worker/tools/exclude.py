"""The repository's private exclude file: keeps the conductor's files out of every commit.

``$GIT_COMMON_DIR/info/exclude`` holds for all worktrees of a repository and is never committed, so nobody's
``.gitignore`` changes (contracts, "Files in a managed repository").
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

OURS = ("RESULT.json", "TASK.md")
"""Files at the top of a worktree that belong to the conductor and the worker, not to the project."""
FOLDER = ".taskmaestro"
EXCLUDED = (*(f"/{name}" for name in OURS), f"/{FOLDER}/")
"""The lines in the exclude file; anchored, so that ``docs/TASK.md`` of a project stays visible."""
HEADING = "# taskmaestro: files of the conductor and its workers"


def with_excludes(text: str) -> str:
    """The text of an exclude file with our lines in it; the user's lines stay as they are.

    A line that excludes the same name without the leading slash counts as ours. Adding twice changes nothing.
    """
    present = {line.strip().removeprefix("/").removesuffix("/") for line in text.splitlines()}
    missing = [line for line in EXCLUDED if line.strip("/") not in present]
    if not missing:
        return text
    start = text if not text or text.endswith("\n") else text + "\n"
    heading = [] if HEADING in text.splitlines() else [HEADING]
    return start + "\n".join([*heading, *missing]) + "\n"


def ensure_excluded_in(common_dir: Path) -> bool:
    """Put our lines into ``<common_dir>/info/exclude``; answers whether the file had to change.

    ``common_dir`` is what ``git rev-parse --git-common-dir`` names. A symbolic link stays one.
    Raises OSError where the file cannot be read or written.
    """
    path = common_dir / "info" / "exclude"
    path.parent.mkdir(parents=True, exist_ok=True)
    path = Path(os.path.realpath(path))
    old = path.read_bytes() if path.exists() else b""
    # Names are bytes to git: whatever is in the user's file comes back out as it was.
    new = with_excludes(old.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if new == old:
        return False
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".exclude-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True
