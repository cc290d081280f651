"""Watching folders keeps quiet on the terminal."""

from __future__ import annotations

import subprocess
import sys


def test_what_watchdog_logs_reaches_no_terminal() -> None:
    code = (
        "import logging\n"
        "from conductor.folders import observer\n"
        "log = logging.getLogger('watchdog.observers.inotify')\n"
        "log.error('before')\n"
        "observer()\n"
        "log.error('after')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "before\n"
