"""The demonstration plays to its end on a machine that knows nothing of its user, and says what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.github.fixtures import reason_to_skip
from tests.support.tmux_server import short_folder

needs_github = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip() or "")
ROOT = Path(__file__).parents[2]
BUDGET = 400
"""Seconds; it takes half a minute alone, and other tests run beside it."""


@pytest.mark.timeout(BUDGET + 100)
@pytest.mark.parametrize("forge", ["local", pytest.param("github", marks=needs_github)])
def test_the_demonstration_plays_in_a_clean_environment(tmp_path: Path, forge: str) -> None:
    home, places = tmp_path / "home", short_folder()
    home.mkdir()
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/demo.py"), "--json", "--budget", str(BUDGET), "--forge", forge],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(places), "GIT_CONFIG_NOSYSTEM": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    (answer,) = done.stdout.splitlines()
    assert json.loads(answer) == {
        "panes": [
            {"index": 1, "status": "approved", "review_cycle": 0, "attention": None},
            {"index": 2, "status": "approved", "review_cycle": 0, "attention": None},
            {"index": 3, "status": "approved", "review_cycle": 1, "attention": None},
            {"index": 4, "status": "review_pending", "review_cycle": 3, "attention": "cycle_cap"},
        ],
        "reviews_posted": 7,
        "tasks_delivered": 8,
        "recovered": True,
    }
    assert "User decision required." in done.stderr
    left = [line for line in command_lines() if str(places) in line]
    assert left == [], "processes outlived the demonstration"
    assert list(places.iterdir()) == [], "files outlived the demonstration"
    places.rmdir()


def command_lines() -> list[str]:
    """Of all processes."""
    return [" ".join(found.info["cmdline"] or ()) for found in psutil.process_iter(["cmdline"])]
