"""Watching, states, receipts, and ending: events without polling, process trees by pid."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conductor.panes import processes
from conductor.panes.receipts import Receipts
from conductor.panes.tmux import TmuxPanes
from schemas.errors import Unavailable
from tests.panes.conftest import QUICK, Bench, StandInAgent
from tests.support.waiting import wait_until


class Heard:
    """What ``watch`` told, with the time of each."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, float]] = []

    def __call__(self, pane_id: str, what: str) -> None:
        self.events.append((pane_id, what, time.monotonic()))

    def of(self, pane_id: str) -> list[str]:
        return [what for who, what, _ in self.events if who == pane_id]

    def at(self, pane_id: str, what: str) -> float:
        return next(at for who, name, at in reversed(self.events) if (who, name) == (pane_id, what))


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_output_then_quiet_are_told_once_each(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up(work=0.1)
    bench.panes.watch(heard)
    wait_until(lambda: heard.of(pane_id) == ["quiet"])
    bench.tmux("send-keys", "-t", pane_id, "hello")
    began = time.monotonic()
    wait_until(lambda: heard.of(pane_id) == ["quiet", "output", "quiet"])
    assert heard.at(pane_id, "output") - began < 0.5
    assert 1.4 < heard.at(pane_id, "quiet") - heard.at(pane_id, "output") < 4.0


def test_a_pane_that_keeps_writing_is_not_quiet(bench: Bench, heard: Heard, tmp_path: Path) -> None:
    spec = bench.spec(1)
    noisy = type(spec)(1, "worker", "n", tmp_path, ("sh", "-c", "while :; do echo x; sleep 0.2; done"))
    pane_id = bench.up(noisy)[1]
    bench.panes.watch(heard)
    deadline = time.monotonic() + 2.5
    wait_until(lambda: time.monotonic() > deadline)
    assert "quiet" not in heard.of(pane_id)


def test_nothing_is_asked_of_tmux_while_all_is_quiet(
    bench: Bench, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane_id = bench.agent_up()
    bench.panes.watch(heard)
    wait_until(lambda: heard.of(pane_id) == ["quiet"])
    asked: list[tuple[str, ...]] = []
    plain = bench.panes.tmux.run
    monkeypatch.setattr(bench.panes.tmux, "run", lambda *args: asked.append(args) or plain(*args))
    deadline = time.monotonic() + 2.0
    wait_until(lambda: time.monotonic() > deadline)
    assert asked == []
    watcher = next(thread for thread in threading.enumerate() if thread.name == "pane-watcher")
    assert watcher.is_alive()


def test_an_ended_program_is_told_as_dead(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up(die_at="paste")
    bench.panes.watch(heard)
    bench.tmux("set-buffer", "-b", "x", "x")
    bench.tmux("paste-buffer", "-p", "-b", "x", "-t", pane_id)
    wait_until(lambda: "dead" in heard.of(pane_id))
    assert heard.of(pane_id).count("dead") == 1
    assert "gone" not in heard.of(pane_id)
    state = bench.panes.state_of(pane_id, bench.agent)
    assert (state.name, "7" in state.detail) == ("gone", True)


def test_a_pane_that_was_started_again_can_be_told_as_dead_again(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up(die_at="paste")
    bench.panes.watch(heard)
    for count in (1, 2):
        bench.tmux("set-buffer", "-b", "x", "x")
        bench.tmux("paste-buffer", "-p", "-b", "x", "-t", pane_id)
        wait_until(lambda count=count: heard.of(pane_id).count("dead") == count)  # type: ignore[misc]
        bench.panes.start(pane_id, bench.spec(1, die_at="paste"))
        wait_until(lambda: bench.panes.state_of(pane_id, bench.agent).name == "idle")


def test_a_program_that_is_replaced_on_purpose_is_not_told_as_dead(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up(ignores_hangup=True)
    bench.panes.watch(heard)
    bench.panes.start(pane_id, bench.spec(1))
    wait_until(lambda: "quiet" in heard.of(pane_id))
    assert "dead" not in heard.of(pane_id)


@pytest.mark.parametrize("how", ["kill-pane", "kill-window", "kill-session"])
def test_a_pane_that_the_user_closed_is_told_as_gone(bench: Bench, heard: Heard, how: str) -> None:
    ids = bench.up(bench.spec(1), bench.spec(2))
    bench.panes.watch(heard)
    target = f"={bench.panes.session}" if how == "kill-session" else ids[1]
    bench.tmux(how, "-t", target)
    wait_until(lambda: heard.of(ids[1])[-1:] == ["gone"])
    assert ("gone" in heard.of(ids[2])) == (how != "kill-pane")


def test_a_pane_that_was_moved_is_not_gone(bench: Bench, heard: Heard) -> None:
    ids = bench.up(bench.spec(1), bench.spec(2))
    bench.panes.watch(heard)
    bench.tmux("break-pane", "-d", "-s", ids[1])
    bench.tmux("kill-pane", "-t", ids[2])
    wait_until(lambda: "gone" in heard.of(ids[2]))
    assert "gone" not in heard.of(ids[1])


def test_a_killed_server_means_gone_for_all(bench: Bench, heard: Heard) -> None:
    ids = bench.up(bench.spec(1), bench.spec(2))
    bench.panes.watch(heard)
    bench.tmux("kill-server")
    wait_until(lambda: all("gone" in heard.of(pane_id) for pane_id in ids.values()))
    assert bench.panes.all() == {}
    assert bench.panes.state_of(ids[1], bench.agent).name == "gone"


def test_a_server_that_died_without_a_word_means_gone_too(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up()
    bench.panes.watch(heard)
    wait_until(lambda: heard.of(pane_id) == ["quiet"])
    os.kill(int(bench.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    wait_until(lambda: heard.of(pane_id)[-1:] == ["gone"])


def test_after_a_killed_server_the_session_can_be_made_again_and_is_watched(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up()
    bench.panes.watch(heard)
    bench.tmux("kill-server")
    wait_until(lambda: "gone" in heard.of(pane_id))
    heard.events.clear()
    again = bench.agent_up()
    wait_until(lambda: "quiet" in heard.of(again))
    bench.tmux("send-keys", "-t", again, "x")
    wait_until(lambda: "output" in heard.of(again))


def test_a_detached_client_comes_back_and_goes_on_watching(bench: Bench, heard: Heard) -> None:
    pane_id = bench.agent_up()
    bench.panes.watch(heard)
    bench.tmux("detach-client", "-s", f"={bench.panes.session}")
    wait_until(lambda: bench.panes.tmux.connected)
    wait_until(lambda: "quiet" in heard.of(pane_id))
    bench.tmux("send-keys", "-t", pane_id, "x")
    wait_until(lambda: "output" in heard.of(pane_id))
    assert "gone" not in heard.of(pane_id)


def test_a_listener_that_fails_is_called_again(bench: Bench) -> None:
    calls: list[str] = []

    def listener(pane_id: str, what: str) -> None:
        calls.append(what)
        raise ValueError(what)

    pane_id = bench.agent_up()
    bench.panes.watch(listener)
    wait_until(lambda: calls == ["quiet"])
    bench.tmux("send-keys", "-t", pane_id, "x")
    wait_until(lambda: calls[1:2] == ["output"])


# --- states ---


def receipt(bench: Bench, event: str, ago: float = 0.0) -> None:
    at = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()
    with bench.receipts().open("a") as file:
        file.write(json.dumps({"event": event, "msg": None, "at": at, "pane": "1"}) + "\n")


def test_a_fresh_receipt_says_what_the_screen_does_not_show_yet(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.agent = StandInAgent(has_receipts=True)
    receipt(bench, "prompt")
    assert bench.panes.state_of(pane_id, bench.agent).name == "busy"
    receipt(bench, "permission")
    assert bench.panes.state_of(pane_id, bench.agent).name == "permission"
    receipt(bench, "stop")
    assert bench.panes.state_of(pane_id, bench.agent).name == "idle"
    assert bench.panes.state_of(pane_id, StandInAgent()).name == "idle"


def test_a_receipt_that_is_older_than_the_screen_does_not_count(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.agent = StandInAgent(has_receipts=True)
    receipt(bench, "prompt", ago=60)
    assert bench.panes.state_of(pane_id, bench.agent).name == "idle"


@pytest.mark.parametrize(
    ("ways", "state"),
    [
        ({"trust": True}, "trust"),
        ({"limit": "Usage limit reached, resets at 09:00"}, "limit"),
        ({"error": "Error: 529"}, "error"),
    ],
)
def test_what_stops_the_agent_on_its_screen_beats_a_receipt_that_says_idle(
    bench: Bench, ways: dict[str, object], state: str
) -> None:
    pane_id = bench.agent_up(state=state, **ways)
    receipt(bench, "stop")
    assert bench.panes.state_of(pane_id, StandInAgent(has_receipts=True)).name == state


def test_an_empty_screen_is_starting(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(1)
    pane_id = bench.up(type(spec)(1, "worker", "n", tmp_path, ("sleep", "1000")))[1]
    assert bench.panes.state_of(pane_id, bench.agent).name == "starting"


# --- receipts ---


def test_receipts_are_read_as_they_come_and_a_torn_last_line_waits(tmp_path: Path) -> None:
    receipts, path = Receipts(tmp_path), tmp_path / "pane-3.jsonl"
    assert receipts.last(3) is None
    path.write_text('{"event": "prompt", "msg": "1", "at": "2026-01-01T00:00:00Z", "pane": "3"}\n{"event": "st')
    assert receipts.find(3, "1") is not None
    assert receipts.count(3) == 1
    with path.open("a") as file:
        file.write('op", "msg": null, "at": "2026-01-01T00:00:01+00:00", "pane": "3"}\n')
    last = receipts.last(3)
    assert last is not None
    assert last.event == "stop"


@pytest.mark.parametrize(
    "bad", ["nonsense", "[]", "{}", '{"event": 3}', "[" * 5000, '{"event": "prompt", "at": "x"}', "\udcff"]
)
def test_lines_that_are_no_receipts_are_left_aside(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "pane-1.jsonl"
    good = b'{"event": "prompt", "msg": "5", "at": "2026-01-01T00:00:00Z", "pane": "1", "new": true}\n'
    path.write_bytes(bad.encode("utf-8", "surrogateescape") + b"\n" + good)
    receipts = Receipts(tmp_path)
    assert receipts.find(1, "5") is not None
    assert receipts.count(1) == 1


def test_a_file_that_was_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "pane-1.jsonl"
    line = '{{"event": "prompt", "msg": "{}", "at": "2026-01-01T00:00:00Z", "pane": "1"}}\n'
    path.write_text(line.format(1) + line.format(2))
    receipts = Receipts(tmp_path)
    assert receipts.count(1) == 2
    path.write_text(line.format(9))
    assert receipts.find(1, "9") is not None
    assert receipts.find(1, "2") is None


# --- ending ---


def test_an_agent_is_ended_by_its_own_exit_line(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.panes.end(pane_id, bench.agent)
    assert [line["text"] for line in bench.log(1, "submit")] == ["/exit"]
    assert bench.panes.info(pane_id) is None


def test_no_exit_line_is_typed_into_a_dialog(bench: Bench) -> None:
    pane_id = bench.agent_up(state="trust", trust=True)
    bench.panes.end(pane_id, bench.agent)
    assert bench.log(1, "paste") + bench.log(1, "trust") + bench.log(1, "key") == []
    assert bench.panes.info(pane_id) is None


def test_all_agents_are_asked_to_leave_before_one_is_waited_for(bench: Bench) -> None:
    logs = [str(bench.log_file(index)) for index in (1, 2, 3)]
    ids = bench.up(*(bench.spec(index, leaves_after=logs) for index in (1, 2, 3)))
    for pane_id in ids.values():
        wait_until(lambda pane_id=pane_id: bench.panes.state_of(pane_id, bench.agent).name == "idle")  # type: ignore[misc]
    assert sorted(bench.panes.end_all(dict.fromkeys(ids.values(), bench.agent))) == sorted(ids.values())
    assert [len(bench.log(index, "left")) for index in (1, 2, 3)] == [1, 1, 1]
    assert bench.panes.all() == {}


def test_agents_that_will_not_leave_are_waited_for_together(bench: Bench) -> None:
    ids = bench.up(*(bench.spec(index, ignores_hangup=True, busy=True) for index in range(1, 7)))
    for pane_id in ids.values():
        wait_until(lambda pane_id=pane_id: bench.panes.state_of(pane_id, bench.agent).name == "busy")  # type: ignore[misc]
    began = time.monotonic()
    bench.panes.end_all(dict.fromkeys(ids.values(), bench.agent))
    assert QUICK.grace <= time.monotonic() - began < len(ids) * QUICK.grace
    assert bench.panes.all() == {}


def test_a_pane_that_will_not_end_is_named_after_the_others_have_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = bench.up(bench.spec(1), bench.spec(2))
    stubborn = bench.panes.info(ids[1]).pid  # type: ignore[union-attr]
    really = processes.end

    def end(which: Iterable[processes.Process], grace: float) -> frozenset[processes.Process]:
        asked = frozenset(which)
        really(asked, grace)
        return frozenset(one for one in asked if one.pid == stubborn)

    monkeypatch.setattr(processes, "end", end)
    with pytest.raises(Unavailable, match=f"^pane {ids[1]}: these processes would not end: {stubborn}\n"):
        bench.panes.end_all(dict.fromkeys(ids.values()))
    assert bench.panes.all() == {}


def test_a_pane_that_somebody_else_made_in_the_session_is_not_ended(bench: Bench) -> None:
    mine = bench.up(bench.spec(1))[1]
    theirs = bench.tmux("split-window", "-d", "-t", mine, "-P", "-F", "#{pane_id}", "--", "sleep", "1000")
    assert bench.panes.end_all(dict.fromkeys((mine, theirs, "%99"))) == [mine]
    assert list(bench.panes.all()) == [theirs]


def test_processes_that_survive_their_pane_are_ended_by_pid(bench: Bench) -> None:
    pane_id = bench.agent_up(ignores_hangup=True, child=True)
    pids = [line["pid"] for line in wait_until(lambda: bench.log(1, "child") and bench.log(1))]
    bench.panes.end(pane_id, None)
    assert len(set(pids)) == 2
    for pid in pids:
        wait_until(lambda pid=pid: processes.snapshot().get(pid) is None)  # type: ignore[misc]


def test_a_pid_that_was_given_out_again_is_not_touched() -> None:
    mine = processes.snapshot()[os.getpid()]
    impostor = processes.Process(mine.pid, mine.parent, mine.group, "another start")
    assert processes.end([impostor]) == frozenset()


def test_this_program_and_what_started_it_are_in_no_tree() -> None:
    now = processes.snapshot()
    assert os.getpid() not in {one.pid for one in processes.tree(now[os.getpid()].parent)}


def test_ps_tells_the_same_trees_as_proc(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pane_id = bench.agent_up(child=True)
    wait_until(lambda: bench.log(1, "child"))
    pid = bench.panes.info(pane_id).pid  # type: ignore[union-attr]
    by_proc = {one.pid for one in processes.tree(pid)}
    monkeypatch.setattr(processes, "_PROC", Path("/nonexistent"))
    assert {one.pid for one in processes.tree(pid)} == by_proc
    assert len(by_proc) == 2
    bench.panes.end(pane_id, None)


def test_ending_a_pane_that_is_not_there_is_fine(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.panes.end("%99", None)
    info = bench.panes.info(pane_id)
    assert info is not None
    assert not info.dead


def test_a_pane_that_was_ended_on_purpose_is_not_told_as_gone(bench: Bench, heard: Heard) -> None:
    ids = bench.up(bench.spec(1), bench.spec(2))
    bench.panes.watch(heard)
    bench.panes.end(ids[1], None)
    bench.tmux("kill-pane", "-t", ids[2])
    wait_until(lambda: "gone" in heard.of(ids[2]))
    assert "gone" not in heard.of(ids[1])


def test_closing_leaves_the_session_standing(bench: Bench, make_panes: Callable[..., TmuxPanes], heard: Heard) -> None:
    pane_id = bench.agent_up()
    bench.panes.watch(heard)
    bench.panes.close()
    assert pane_id in make_panes().all()


def test_a_session_that_ends_under_a_slow_connection_takes_no_other_session_with_it(bench: Bench, heard: Heard) -> None:
    """tmux evaluates subscriptions once a second, also for a client whose session has ended under it."""
    bench.agent_up()
    bench.panes.watch(heard)
    bench.tmux("new-session", "-d", "-s", "somebody-elses", "sleep", "1000")
    client = bench.panes._tmux.connect(now=True)
    assert client is not None
    pid = client._process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        bench.tmux("kill-session", "-t", f"={bench.panes.session}:")
        deadline = time.monotonic() + 2.5
        while time.monotonic() < deadline:
            assert "somebody-elses" in bench.tmux("list-sessions", "-F", "#S"), "the tmux server crashed"
            time.sleep(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
