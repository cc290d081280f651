"""The demonstration plays to its end on a machine that knows nothing of its user, and says what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGET = 400
"""Seconds; it takes half a minute alone, and other tests run beside it."""


@pytest.mark.timeout(BUDGET + 100)
def test_the_demonstration_plays_in_a_clean_environment(tmp_path: Path) -> None:
    home, places = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    places.mkdir()
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/demo.py"), "--json", "--budget", str(BUDGET)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"},
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
    left = [line for line in processes() if "tm-demo-" in line]
    assert left == [], "processes outlived the demonstration"


def processes() -> list[str]:
    """The command lines of all processes."""
    listed = subprocess.run(["ps", "-e", "-o", "args="], capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()
