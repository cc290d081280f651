"""Watching folders: watchdog's observer, without its messages on the terminal of whoever runs a verb."""

from __future__ import annotations

import logging

from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

_SILENT = logging.NullHandler()


def observer() -> BaseObserver:
    """A new observer, not started. What is lost by a full queue is found by the readers' own looks at the files."""
    # Without a handler Python would print what watchdog logs, a race at its own end for instance, on stderr.
    logging.getLogger("watchdog").addHandler(_SILENT)
    return Observer()
