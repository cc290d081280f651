"""One review by the real performer on a real local forge, in a process of its own that can be killed anywhere.

Called with the managed repository, the number of the pull request and a control folder. Each stage of the review waits
until the file ``go-<stage>`` is there. All else of the outside is played in memory (``tests.loop.stage``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from conductor.core.state import Fleet
from conductor.core.watches import ci_watches
from conductor.forge.local.forge import LocalForge
from conductor.journal import Journal
from conductor.layout import Layout
from conductor.loop.engine import Engine
from conductor.loop.outcome import Done, Outcome
from conductor.loop.performer import Performer
from conductor.loop.snapshots import write_all, write_changed
from conductor.ports import ReviewRequest
from schemas.config import LocalForgeConfig
from schemas.effects import Effect, InspectPr, PostReview, RunReview
from schemas.events import History, PrInspected
from schemas.finding import Finding, Severity
from schemas.forge import DraftComment, PendingReview, Posted
from schemas.review import Review, Verdict
from tests.core.cycle_play import facts
from tests.loop.stage import added, answer, ci, claims, given, now

DEADLINE = 240.0


class Doors:
    """Waits for files to appear."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def wait(self, stage: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while not (self._folder / f"go-{stage}").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(stage)
            time.sleep(0.02)


class SlowForge(LocalForge):
    """The local forge; staging and submitting wait."""

    doors: Doors

    def stage_review(
        self, number: int, *, commit: str, body: str, marker: str, comments: Sequence[DraftComment] = ()
    ) -> PendingReview:
        self.doors.wait("ready")
        return super().stage_review(number, commit=commit, body=body, marker=marker, comments=comments)

    def submit_review(self, number: int, review: str, *, verdict: Verdict | None, stale: bool = False) -> Posted:
        self.doors.wait("staged")
        return super().submit_review(number, review, verdict=verdict, stale=stale)


class SlowReviewer:
    """Asks for changes, slowly."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def review(self, request: ReviewRequest, cancelled: Callable[[], bool]) -> Review:
        self._doors.wait("planning")
        request.told("running")
        self._doors.wait("running")
        request.told("merging")
        self._doors.wait("merging")
        finding = Finding(
            path="weeks.py", line=1, severity=Severity.HIGH, message="mend it", impact="it breaks", rule="test"
        )
        return Review(
            review_id=request.review_id,
            cycle=request.cycle,
            head=request.head,
            base=request.base,
            verdict=Verdict.CHANGES,
            findings=(finding,),
            angles=("correctness",),
        )


class NoRemote:
    """The remote says nothing more than the forge."""

    def remote_head(self, _branch: str) -> str | None:
        return None


class World:
    """Reviews and posts for real; plays everything else."""

    def __init__(self, performer: Performer, forge: LocalForge, number: int) -> None:
        self._performer, self._forge, self._number = performer, forge, number

    def perform(self, effect: Effect, *, again: bool, cancelled: Callable[[], bool]) -> Outcome:
        if isinstance(effect, RunReview | PostReview):
            return self._performer.perform(effect, again=again, cancelled=cancelled)
        if isinstance(effect, InspectPr):
            pull = self._forge.pull_request(self._number)
            found = facts(pull.head).model_copy(update={"number": self._number, "base": pull.base})
            return Done(PrInspected(pane=effect.pane, at=now(), claim_id=effect.claim_id, facts=found))
        return answer(effect)


def _amended(_pane: int, old: str, new: str, _base: str) -> History:
    return History(shape="amended", old=old, new=new, commits_before=1, commits_after=1)


def main(root: Path, number: int, control: Path) -> None:
    layout, doors = Layout(root), Doors(control)
    forge = SlowForge.create_or_open(root, LocalForgeConfig(), "conductor")
    cast(SlowForge, forge).doors = doors
    played: dict[str, Any] = {"deliverer": None, "inspect": None, "lagging": None}
    performer = Performer(
        layout,
        forge=forge,
        reviewer=SlowReviewer(doors),
        history=_amended,
        worktrees=cast(Any, NoRemote()),
        allow_no_checks=True,
        progress=lambda event: engine.observe(event),
        **played,
    )
    engine = Engine(Journal(layout.journal), World(performer, forge, number))

    def drive(fleet: Fleet) -> None:
        pane = fleet.panes.get(1)
        if pane is not None:
            for _watch in ci_watches(fleet):
                engine.observe(ci(pane))

    def changed(_lines: object, before: Fleet, after: Fleet) -> None:
        write_changed(layout, before, after)
        drive(after)

    engine.watchers.append(changed)
    engine.start()
    write_all(layout, engine.fleet)
    if not engine.fleet.panes:
        engine.observe(added(1), given(1), claims(1, pr_number=number))
    drive(engine.fleet)
    engine.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
