"""``loop reviewer`` tells the truth about the conductor's own review: in each stage, and after a kill in each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.loops.conftest import live  # noqa: F401  # a fixture
from tests.cli.loops.desk import LiveDesk
from tests.support.tree import ROOT
from tests.support.waiting import wait_until

STAGES = {
    "planning": "determine_review_plan",
    "running": "reviews_running",
    "merging": "merge_results",
    "ready": "draft_review_ready",
    "staged": "draft_review_posted",
}
"""Stage of the conductor's review, and the reviewer loop's state meanwhile."""


class Reviewing:
    """A conductor's review in a process of its own."""

    def __init__(self, live: LiveDesk, control: Path) -> None:  # noqa: F811
        self.live, self.control = live, control
        self.number, self.head = live.open()
        live.acts("conductor")
        (live.root / ".taskmaestro/state").mkdir(parents=True)
        control.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "tests.loop.pass_run", str(self.live.root), str(self.number), str(self.control)]
        self.process = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def open_door(self, stage: str) -> None:
        (self.control / f"go-{stage}").touch()

    def reaches(self, state: str) -> None:
        def there() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, "the conductor ended"
            return self.live.state(self.number) == state

        wait_until(there, 120, f"the state {state}")

    def local(self) -> dict[str, Any]:
        path = self.live.root / ".taskmaestro/state/reviews" / f"pr-{self.number}.json"
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return value


@pytest.fixture
def reviewing(live: LiveDesk, tmp_path: Path) -> Iterator[Reviewing]:  # noqa: F811
    made = Reviewing(live, tmp_path / "control")
    yield made
    made.kill()


@pytest.mark.timeout(600)
def test_every_stage_shows_and_a_kill_in_each_loses_and_repeats_nothing(reviewing: Reviewing) -> None:
    assert reviewing.live.state(reviewing.number) == "waiting_for_review_request"
    reviewing.start()
    for stage, state in STAGES.items():
        reviewing.reaches(state)
        local = reviewing.local()
        assert (local["prNumber"], local["headSha"]) == (reviewing.number, reviewing.head)
        assert (local["reviewerLogin"], local["writtenBy"]) == ("conductor", "conductor")
        reviewing.kill()
        assert reviewing.live.state(reviewing.number) == state, "after the kill"
        reviewing.start()
        reviewing.reaches(state)
        reviewing.open_door(stage)
    reviewing.reaches("submitted_review")
    wait_until(lambda: reviewing.local()["reviewSubmissionStatus"] == "submitted", 60, "the record of it")
    assert reviewing.local()["angles"] == ["correctness"]
    (review,) = reviewing.live.ok("pr", "view", str(reviewing.number), "--comments", "--jq", ".comments")
    assert (review["review_state"], review["commit"]) == ("changes_requested", reviewing.head)
    assert reviewing.live.call("pr", "discard", str(reviewing.number)).code == 1, "nothing is pending"


@pytest.mark.timeout(600)
def test_a_head_that_moves_ends_the_pass_and_its_words_are_not_used(reviewing: Reviewing) -> None:
    reviewing.start()
    reviewing.reaches("determine_review_plan")
    reviewing.live.push("feature", "later.py")
    assert reviewing.live.state(reviewing.number) == "waiting_for_review_request"
    for stage in ("planning", "running", "merging"):
        reviewing.open_door(stage)
    reviewing.reaches("draft_review_ready")
    assert reviewing.local()["headSha"] != reviewing.head
    for stage in ("ready", "staged"):
        reviewing.open_door(stage)
    reviewing.reaches("submitted_review")


@pytest.mark.timeout(600)
def test_a_draft_that_a_crash_left_is_replaced_by_the_next_review(reviewing: Reviewing) -> None:
    for stage in ("planning", "running", "merging", "ready"):
        reviewing.open_door(stage)
    reviewing.start()
    reviewing.reaches("draft_review_posted")
    reviewing.kill()
    head = reviewing.live.push("feature", "later.py")
    assert reviewing.live.state(reviewing.number) == "review_invalidated"
    reviewing.start()
    reviewing.open_door("staged")
    wait_until(
        lambda: reviewing.live.state(reviewing.number) == "submitted_review",
        120,
        "the older review to stand",
    )
    (review,) = reviewing.live.ok("pr", "view", str(reviewing.number), "--comments", "--jq", ".comments")
    assert review["commit"] == reviewing.head != head
