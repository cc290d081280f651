"""Delivery into hostile stand-ins: typed once, confirmed, or told as not done; never a yes to a dialog."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conductor.panes.delivery import Timings
from conductor.ports import Delivery, Prompt
from tests.panes.conftest import Bench, StandInAgent
from tests.support.waiting import wait_until

PROMPT = Prompt("7", "Read TASK.md and do it")


def deliver(bench: Bench, pane_id: str, prompt: Prompt = PROMPT, *, known_idle: bool = False) -> Delivery:
    return bench.panes.deliver(pane_id, prompt, bench.agent, known_idle=known_idle)


def submitted(bench: Bench) -> list[str]:
    return [line["text"] for line in bench.log(1, "submit")]


def pastes(bench: Bench) -> int:
    return len(bench.log(1, "paste"))


def test_a_line_is_submitted_once_and_intact(bench: Bench) -> None:
    pane_id = bench.agent_up()
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered", done
    assert submitted(bench) == [PROMPT.line]
    assert pastes(bench) == 1


@pytest.mark.parametrize(
    "text",
    ["/exit", "!ls", "#no; $HOME `x` 'q' \"d\"", "ends;", "back\\", "-l", "日本 é \u276f", "#{pane_id}"],
)
def test_text_that_means_something_to_tmux_or_agents_arrives_as_it_is(bench: Bench, text: str) -> None:
    pane_id = bench.agent_up()
    assert deliver(bench, pane_id, Prompt("8", text)).outcome == "delivered"
    assert submitted(bench) == [f"[msg 8] {text} [end 8]"]


def test_control_characters_tabs_and_line_feeds_never_reach_the_agent(bench: Bench) -> None:
    pane_id = bench.agent_up()
    prompt = Prompt("9", "one\ttwo\r\nthree\x1b[201~\x03 four\x1b")
    assert deliver(bench, pane_id, prompt).outcome == "delivered"
    assert submitted(bench) == ["[msg 9] one two three[201~ four [end 9]"]


def test_an_enter_that_is_dropped_is_pressed_once_more_and_nothing_is_pasted_again(bench: Bench) -> None:
    pane_id = bench.agent_up(drop_enter=0.3)
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered", done
    assert submitted(bench) == [PROMPT.line]
    assert pastes(bench) == 1
    assert len(bench.log(1, "key")) == 1


def test_a_line_that_is_never_submitted_is_stranded_with_the_screen(bench: Bench) -> None:
    pane_id = bench.agent_up(drop_enter=60.0)
    done = deliver(bench, pane_id)
    assert done.outcome == "stranded"
    assert any("[msg 7]" in line for line in done.screen)
    assert pastes(bench) == 1
    assert len(bench.log(1, "key")) == 2


def test_a_line_that_vanishes_without_a_sign_is_not_called_delivered(bench: Bench) -> None:
    pane_id = bench.agent_up(swallow=True)
    assert deliver(bench, pane_id).outcome == "stranded"
    assert pastes(bench) == 1


def test_a_draft_is_cleared_first_and_quoted(bench: Bench) -> None:
    pane_id = bench.agent_up(draft="rm -rf old stuff")
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered", done
    assert "rm -rf old stuff" in done.evidence
    assert submitted(bench) == [PROMPT.line]


def test_a_screen_that_is_being_drawn_anew_is_no_cleared_input_line(bench: Bench) -> None:
    pane_id = bench.agent_up(draft="half a thought", torn=0.15)
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered", done
    assert "half a thought" in done.evidence
    assert submitted(bench) == [PROMPT.line]


def test_a_screen_that_is_drawn_anew_before_enter_is_waited_for(bench: Bench) -> None:
    pane_id = bench.agent_up(torn=0.2, redraws=0.3)
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered", done
    assert submitted(bench) == [PROMPT.line]


def test_a_draft_that_cannot_be_cleared_is_told_and_nothing_is_pasted(bench: Bench) -> None:
    pane_id = bench.agent_up(draft="half a thought", keeps_draft=True)
    done = deliver(bench, pane_id)
    assert done.outcome == "stranded"
    assert "half a thought" in done.evidence
    assert pastes(bench) == 0
    assert submitted(bench) == []


def test_a_pasted_text_that_shows_as_a_placeholder_is_submitted(bench: Bench) -> None:
    pane_id = bench.agent_up(placeholder=True)
    assert deliver(bench, pane_id).outcome == "delivered"
    assert submitted(bench) == [PROMPT.line]


def test_a_dialog_between_paste_and_enter_gets_no_enter(bench: Bench) -> None:
    pane_id = bench.agent_up(ask_after_paste=True)
    done = deliver(bench, pane_id)
    assert done.outcome == "stranded"
    assert "permission" in done.evidence
    assert bench.log(1, "approve") == []
    assert submitted(bench) == []


def test_an_agent_that_shows_nothing_gets_no_enter(bench: Bench) -> None:
    pane_id = bench.agent_up(silent=True)
    done = deliver(bench, pane_id)
    assert done.outcome == "stranded"
    assert "did not show" in done.evidence
    assert bench.log(1, "key") == []


@pytest.mark.parametrize(
    ("ways", "state"),
    [({"trust": True}, "trust"), ({"busy": True}, "busy"), ({"title": "no ", "busy": True}, "busy")],
)
def test_nothing_is_typed_into_an_agent_that_is_not_idle(bench: Bench, ways: dict[str, Any], state: str) -> None:
    pane_id = bench.agent_up(state=state, **ways)
    done = deliver(bench, pane_id, known_idle=True)
    assert done.outcome == "queued"
    assert state in done.evidence
    assert bench.log(1, "paste") + bench.log(1, "key") + bench.log(1, "trust") == []


def test_nothing_is_typed_into_a_screen_that_is_not_understood(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(1)
    pane_id = bench.up(type(spec)(1, "worker", "x", tmp_path, ("sh", "-c", "echo hello; cat > typed")))[1]
    wait_until(lambda: "hello" in bench.panes.screen(pane_id).lines and (tmp_path / "typed").exists())
    done = deliver(bench, pane_id)
    assert done.outcome == "queued"
    assert "unknown" in done.evidence
    assert (tmp_path / "typed").read_text() == ""


def test_a_usage_limit_is_not_nudged(bench: Bench) -> None:
    pane_id = bench.agent_up(state="limit", limit="Usage limit reached, resets at 14:30")
    done = deliver(bench, pane_id)
    assert done.outcome == "queued"
    assert "14:30" in done.evidence


def test_an_agent_that_waits_after_an_error_can_be_spoken_to(bench: Bench) -> None:
    pane_id = bench.agent_up(state="error", error="Error: 500 overloaded")
    assert deliver(bench, pane_id).outcome == "delivered"


@pytest.mark.parametrize("mode", [("copy-mode",), ("copy-mode", "-u"), ("clock-mode",), ("choose-tree",)])
def test_copy_mode_and_other_modes_are_left_first(bench: Bench, mode: tuple[str, ...]) -> None:
    pane_id = bench.agent_up()
    bench.tmux(mode[0], *mode[1:], "-t", pane_id)
    assert bench.panes.info(pane_id).in_mode  # type: ignore[union-attr]
    assert deliver(bench, pane_id).outcome == "delivered"
    assert submitted(bench) == [PROMPT.line]


def test_copy_mode_that_a_person_enters_after_the_paste_is_left_before_enter(bench: Bench) -> None:
    pane_id = bench.agent_up()

    def person() -> None:
        wait_until(lambda: pastes(bench) == 1)
        bench.panes.tmux.run("copy-mode", "-t", pane_id)

    thread = threading.Thread(target=person)
    thread.start()
    done = deliver(bench, pane_id)
    thread.join()
    assert done.outcome == "delivered"
    assert submitted(bench) == [PROMPT.line]


@pytest.mark.parametrize("when", ["paste", "enter"])
def test_an_agent_that_dies_under_way_is_told_as_gone(bench: Bench, when: str) -> None:
    pane_id = bench.agent_up(die_at=when)
    began = time.monotonic()
    done = deliver(bench, pane_id)
    assert done.outcome == "stranded"
    assert time.monotonic() - began < 4
    assert pastes(bench) == 1


def test_a_pane_that_is_gone_queues(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.tmux("kill-pane", "-t", pane_id)
    assert deliver(bench, pane_id).outcome == "queued"


def test_an_input_line_that_somebody_is_typing_in_is_left_alone(bench: Bench) -> None:
    pane_id = bench.agent_up()
    stop = threading.Event()

    def person() -> None:
        while not stop.wait(0.1):
            bench.tmux("send-keys", "-t", pane_id, "-l", "a")

    thread = threading.Thread(target=person)
    thread.start()
    try:
        wait_until(lambda: len(bench.log(1, "key")) >= 2)
        done = deliver(bench, pane_id)
    finally:
        stop.set()
        thread.join()
    assert done.outcome == "queued"
    assert "changed" in done.evidence
    assert pastes(bench) == 0


def test_the_hook_s_receipt_is_what_counts_where_there_are_receipts(bench: Bench) -> None:
    pane_id = bench.agent_up(receipts=str(bench.receipts()))
    bench.agent = StandInAgent(has_receipts=True)
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered"
    assert "hook" in done.evidence


def test_a_receipt_of_an_earlier_message_of_the_same_number_proves_nothing(bench: Bench) -> None:
    pane_id = bench.agent_up(swallow=True)
    old = {"event": "prompt", "msg": "7", "at": datetime.now(UTC).isoformat(), "pane": "1"}
    bench.receipts().write_text(json.dumps(old) + "\n")
    bench.agent = StandInAgent(has_receipts=True)
    assert deliver(bench, pane_id).outcome == "stranded"


def test_hooks_that_do_not_work_fall_back_to_the_screen(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.agent = StandInAgent(has_receipts=True)
    done = deliver(bench, pane_id)
    assert done.outcome == "delivered"
    assert "hook" not in done.evidence


def test_two_deliveries_to_one_pane_do_not_mix(bench: Bench) -> None:
    pane_id = bench.agent_up(work=0.05)
    outcomes: list[str] = []

    def send(number: int) -> None:
        prompt = Prompt(str(number), f"task {number}")
        outcomes.append(wait_until(lambda: (d := deliver(bench, pane_id, prompt)).outcome == "delivered" and d).outcome)

    threads = [threading.Thread(target=send, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["delivered"] * 3
    assert sorted(submitted(bench)) == [f"[msg {n}] task {n} [end {n}]" for n in (1, 2, 3)]


def test_enter_reaches_one_pane_only_though_the_user_synchronises_panes(bench: Bench) -> None:
    ids = bench.up(bench.spec(1), bench.spec(2, trust=True))
    bench.tmux("set-option", "-w", "-t", ids[1], "synchronize-panes", "on")
    wait_until(lambda: bench.panes.state_of(ids[1], bench.agent).name == "idle")
    wait_until(lambda: bench.panes.state_of(ids[2], bench.agent).name == "trust")
    assert deliver(bench, ids[1]).outcome == "delivered"
    assert bench.log(2, "trust") + bench.log(2, "key") == []


# --- after a crash ---


def crash_before_enter(bench: Bench, pane_id: str) -> None:
    bench.tmux("set-buffer", "-b", "x", "--", PROMPT.line)
    bench.tmux("paste-buffer", "-p", "-d", "-b", "x", "-t", pane_id)
    wait_until(lambda: pastes(bench) == 1)


def test_a_crash_before_the_paste_finds_nothing(bench: Bench) -> None:
    pane_id = bench.agent_up()
    assert bench.panes.find_delivery(pane_id, PROMPT, bench.agent) is None
    assert bench.log(1, "key") == []


def test_a_crash_after_the_paste_submits_the_line_that_stands(bench: Bench) -> None:
    pane_id = bench.agent_up()
    crash_before_enter(bench, pane_id)
    found = bench.panes.find_delivery(pane_id, PROMPT, bench.agent)
    assert found is not None
    assert found.outcome == "delivered"
    assert submitted(bench) == [PROMPT.line]
    assert pastes(bench) == 1


@pytest.mark.parametrize("work", [0.0, 30.0], ids=["idle again", "still busy"])
def test_a_crash_after_enter_finds_the_line_in_the_scrollback(bench: Bench, work: float) -> None:
    pane_id = bench.agent_up(work=work)
    crash_before_enter(bench, pane_id)
    bench.tmux("send-keys", "-t", pane_id, "Enter")
    wait_until(lambda: submitted(bench))
    found = wait_until(lambda: bench.panes.find_delivery(pane_id, PROMPT, bench.agent))
    assert found.outcome == "delivered"
    assert submitted(bench) == [PROMPT.line]


def test_a_crash_after_enter_finds_the_receipt_though_the_screen_was_cleared(bench: Bench) -> None:
    pane_id = bench.agent_up()
    line = {"event": "prompt", "msg": "7", "at": datetime.now(UTC).isoformat(), "pane": "1"}
    bench.receipts().write_text(json.dumps(line) + "\n")
    bench.agent = StandInAgent(has_receipts=True)
    found = bench.panes.find_delivery(pane_id, PROMPT, bench.agent)
    assert found is not None
    assert "hook" in found.evidence


def test_a_prompt_on_the_command_line_is_found_there(bench: Bench) -> None:
    pane_id = bench.up(bench.spec(1, PROMPT.line))[1]
    found = bench.panes.find_delivery(pane_id, PROMPT, bench.agent)
    assert found is not None
    assert "command line" in found.evidence
    assert bench.panes.find_delivery(pane_id, Prompt("70", "x"), bench.agent) is None


def test_a_line_below_a_dialog_is_not_submitted_after_a_crash(bench: Bench) -> None:
    pane_id = bench.agent_up(ask_after_paste=True)
    crash_before_enter(bench, pane_id)
    wait_until(lambda: bench.panes.state_of(pane_id, bench.agent).name == "permission")
    found = bench.panes.find_delivery(pane_id, PROMPT, bench.agent)
    assert found is not None
    assert found.outcome == "queued"
    assert bench.log(1, "approve") == []


def test_a_pane_that_is_gone_was_never_typed_into(bench: Bench) -> None:
    pane_id = bench.agent_up()
    bench.tmux("kill-server")
    assert bench.panes.find_delivery(pane_id, PROMPT, bench.agent) is None


def test_a_known_idle_agent_is_pasted_to_within_milliseconds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pane_id = bench.agent_up(work=0.01)
    taken: list[float] = []
    began = 0.0
    plain = bench.panes.tmux.run_many

    def spy(*commands: tuple[str, ...]) -> list[list[str]]:
        answer = plain(*commands)
        if any(command[0] == "paste-buffer" for command in commands):
            taken.append(time.monotonic() - began)
        return answer

    monkeypatch.setattr(bench.panes.tmux, "run_many", spy)
    for number in range(15):
        wait_until(lambda: bench.panes.state_of(pane_id, bench.agent).name == "idle")
        began = time.monotonic()
        assert deliver(bench, pane_id, Prompt(str(number), "go"), known_idle=True).outcome == "delivered"
    taken.sort()
    print(f"known-idle paste p50 {taken[7] * 1000:.2f} ms, worst {taken[-1] * 1000:.2f} ms")
    assert taken[7] < 0.02


def test_the_defaults_are_the_measured_ones() -> None:
    assert Timings() == Timings(apart=0.5, digest=0.15, confirm=2.0, per_kilobyte=0.25, quiet=1.5)
