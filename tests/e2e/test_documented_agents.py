"""The examples of the pages about agents do what the pages say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from conductor.panes.agents import agent_kinds
from conductor.ports import Launch, PaneSpec, Prompt
from schemas.config import Config
from tests.panes.conftest import Bench
from tests.support.fleet import FleetWorld
from tests.support.waiting import wait_until
from worker.scripted.script import _CHECKS, Options

PAGES = Path(__file__).parents[2] / "docs" / "agents"


def block(page: str, kind: str, holding: str) -> str:
    """The page's one block of this kind that holds these words."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", (PAGES / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if holding in text]
    return str(found)


def test_the_scripted_example_is_approved(fleet_world: FleetWorld) -> None:
    script = fleet_world.folder / "hello.toml"
    script.write_text(block("scripted.md", "toml", "[[turns]]"), encoding="utf-8")
    config = block("scripted.md", "toml", "[agents.scripted]").replace("/home/you/hello.toml", str(script))
    fleet_world.layout.home.mkdir(exist_ok=True)
    fleet_world.layout.config.write_text(f'{config}\n[tmux]\nsocket = "{fleet_world.socket}"\n', encoding="utf-8")
    fleet_world.up(fleet_world.issue("Say hello", "- [ ] hello.txt says hello"))
    fleet_world.wait_status(1, "approved", attention=None, cycle=0)
    fleet_world.wait_settled()


def test_the_page_names_every_step_and_option_of_a_script() -> None:
    page = (PAGES / "scripted.md").read_text("utf-8")
    assert [name for name in (*_CHECKS, *Options._fields) if f"`{name}`" not in page] == []


def test_the_command_example_is_driven_by_its_patterns(bench: Bench) -> None:
    program = bench.folder / "my-agent"
    program.write_text(block("command.md", "sh", "answer()"), encoding="utf-8")
    program.chmod(0o755)
    text = block("command.md", "toml", "[agents.mine]").replace('"my-agent"', f'"{program}"')
    kind = agent_kinds(Config.model_validate(tomllib.loads(text)))["mine"]
    launch = Launch(1, bench.folder, bench.folder, (), first_prompt="[msg 1] Read TASK.md [end 1]")
    pane_id = bench.up(PaneSpec(1, "worker", "mine", bench.folder, tuple(kind.argv(launch))))[1]
    states: list[str] = []

    def state() -> str:
        states.append(bench.panes.state_of(pane_id, kind).name)
        return states[-1]

    wait_until(lambda: state() == "idle", what="the end of its first task")
    assert "busy" in states
    done = bench.panes.deliver(pane_id, Prompt("2", "Mind the danger"), kind, known_idle=True)
    assert done.outcome == "delivered", done
    wait_until(lambda: state() == "permission", what="its question")
    bench.tmux("send-keys", "-t", pane_id, "y", "Enter")
    wait_until(lambda: state() == "idle", what="its end")
    assert bench.panes.find_delivery(pane_id, Prompt("3", "never sent"), kind) is None


def test_a_command_agent_whose_prompts_are_pasted_is_typed_its_first_task(fleet_world: FleetWorld) -> None:
    """What is not on its command line must not be called delivered."""
    program = fleet_world.folder / "typed-agent"
    log = fleet_world.folder / "typed.log"
    program.write_text(
        f"#!/bin/sh\necho \"$# arguments\" >>'{log}'\n"
        f"while printf '> '; read -r line; do echo \"typed: $line\" >>'{log}'; echo working; done\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    fleet_world.layout.home.mkdir(exist_ok=True)
    fleet_world.layout.config.write_text(
        f'agent = "mine"\n[agents.mine]\nkind = "command"\ncommand = ["{program}"]\nprompt = "paste"\n'
        f"idle = '^> ?$'\ncomposer = '^> ?(.*)$'\n[tmux]\nsocket = \"{fleet_world.socket}\"\n",
        encoding="utf-8",
    )
    fleet_world.up(fleet_world.issue("Say hello", "- [ ] says hello"))
    fleet_world.wait_event("task_delivered")
    said = log.read_text("utf-8")
    assert said.startswith("0 arguments\n")
    assert "typed: [msg" in said
    assert said.count("typed:") == 1
