"""The repository's private exclude file: keeps the conductor's files out of every commit.

``$GIT_COMMON_DIR/info/exclude`` holds for all worktrees of a repository and is never committed, so nobody's
``.gitignore`` changes (contracts, "Files in a managed repository").
"""

from __future__ import annotations

from pathlib import Path

from schemas.errors import Unavailable
from worker.tools.files import TEMPORARY_PREFIX, TEMPORARY_SUFFIX, replace_file

OURS = ("RESULT.json", "TASK.md")
"""Files at the top of a worktree that belong to the conductor and the worker, not to the project."""
FOLDER = ".taskmaestro"
EXCLUDED = (*(f"/{name}" for name in OURS), f"/{FOLDER}/", f"/{TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}")
"""The lines in the exclude file; anchored, so that ``docs/TASK.md`` of a project stays visible."""
HEADING = "# taskmaestro: files of the conductor and its workers"


def with_excludes(text: str) -> tuple[str, list[str]]:
    """The text of an exclude file with our lines in it, and the lines that it lacked; the user's stay as they are.

    A line that excludes the same name without the leading slash counts as ours. Adding twice changes nothing.
    """
    present = {line.strip().removeprefix("/").removesuffix("/") for line in text.splitlines()}
    missing = [line for line in EXCLUDED if line.strip("/") not in present]
    if not missing:
        return text, []
    start = text if not text or text.endswith("\n") else text + "\n"
    heading = [] if HEADING in text.splitlines() else [HEADING]
    return start + "\n".join([*heading, *missing]) + "\n", missing


def ensure_excluded_in(common_dir: Path) -> list[str]:
    """Put our lines into ``<common_dir>/info/exclude``; answers the lines that were missing.

    ``common_dir`` is what ``git rev-parse --git-common-dir`` names. A symbolic link stays one, and the file that it
    names gets the lines. Raises ``Fault`` where the file cannot be read or written.
    """
    path = common_dir / "info" / "exclude"
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        old = target.read_bytes() if target.exists() else b""
    except OSError as fault:
        raise Unavailable(f"cannot read {path}: {fault.strerror}", "Mend its owner or mode.") from fault
    # Names are bytes to git: whatever is in the user's file comes back out as it was.
    new, missing = with_excludes(old.decode("utf-8", "surrogateescape"))
    if missing:
        replace_file(target, new.encode("utf-8", "surrogateescape"))
    return missing
