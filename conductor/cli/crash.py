"""Keeps the traceback of a defect in a file, so that a person sees one line and a report has the rest."""

from __future__ import annotations

import os
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

import click

from conductor.cli.context import find_context
from conductor.layout import Layout
from schemas.errors import Fault
from schemas.text import clean


def keep_traceback(defect: BaseException) -> Path | None:
    """Where the traceback was saved: the repository's state folder, else the folder for temporary files.

    Where neither can be written the traceback goes to stderr, and the answer is None.
    """
    text = "".join(traceback.format_exception(defect))
    name = f"crash-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    for folder in _folders():
        path = folder / name
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue  # the next folder is tried
        return path
    click.echo(clean(text), err=True)
    return None


def _folders() -> list[Path]:
    folders = [Path(tempfile.gettempdir())]
    try:
        state = Layout(find_context().root).state
    except (Fault, OSError):
        return folders
    return [state, *folders] if state.is_dir() else folders
