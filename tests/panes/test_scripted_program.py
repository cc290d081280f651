"""The scripted agent's own program with the real hook: its screens are what ``ScriptedAgent`` takes them for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import worker.hook
from conductor.panes.agents import agent_kinds
from conductor.ports import AgentKind, Launch, PaneSpec, Prompt
from schemas.config import AgentConfig, Config
from tests.panes.conftest import Bench
from tests.support.waiting import wait_until


def start(bench: Bench, script: str, state: str, *, first: str | None = None) -> tuple[str, AgentKind]:
    """The program in pane 1 with this script, and its kind, once it is seen in this state."""
    path = bench.folder / "script.toml"
    path.write_text(script, encoding="utf-8")
    (bench.folder / "TASK.md").write_text('<!-- taskmaestro {"task": "1-1", "kind": "first"} -->\n\n# Task\n')
    settings = AgentConfig(args=("--script", str(path)))
    kind = agent_kinds(Config(agents={"scripted": settings}))["scripted"]
    hook = (sys.executable, "-I", "-S", str(Path(worker.hook.__file__)))
    launch = Launch(1, bench.folder, bench.folder, hook, first_prompt=first)
    env = {**kind.env(launch), "TASKMAESTRO_RECEIPTS": str(bench.receipts()), "TASKMAESTRO_PANE": "1"}
    spec = PaneSpec(1, "worker", "scripted", bench.folder, tuple(kind.argv(launch)), env)
    pane_id = bench.up(spec)[1]
    wait_until(lambda: bench.panes.state_of(pane_id, kind).name == state, what=f"the state {state}")
    return pane_id, kind


def turn(*steps: str) -> str:
    return f"[[turns]]\nsteps = [{', '.join(steps)}]\n"


def test_a_line_is_delivered_by_its_hook_s_receipt_and_the_end_of_the_turn_is_seen(bench: Bench) -> None:
    pane_id, kind = start(bench, turn('{ say = "Done it" }'), "idle")
    done = bench.panes.deliver(pane_id, Prompt("t-1", "Read TASK.md"), kind, known_idle=True)
    assert done.outcome == "delivered", done
    assert "hook recorded message t-1" in done.evidence
    wait_until(lambda: "Done it" in "\n".join(bench.panes.screen(pane_id).lines))
    wait_until(lambda: bench.panes.state_of(pane_id, kind).name == "idle")


def test_the_first_prompt_on_its_command_line_is_found_after_a_crash(bench: Bench) -> None:
    prompt = Prompt("t-1", "Read TASK.md")
    pane_id, kind = start(bench, turn('{ say = "Done it" }'), "idle", first=prompt.line)
    found = bench.panes.find_delivery(pane_id, prompt, kind)
    assert found is not None
    assert found.outcome == "delivered"


def test_an_enter_that_it_drops_after_a_paste_is_pressed_again(bench: Bench) -> None:
    pane_id, kind = start(bench, "[options]\ndrop_enter_ms = 300\n" + turn('{ say = "ok" }'), "idle")
    assert bench.panes.deliver(pane_id, Prompt("2", "go"), kind, known_idle=True).outcome == "delivered"


def test_its_draft_is_cleared_first(bench: Bench) -> None:
    pane_id, kind = start(bench, '[options]\ndraft = "half a thought"\n' + turn('{ say = "ok" }'), "idle")
    done = bench.panes.deliver(pane_id, Prompt("2", "go"), kind, known_idle=True)
    assert done.outcome == "delivered"
    assert "half a thought" in done.evidence


STATES: list[Any] = [
    pytest.param("", "{ wait = 30 }", "busy", id="busy"),
    pytest.param("", '{ ask = "run make" }', "permission", id="permission"),
    pytest.param("", '{ limit = "14:30" }', "limit", id="limit"),
    pytest.param("", '{ error = "500 overloaded" }', "error", id="error"),
    pytest.param("", "{ die = 3 }", "gone", id="gone"),
]


@pytest.mark.parametrize(("options", "step", "state"), STATES)
def test_each_of_its_states_is_told_from_its_screen(bench: Bench, options: str, step: str, state: str) -> None:
    pane_id, kind = start(bench, options + turn(step), state, first="[msg 1] go [end 1]")
    if state in ("busy", "permission", "limit", "gone"):
        assert bench.panes.deliver(pane_id, Prompt("2", "x"), kind, known_idle=True).outcome == "queued"
        assert "[msg 2]" not in "\n".join(bench.panes.screen(pane_id).lines)


def test_its_question_of_trust_gets_no_enter(bench: Bench) -> None:
    pane_id, kind = start(bench, "[options]\ntrust = true\n", "trust")
    assert bench.panes.deliver(pane_id, Prompt("2", "x"), kind, known_idle=True).outcome == "queued"
    assert bench.panes.state_of(pane_id, kind).name == "trust"


def test_it_is_ended_by_its_exit_line(bench: Bench) -> None:
    pane_id, kind = start(bench, turn('{ say = "ok" }'), "idle")
    bench.panes.end(pane_id, kind)
    assert bench.panes.info(pane_id) is None
