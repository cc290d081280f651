"""The project's own files, for tests that look at the tree as a whole."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "conductor", "worker")


@cache
def project_files() -> tuple[str, ...]:
    """Paths, relative to ROOT, of the files that git tracks or would track, and that exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return tuple(sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()}))


def read_text(name: str) -> str | None:
    """The file's text, or None for a file that is not text."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
