"""The loop: journalled first, then performed; in order for each pane, and nothing lost to a full disk or a fault."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.journal import JournalFullError, read
from conductor.loop import engine as engine_module
from conductor.loop.outcome import Done, Failed, Outcome, Retry
from schemas.effects import Effect, Report
from schemas.errors import Unavailable
from schemas.events import (
    AgentSeen,
    EffectFailed,
    Event,
    ForgeFailed,
    HeadMoved,
    PrMerged,
    ResultInvalid,
    TaskQueued,
    TaskStranded,
    UserDecided,
)
from schemas.forge import CheckState
from schemas.journal import EventLine, IntentLine, JournalLine, NoteLine, ResultLine
from schemas.pane import Status
from tests.core.cycle_play import B
from tests.loop.stage import Running, Stage, added, ci, claims, given, now
from tests.support.waiting import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def running(path: Path, stage: Stage) -> Iterator[Running]:
    with Running(path, stage) as one:
        yield one


def _events(path: Path) -> list[Event]:
    return [line.event for line in read(path) if isinstance(line, EventLine)]


def _results(path: Path) -> list[ResultLine]:
    return [line for line in read(path) if isinstance(line, ResultLine)]


def _later(seconds: float = 30.0, *, wake: bool = False, event: Event | None = None) -> Any:
    return lambda _effect, _cancelled: Retry(seconds, "not now", event, wake)


def _queued(effect: Any, _cancelled: Callable[[], bool]) -> Outcome:
    return Retry(30.0, "busy", TaskQueued(pane=effect.pane, at=now(), task_id=effect.task_id, reason="busy"), wake=True)


def _raise(fault: Exception) -> Any:
    def perform(_effect: Effect, _cancelled: Callable[[], bool]) -> Outcome:
        raise fault

    return perform


# --- order ---


def test_effects_of_a_pane_run_one_after_the_other_in_the_order_in_which_they_were_decided(
    running: Running, stage: Stage
) -> None:
    door = stage.hold("post_review")
    running.to_review()
    stage.wait_for("send_task", "inspect_pr", "run_review", "post_review")
    assert stage.ended[-1].kind == "run_review"
    door.set()
    stage.wait_for("send_task", "inspect_pr", "run_review", "post_review", "write_result", "send_task")
    running.idle()
    assert (running.pane().status, running.pane().review_cycle) == (Status.REVIEW_PENDING, 1)


def test_a_review_runs_beside_what_else_the_pane_has_to_do(running: Running, stage: Stage) -> None:
    door = stage.hold("run_review")
    running.to_review()
    running.engine.observe(claims(1, "s2", "approved"))
    stage.wait_for("send_task", "inspect_pr", "run_review", "send_task")
    door.set()


def test_panes_do_not_wait_for_each_other(running: Running, stage: Stage) -> None:
    door = stage.hold("post_review")
    running.to_review(1)
    wait_until(lambda: "post_review" in stage.kinds(1))
    running.engine.observe(added(2), given(2))
    stage.wait_for("send_task", pane=2)
    door.set()


def test_an_intent_is_on_the_disk_before_its_effect_begins(path: Path, stage: Stage) -> None:
    seen: list[tuple[str, str, list[str]]] = []

    def probe(boundary: str, kind: str) -> None:
        lines = list(read(path))
        owed = {line.key for line in lines if isinstance(line, IntentLine) and line.effect == kind}
        ended = {line.key for line in lines if isinstance(line, ResultLine)}
        seen.append((boundary, kind, sorted(owed - ended)))

    with Running(path, stage, probe=probe) as running:
        running.to_review()
        running.idle()
    assert {boundary for boundary, _, _ in seen} == {"intended", "performed", "recorded"}
    assert all(owed for boundary, _, owed in seen if boundary != "recorded")
    assert len(seen) == 3 * len(stage.calls)


def test_what_comes_together_is_written_together(path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Running(path, stage)
    appended: list[list[JournalLine]] = []
    real = one.engine.journal.append
    monkeypatch.setattr(one.engine.journal, "append", lambda lines: (appended.append(list(lines)), real(lines)))
    for index in range(1, 21):
        one.engine.observe(added(index), given(index))
    with one:
        one.idle()
    kinds = [line.line for line in appended[0]]
    assert kinds == ["event"] * 40 + ["intent"] * 20


def test_watchers_hear_of_lines_with_their_rules_and_both_fleets(running: Running, path: Path) -> None:
    heard: list[tuple[list[str], bool, bool]] = []

    def watch(lines: Any, before: Any, after: Any) -> None:
        on_disk = {line.seq for line in read(path)}
        assert all(line.seq in on_disk for line, _ in lines)
        heard.append(([rule for _, rule in lines], 1 in before.panes, 1 in after.panes))

    running.engine.watchers.append(watch)
    running.engine.observe(added(1))
    wait_until(lambda: heard)
    assert heard[0] == (["pane added"], False, True)


def test_a_request_is_told_that_it_is_on_the_disk(running: Running, path: Path) -> None:
    taken: list[int] = []
    running.engine.observe(added(1), given(1), taken=lambda: taken.append(len(_events(path))))
    wait_until(lambda: taken)
    assert taken == [2]


def test_what_is_known_already_is_not_journalled_again(running: Running, path: Path) -> None:
    running.engine.observe(added(1), given(1, request="r1"))
    running.idle()
    task = running.pane().task
    assert task is not None
    first: list[Event] = [
        AgentSeen(pane=1, at=now(), state="busy"),
        ResultInvalid(pane=1, at=now(), problem="p", stamp="s"),
        ForgeFailed(pane=1, at=now(), reason="request 1"),
        given(1, request="r1"),
    ]
    running.engine.observe(*first)
    running.idle()
    before = len(list(read(path)))
    running.engine.observe(*first, ForgeFailed(pane=1, at=now(), reason="request 2"))
    running.engine.note("end")
    wait_until(lambda: any(isinstance(line, NoteLine) for line in read(path)))
    assert len(list(read(path))) == before + 1


# --- retries ---


def test_a_retry_is_tried_again_after_its_time_as_one_that_may_have_begun(running: Running, stage: Stage) -> None:
    stage.plan["send_task"] = [_later(0.05), _later(0.05)]
    running.engine.observe(added(1), given(1))
    running.idle()
    assert [call.again for call in stage.calls] == [False, True, True]


def test_a_wake_tries_at_once_what_waits_for_the_agent(running: Running, stage: Stage, path: Path) -> None:
    stage.plan["send_task"] = [_queued, _queued]
    running.engine.observe(added(1), given(1))
    for count in (1, 2):
        wait_until(lambda count=count: len(stage.ended) == count)
        wait_until(lambda: running.pane().task.delivery == "queued")  # type: ignore[union-attr]
        running.engine.wake(2)
        running.engine.wake(1)
        wait_until(lambda count=count: len(stage.calls) == count + 1)
    running.idle()
    assert [event.kind for event in _events(path)].count("task_queued") == 1


def test_a_wake_during_the_attempt_is_not_lost(running: Running, stage: Stage) -> None:
    door = stage.hold("send_task")
    stage.plan["send_task"] = [_queued]
    running.engine.observe(added(1), given(1))
    stage.wait_for("send_task")
    running.engine.wake(1)
    running.engine.note("the wake was taken")
    wait_until(lambda: running.engine._queue.empty())
    door.set()
    stage.wait_for("send_task", "send_task")
    running.idle()


def test_what_does_not_wait_for_the_agent_is_not_woken(running: Running, stage: Stage) -> None:
    stage.plan["send_task"] = [_later(0.4)]
    running.engine.observe(added(1), given(1))
    stage.wait_for("send_task")
    begun = time.monotonic()
    for _ in range(20):
        running.engine.wake(1)
    running.idle()
    assert time.monotonic() - begun > 0.2


def test_a_report_that_wants_a_person_passes_the_task_that_waits(running: Running, stage: Stage) -> None:
    stage.plan["send_task"] = [_queued]
    running.engine.observe(added(1), given(1))
    wait_until(lambda: running.pane().task and running.pane().task.delivery == "queued")  # type: ignore[union-attr]
    running.engine.observe(AgentSeen(pane=1, at=now(), state="permission", detail="rm -r?"))
    stage.wait_for("send_task", "report")
    running.engine.wake(1)
    stage.wait_for("send_task", "report", "send_task")


def test_the_report_of_a_failed_effect_does_not_wait_behind_it(running: Running, stage: Stage) -> None:
    def fails(effect: Effect, _cancelled: Callable[[], bool]) -> Outcome:
        return Retry(30.0, "full", EffectFailed(pane=effect.pane, at=now(), effect=effect.kind, reason="disk full"))

    stage.plan["write_result"] = [fails]
    running.to_review()
    stage.wait_for("send_task", "inspect_pr", "run_review", "post_review", "write_result", "report")
    wait_until(lambda: running.pane().attention)
    assert "disk full" in running.pane().attention.message  # type: ignore[union-attr]


def test_an_approval_is_not_reported_before_it_is_posted(running: Running, stage: Stage) -> None:
    from schemas.events import ReviewFinished
    from schemas.review import Review, Verdict

    def approves(effect: Any, _cancelled: Callable[[], bool]) -> Outcome:
        review = Review(
            review_id=effect.review_id, cycle=1, head=effect.head, base=effect.base, verdict=Verdict.APPROVE
        )
        return Done(ReviewFinished(pane=1, at=now(), review=review, head_now=effect.head))

    stage.plan["run_review"] = [approves]
    stage.plan["post_review"] = [_later(0.3)]
    running.to_review()
    running.idle()
    assert stage.kinds()[2:] == ["run_review", "post_review", "post_review", "write_result", "report"]


# --- what is not wanted any more ---


def test_what_is_not_wanted_is_dropped_on_the_record_and_never_begun(
    running: Running, stage: Stage, path: Path
) -> None:
    door = stage.hold("post_review")
    running.to_review()
    wait_until(lambda: "post_review" in stage.kinds())
    running.engine.observe(PrMerged(pane=1, at=now()))
    wait_until(lambda: running.pane().status is Status.DONE)
    door.set()
    running.idle()
    dropped = [line.effect for line in _results(path) if line.outcome == "dropped"]
    assert dropped == ["write_result", "send_task"]
    assert stage.kinds()[3:] == ["post_review", "report"]


def test_a_running_review_that_is_not_wanted_is_told_so_and_dropped_on_the_record(
    running: Running, stage: Stage, path: Path
) -> None:
    def until_cancelled(_effect: Effect, cancelled: Callable[[], bool]) -> Outcome:
        wait_until(cancelled, what="the cancellation")
        return Retry(0.0, "cancelled while it ran")

    stage.plan["run_review"] = [until_cancelled]
    running.to_review()
    stage.wait_for("send_task", "inspect_pr", "run_review")
    running.engine.observe(HeadMoved(pane=1, at=now(), head=B))
    running.idle()
    reviews = [line for line in _results(path) if line.effect == "run_review"]
    assert [(line.outcome, line.detail) for line in reviews] == [("dropped", "not wanted any more")]
    assert running.pane().status is Status.REVIEWING


def test_a_wanted_review_is_not_cancelled(running: Running, stage: Stage) -> None:
    asked: list[bool] = []
    door = stage.hold("run_review")
    stage.plan["run_review"] = [lambda _e, cancelled: (asked.append(cancelled()), Failed("x"))[1]]
    running.to_review()
    running.engine.observe(AgentSeen(pane=1, at=now(), state="idle"))
    wait_until(lambda: running.pane().agent_state == "idle")
    door.set()
    wait_until(lambda: asked)
    assert asked == [False]


def test_a_verdict_that_comes_too_late_changes_nothing(running: Running, stage: Stage) -> None:
    door = stage.hold("run_review")
    running.to_review()
    stage.wait_for("send_task", "inspect_pr", "run_review")
    running.engine.observe(HeadMoved(pane=1, at=now(), head=B))
    wait_until(lambda: running.pane().head == B)
    door.set()
    running.idle()
    assert (running.pane().review_cycle, running.pane().head) == (0, B)


# --- faults ---


def test_a_performer_that_raises_is_told_once_and_tried_again(
    running: Running, stage: Stage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "DEFECT_PAUSE", 0.05)
    stage.plan["send_task"] = [_raise(ValueError("no \x1b such")), _raise(ValueError("no \x1b such"))]
    running.engine.observe(added(1), given(1))
    running.idle()
    assert [event.kind for event in _events(path)].count("effect_failed") == 1
    assert stage.kinds().count("send_task") == 3
    reports = [call.effect for call in stage.calls if isinstance(call.effect, Report)]
    assert [report.message.count("ValueError: no such") for report in reports] == [1]
    assert running.pane().attention is None


def test_an_effect_that_cannot_be_done_ends_with_what_came_of_it(running: Running, stage: Stage, path: Path) -> None:
    def strands(effect: Any, _cancelled: Callable[[], bool]) -> Outcome:
        return Failed("a draft", TaskStranded(pane=1, at=now(), task_id=effect.task_id, reason="a draft"))

    stage.plan["send_task"] = [strands]
    running.engine.observe(added(1), given(1))
    stage.wait_for("send_task", "report")
    running.idle()
    first = _results(path)[0]
    assert (first.outcome, first.detail) == ("failed", "a draft")
    assert isinstance(first.event, TaskStranded)


def test_a_watcher_that_meets_a_full_disk_ends_nothing(running: Running) -> None:
    for fault in (OSError(errno.ENOSPC, "full"), Unavailable("cannot write 1.json")):

        def fail(*_args: Any, fault: Exception = fault) -> None:
            raise fault

        running.engine.watchers.append(fail)
    running.engine.observe(added(1), given(1), taken=running.engine.watchers[0])  # type: ignore[arg-type]
    running.idle()
    running.engine.observe(added(2))
    wait_until(lambda: 2 in running.engine.fleet.panes)
    assert any("cannot write 1.json" in text for text in running.trouble)


class FullDisk:
    """Makes the journal's appends fail while ``full``."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.failed = 0
        self._append = running.engine.journal.append
        monkeypatch.setattr(running.engine.journal, "append", self._write)
        monkeypatch.setattr(engine_module, "FULL_DISK_PAUSE", 0.02)

    def _write(self, lines: Any) -> None:
        if self.full:
            self.failed += 1
            raise JournalFullError("journal.jsonl: no space left on the disk", "Free some space.")
        self._append(lines)

    def wait(self, count: int = 3) -> None:
        wait_until(lambda: self.failed >= count)


