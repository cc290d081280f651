"""The registry of agent kinds, and the kinds ``command`` and ``scripted``."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from conductor.loop.bring_up import chosen
from conductor.panes import agents
from conductor.panes.agents import GROUP, _Kinds, agent_kinds
from conductor.panes.agents.command import CommandAgent
from conductor.panes.agents.scripted import ScriptedAgent
from conductor.panes.programs import find_program
from conductor.ports import Launch, Screen
from schemas.config import AgentConfig, Config
from schemas.errors import BadInput, Unavailable

LAUNCH = Launch(1, Path("/w"), Path("/p"), ("hook",), first_prompt="[msg 1] go [end 1]", extra_args=("--extra",))


def config(**entries: AgentConfig) -> Config:
    return Config(agents=entries)


def test_built_in_kinds_and_configured_names_are_known_by_name() -> None:
    kinds = agent_kinds(config(mine=AgentConfig(command=("my-agent", "--x"))))
    assert {"claude", "scripted", "mine"} <= set(kinds)
    assert kinds["mine"].name == "mine"
    assert kinds["mine"].argv(LAUNCH) == ["my-agent", "--x", "--extra", "[msg 1] go [end 1]"]


def test_arguments_and_environment_of_the_configuration_are_added() -> None:
    kinds = agent_kinds(config(scripted=AgentConfig(args=("--slow",), env={"A": "b"})))
    argv = kinds["scripted"].argv(LAUNCH)
    assert argv[-3:] == ["--slow", "--extra", "[msg 1] go [end 1]"]
    assert kinds["scripted"].env(LAUNCH)["A"] == "b"
    assert kinds["scripted"].env(LAUNCH)["TASKMAESTRO_HOOK"] == '["hook"]'


def test_an_unknown_kind_is_told_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="nobody provides") as caught:
        agent_kinds(config(mine=AgentConfig(kind="magic")))
    assert "scripted" in caught.value.hint


def test_a_plug_in_comes_in_by_the_same_door(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("other", "conductor.panes.agents.scripted:make", agents.GROUP)
    monkeypatch.setattr(agents, "entry_points", lambda group: [point] if group == agents.GROUP else [])
    assert agent_kinds(Config())["other"].name == "other"


def test_a_broken_plug_in_is_a_fault_of_its_own_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no_such_module_here:make", agents.GROUP)
    monkeypatch.setattr(agents, "entry_points", lambda group: [point])
    kinds = agent_kinds(Config())
    assert kinds["scripted"].name == "scripted"
    with pytest.raises(Unavailable, match="no_such_module_here"):
        kinds["broken"]


def test_a_command_s_patterns_say_its_state() -> None:
    kind = CommandAgent(
        AgentConfig(
            command=("x",),
            idle=r"^> ",
            busy="Working",
            permission=r"\(y/n\)",
            composer=r"^> (.*)$",
            exit="/quit",
            prompt="paste",
        )
    )
    assert kind.classify(Screen(("hello", "> "))).name == "idle"
    assert kind.classify(Screen(("Working...", "> "))).name == "busy"
    assert kind.classify(Screen(("Delete? (y/n)", "Working", "> "))).name == "permission"
    assert kind.classify(Screen(("what is this",))).name == "unknown"
    assert kind.composer(Screen(("> old", "> draft"))) == "draft"
    assert kind.composer(Screen(("none",))) is None
    assert kind.exit_line() == "/quit"
    assert kind.argv(LAUNCH) == ["x", "--extra"]


def test_a_command_without_patterns_is_never_called_idle() -> None:
    assert CommandAgent(AgentConfig(command=("x",))).classify(Screen(("> ",))).name == "unknown"


@pytest.mark.parametrize(
    "settings",
    [AgentConfig(), AgentConfig(command=("x",), idle="("), AgentConfig(command=("x",), composer="no group")],
)
def test_a_command_that_cannot_work_is_told_in_the_configuration_s_words(settings: AgentConfig) -> None:
    with pytest.raises(BadInput, match=r"\[agents\]"):
        CommandAgent(settings)


RULE = "─" * 20
SCRIPTED = [
    (("hello", RULE, "\u276f ", RULE), "scripted: idle", "idle", ""),
    (("hello", RULE, "\u276f draft", RULE), "scripted: idle", "idle", "draft"),
    (("hello", RULE, "\u276f"), "scripted: busy", "busy", ""),
    (("run it?", "Allow this? (y/n)"), "scripted: asks", "permission", None),
    (("Do you trust the files in this folder?", "\u276f 1. No", "  2. Yes"), "scripted: asks", "trust", None),
    (("Do you trust the files in this folder?", "  1. No", "\u276f 2. Yes"), "scripted: asks", "trust", None),
    (("Error: 529", RULE, "\u276f "), "scripted: idle", "error", ""),
    (("Usage limit reached, resets at 09:15", RULE, "\u276f "), "scripted: idle", "limit", ""),
    (("> it said: Allow this? (y/n)", "Allow this? (y/n)", RULE, "\u276f "), "scripted: idle", "idle", ""),
    (("Error: old", "all is well", RULE, "\u276f "), "scripted: idle", "idle", ""),
    (("$ ",), "", "unknown", None),
    ((), "", "unknown", None),
]


@pytest.mark.parametrize(("lines", "title", "state", "composer"), SCRIPTED)
def test_the_scripted_agent_s_screen(lines: tuple[str, ...], title: str, state: str, composer: str | None) -> None:
    kind = ScriptedAgent(AgentConfig())
    screen = Screen(lines, title)
    assert kind.classify(screen).name == state
    assert kind.composer(screen) == composer


def test_a_paste_placeholder_is_seen_in_the_input_line_only() -> None:
    kind = ScriptedAgent(AgentConfig())
    assert kind.placeholder(Screen(("\u276f [Pasted text #1]",)))
    assert not kind.placeholder(Screen(("[Pasted text #1]", "\u276f ")))


def test_a_program_is_found_on_the_path_of_its_environment(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(Unavailable, match="agent"):
        find_program(["agent"], {"PATH": str(tmp_path)})
    program.chmod(0o755)
    assert find_program(["agent", "x"], {"PATH": f"/nowhere:{tmp_path}"}) == str(program)


def test_a_program_of_the_worktree_is_not_found_by_an_empty_path_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").write_text("#!/bin/sh\n")
    (tmp_path / "agent").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable):
        find_program(["agent"], {"PATH": ":."})


def test_the_hint_says_how_to_install_it() -> None:
    with pytest.raises(Unavailable) as caught:
        find_program(["claude-x"], {"PATH": "/a:/b"}, install_hint="npm install it")
    assert "/a\n" in caught.value.what
    assert caught.value.hint == "npm install it"


def test_asking_whether_a_kind_is_there_does_not_load_it() -> None:
    kinds = _Kinds({"broken": (EntryPoint("broken", "no.such.module:make", GROUP), AgentConfig())})
    assert "broken" in kinds
    assert "other" not in kinds
    with pytest.raises(Unavailable):
        kinds["broken"]


def test_variables_to_be_handed_over_are_the_kinds_and_the_configured_ones() -> None:
    config = Config(agents={"claude": AgentConfig(pass_env=("MY_GATEWAY_*",))})
    patterns = agent_kinds(config)["claude"].pass_env
    shell = {"ANTHROPIC_API_KEY": "k", "MY_GATEWAY_TOKEN": "t", "CLAUDECODE": "1", "OTHER": "o"}
    assert chosen(shell, patterns) == {"ANTHROPIC_API_KEY": "k", "MY_GATEWAY_TOKEN": "t"}
