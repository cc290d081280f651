"""The fold over the journal's lines: the same lines make the same memory; an effect is owed until it has a result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from conductor.core.memory import Memory, remember
from schemas.effects import SendTask
from schemas.events import EffectFailed, PaneAdded, TaskDelivered, TaskGiven
from schemas.journal import EventLine, IntentLine, JournalLine, NoteLine, ResultLine
from schemas.pane import Role

AT = datetime(2026, 1, 1, tzinfo=UTC)


def _line(kind: Any, seq: int, **fields: Any) -> Any:
    return kind(seq=seq, at=AT, host="here", **fields)


def _begin() -> list[JournalLine]:
    added = PaneAdded(pane=1, at=AT, role=Role.WORKER, agent="scripted", run="beef01", worktree="wt-1", pane_id="%1")
    given = TaskGiven(pane=1, at=AT, title="Do it")
    return [_line(EventLine, 1, event=added), _line(EventLine, 2, event=given)]


def test_an_effect_is_owed_under_the_number_of_its_event_and_its_position() -> None:
    memory = remember(_begin())
    assert list(memory.outstanding) == ["2.0"]
    assert isinstance(memory.outstanding["2.0"].effect, SendTask)
    assert not memory.outstanding["2.0"].intended


def test_an_intent_alone_leaves_it_owed_as_perhaps_begun() -> None:
    memory = remember([*_begin(), _line(IntentLine, 3, key="2.0", effect="send_task", pane=1)])
    assert memory.outstanding["2.0"].intended


def test_a_result_and_what_came_of_it_are_one_line() -> None:
    memory = remember(_begin())
    task = memory.outstanding["2.0"].effect
    assert isinstance(task, SendTask)
    delivered = TaskDelivered(pane=1, at=AT, task_id=task.task_id, evidence="hook")
    line = _line(ResultLine, 3, key="2.0", effect="send_task", pane=1, outcome="done", event=delivered)
    assert memory.take(line).rule == "task delivered"
    assert memory.outstanding == {}
    held = memory.fleet.panes[1].task
    assert held is not None
    assert held.delivery == "delivered"


def test_effects_of_a_results_event_are_owed_under_the_results_number() -> None:
    memory = remember(_begin())
    failed = EffectFailed(pane=1, at=AT, effect="send_task", reason="disk full")
    step = memory.take(_line(ResultLine, 3, key="2.0", effect="send_task", pane=1, outcome="failed", event=failed))
    assert step.keys == ("3.0",)
    assert memory.outstanding["3.0"].effect.kind == "report"


def test_what_is_not_known_changes_nothing() -> None:
    memory = remember(_begin())
    fleet = memory.fleet
    for line in (
        _line(IntentLine, 3, key="9.9", effect="report", pane=1),
        _line(ResultLine, 4, key="9.9", effect="report", pane=7, outcome="done"),
        _line(NoteLine, 5, text="conductor started"),
    ):
        memory.take(line)
    assert memory.fleet is fleet
    assert list(memory.outstanding) == ["2.0"]
    assert memory.last_seq == 5


def test_owed_effects_keep_the_order_in_which_they_were_decided() -> None:
    lines = _begin()
    for seq in range(3, 13):
        lines.append(_line(EventLine, seq, event=TaskGiven(pane=1, at=AT, title=f"Another {seq}")))
    assert list(remember(lines).outstanding) == [f"{seq}.0" for seq in range(2, 13)]


def test_no_line_makes_an_empty_memory() -> None:
    assert remember([]) == Memory()