def test_with_a_full_disk_nothing_is_done_and_nothing_is_lost(
    running: Running, stage: Stage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(running, monkeypatch)
    running.engine.observe(added(1), added(2))
    running.taken()
    disk.full = True
    taken: list[bool] = []
    running.engine.observe(given(1), taken=lambda: taken.append(True))
    disk.wait()
    running.engine.observe(given(2))
    assert (stage.calls, taken) == ([], [])
    assert running.pane(1).task is None or disk.full
    assert running.trouble == ["journal.jsonl: no space left on the disk\nFree some space."]
    disk.full = False
    stage.wait_for("send_task", pane=1)
    stage.wait_for("send_task", pane=2)
    running.idle()
    assert taken == [True]
    assert [line.seq for line in read(path)] == list(range(1, len(list(read(path))) + 1))


def test_a_result_that_meets_a_full_disk_is_kept_and_its_effect_not_repeated(
    running: Running, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(running, monkeypatch)
    door = stage.hold("post_review")
    running.to_review()
    wait_until(lambda: "post_review" in stage.kinds())
    disk.full = True
    door.set()
    disk.wait()
    assert stage.kinds()[3:] == ["post_review"]
    disk.full = False
    running.idle()
    assert stage.kinds()[3:] == ["post_review", "write_result", "send_task"]


def test_each_full_disk_is_told_once(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(running, monkeypatch)
    for index in (1, 2):
        disk.full = True
        running.engine.observe(added(index))
        disk.wait(3 * index)
        disk.full = False
        running.taken()
    assert len(running.trouble) == 2


def test_a_disk_that_really_is_full_for_a_while(
    running: Running, stage: Stage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "FULL_DISK_PAUSE", 0.02)
    full, real, failed = threading.Event(), os.write, []

    def write(fd: int, data: bytes) -> int:
        if full.is_set() and fd == running.engine.journal._fd:
            failed.append(fd)
            if len(failed) % 2:
                return real(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    full.set()
    running.engine.observe(added(1), given(1))
    wait_until(lambda: len(failed) >= 6)
    assert stage.calls == []
    full.clear()
    running.idle()
    assert stage.kinds() == ["send_task"]
    assert [line.seq for line in read(path)] == [1, 2, 3, 4]


# --- the end and the next start ---


def test_a_stop_records_what_ends_late(path: Path, stage: Stage) -> None:
    one = Running(path, stage)
    door = stage.hold("send_task")
    with one:
        one.engine.observe(added(1), given(1))
        stage.wait_for("send_task")
        one.engine.note("conductor stopped")
        one.engine.stop()
        wait_until(lambda: any(isinstance(line, NoteLine) for line in read(path)))
        door.set()
    assert [line.effect for line in _results(path)] == ["send_task"]
    again = Stage()
    with Running(path, again) as two:
        two.idle()
    assert again.calls == []


def test_a_stop_tells_what_runs_and_begins_nothing_more(path: Path, stage: Stage) -> None:
    def until_cancelled(_effect: Effect, cancelled: Callable[[], bool]) -> Outcome:
        wait_until(cancelled, what="the cancellation")
        return Retry(1.0, "stopped")

    stage.plan["run_review"] = [until_cancelled]
    with Running(path, stage) as one:
        one.to_review()
        stage.wait_for("send_task", "inspect_pr", "run_review")
    assert stage.kinds() == ["send_task", "inspect_pr", "run_review"]
    again = Stage()
    with Running(path, again) as two:
        two.idle()
    assert (again.calls[0].kind, again.calls[0].again) == ("run_review", True)
    assert again.kinds() == ["run_review", "post_review", "write_result", "send_task"]


def test_a_stop_in_the_middle_of_a_full_disk_keeps_what_it_can(
    path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Running(path, stage) as one:
        disk = FullDisk(one, monkeypatch)
        disk.full = True
        one.engine.observe(added(1))
        disk.wait()
        disk.full = False
    assert [event.kind for event in _events(path)] == ["pane_added"]


def test_the_next_start_goes_on_where_the_last_one_stood(path: Path, stage: Stage) -> None:
    with Running(path, stage) as one:
        one.to_review()
        one.idle()
        fleet = one.engine.fleet
    with Running(path, stage) as two:
        assert two.engine.fleet == fleet
        two.engine.observe(claims(1, "s2", "review_addressed", review_cycle=1))
        wait_until(lambda: two.pane().gate)
        two.engine.observe(ci(two.pane(), CheckState.FAILED))
        two.idle()
        assert two.pane().ci_returns == 1


def test_a_torn_line_is_told_and_noted(path: Path, stage: Stage) -> None:
    with Running(path, stage) as one:
        one.engine.observe(added(1))
        wait_until(lambda: 1 in one.engine.fleet.panes)
    with path.open("ab") as file:
        file.write(b'{"seq":')
    two = Running(path, stage)
    with two:
        wait_until(lambda: any(isinstance(line, NoteLine) and "torn" in line.text for line in read(path)))


def test_texts_that_no_utf_8_has_end_nothing(running: Running, stage: Stage, path: Path) -> None:
    running.engine.observe(added(1), given(1, title="half \ud800 a sign"))
    running.idle()
    assert stage.kinds() == ["send_task"]
    assert running.pane().assignment.title == "half ? a sign"  # type: ignore[union-attr]


def test_a_decision_and_what_it_frees_are_one_batch(running: Running, stage: Stage) -> None:
    stage.plan["send_task"] = [_queued]
    running.engine.observe(added(1), given(1))
    wait_until(lambda: running.pane().task and running.pane().task.delivery == "queued")  # type: ignore[union-attr]
    running.engine.observe(
        AgentSeen(pane=1, at=now(), state="silent"),
        UserDecided(pane=1, at=now(), verb="abandon", why="no use", who="w", request="r"),
    )
    running.idle()
    assert stage.kinds() == ["send_task", "report", "report"]
