"""The real Claude Code in a private tmux server, against a scripted model: what its signs are worth."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from conductor.panes.agents.claude import Claude, read_dialog
from tests.support.claude_world import CLAUDE, MISSING, World, seed
from tests.support.model_server import ModelServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(CLAUDE is None, reason=MISSING)

FREE = ("--allowedTools=Bash,Edit,Write",)
MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(tmp_path: Path, private_tmux: Path) -> Iterator[MakeWorld]:
    """Make the world of a test: the model's script, and what was answered beforehand."""
    with ExitStack() as servers:

        def make(script: Sequence[Mapping[str, Any]] = (), *, trust: bool = True, key: bool = True) -> World:
            server = servers.enter_context(ModelServer(script))
            world = World(tmp_path, private_tmux, server, Claude(str(CLAUDE)))
            world.worktree.mkdir()
            subprocess.run(["git", "init", "-q", str(world.worktree)], check=True)
            (world.worktree / "TASK.md").write_text("Write a.py.\n", encoding="utf-8")
            seed(world.home, trusted=[world.worktree] if trust else [], key_approved=key)
            return world

        yield make


def status(world: World) -> list[str]:
    command = ["git", "-C", str(world.worktree), "status", "--short", "-uall", "--ignored"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_first_prompt_runs_once_and_the_agent_works_by_its_own_tools(make_world: MakeWorld) -> None:
    steps = [
        {"read": "TASK.md"},
        {"write": ["a.py", "x = 1\n"]},
        {"edit": ["a.py", "1", "2"]},
        {"bash": "git add a.py"},
        {"text": "Shipped."},
    ]
    world = make_world([{"when": "[msg 1]", "steps": steps}])
    terminal = world.run("[msg 1] Read TASK.md and do it. [end 1]", args=FREE)
    world.wait_for_receipt("stop")
    world.wait_for_state(terminal, "idle")

    assert world.receipts() == [("start", None), ("prompt", "1"), ("stop", None)]
    assert world.server.prompts() == ("[msg 1] Read TASK.md and do it. [end 1]",)
    assert "Write a.py." in world.server.main_calls()[-1].results[0]
    assert (world.worktree / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    # Neither settings nor anything else of ours was put into the worktree or the user's configuration.
    assert status(world) == ["A  a.py", "?? TASK.md"]
    assert not (world.home / ".claude" / "settings.json").exists()


def test_a_pasted_prompt_leaves_a_receipt_and_signs_in_it_are_harmless(make_world: MakeWorld) -> None:
    world = make_world([{"when": "[msg 2]", "steps": [{"text": "Seen.", "slow": 0.5}]}])
    terminal = world.run()
    world.wait_for_state(terminal, "idle")
    assert world.agent.composer(terminal.screen) == ""

    text = "[msg 2] /exit !touch bang # - @TASK.md ; \\ [end 2]"
    world.submit(terminal, text)
    world.wait_for_receipt("prompt", "2")
    world.wait_for_state(terminal, "busy", 5)
    world.wait_for_receipt("stop")
    world.wait_for_state(terminal, "idle")
    assert world.agent.composer(terminal.screen) == ""
    assert world.server.prompts() == (text,)
    assert not (world.worktree / "bang").exists()
    assert not terminal.dead


def test_a_permission_dialog_is_seen_and_an_interrupted_turn_leaves_no_stop(make_world: MakeWorld) -> None:
    world = make_world([{"when": "[msg 1]", "steps": [{"bash": "touch asked"}, {"text": "ok"}]}])
    terminal = world.run("[msg 1] go [end 1]")
    world.wait_for_receipt("permission")
    detail = world.wait_for_state(terminal, "permission")
    assert detail.startswith("Do you want to proceed? Bash command touch asked")
    dialog = read_dialog(terminal.screen)
    assert dialog is not None
    assert dialog.selected == "1. Yes"
    assert world.agent.composer(terminal.screen) is None

    terminal.keys("Escape")
    world.wait_for_state(terminal, "idle")
    terminal.tmux("kill-session")
    world_ended = ("end", None)
    wait_until(lambda: world_ended in world.receipts(), 10, "the end receipt")
    assert ("stop", None) not in world.receipts()
    assert not (world.worktree / "asked").exists()


def test_first_run_dialogs_are_trust_and_nothing_is_submitted_behind_them(make_world: MakeWorld) -> None:
    world = make_world([{"when": "[msg 1]", "steps": [{"text": "ok"}]}], trust=False, key=False)
    terminal = world.run("[msg 1] go [end 1]")
    assert str(world.worktree) in world.wait_for_state(terminal, "trust")
    dialog = read_dialog(terminal.screen)
    assert dialog is not None
    assert dialog.selected == "1. Yes, I trust this folder"
    terminal.keys("Enter")

    wait_until(lambda: "API key" in world.agent.classify(terminal.screen).detail, 10, "the question about the key")
    assert world.agent.classify(terminal.screen).name == "trust"
    dialog = read_dialog(terminal.screen)
    assert dialog is not None
    assert dialog.selected == "2. No (recommended)"
    assert world.server.prompts() == ()
    assert world.receipts() == []

    terminal.keys("Up")
    wait_until(lambda: (d := read_dialog(terminal.screen)) and d.selected == "1. Yes", 5, "the other row")
    terminal.keys("Enter")
    world.wait_for_receipt("prompt", "1")
    world.wait_for_receipt("stop")


def test_an_api_error_ends_the_turn_with_an_error_receipt(make_world: MakeWorld) -> None:
    world = make_world([{"when": "[msg 1]", "steps": [{"fail": 500}]}])
    terminal = world.run("[msg 1] go [end 1]")
    world.wait_for_receipt("error")
    assert world.wait_for_state(terminal, "error").startswith("API Error: 500")
    assert ("stop", None) not in world.receipts()


def test_a_usage_limit_is_seen_with_its_reset_time(make_world: MakeWorld) -> None:
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(time.time()) + 7200),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    world = make_world([{"when": "[msg 1]", "steps": [{"fail": 429, "headers": headers}]}])
    # Limits are told to subscribers only: a dummy token in place of the dummy key.
    world.more_env = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "scripted"}
    terminal = world.run("[msg 1] go [end 1]")
    world.wait_for_receipt("error")
    assert "hit your session limit · resets" in world.wait_for_state(terminal, "limit")


def test_a_draft_is_cleared_by_the_keys_and_shell_mode_left(make_world: MakeWorld) -> None:
    world = make_world()
    terminal = world.run()
    world.wait_for_state(terminal, "idle")

    def cleared_within(sendings: int) -> bool:
        """Send the keys until the input line is empty; each time, give the program a moment to draw."""
        for _ in range(sendings):
            terminal.keys(*world.agent.clear_keys())
            with suppress(AssertionError):
                wait_until(lambda: world.agent.composer(terminal.screen) == "", 1, "an empty input line")
                return True
        return False

    def draft_shows(draft: str) -> None:
        wait_until(lambda: world.agent.composer(terminal.screen) == draft, 5, f"the draft {draft!r}")

    terminal.keys("-l", "--", "one")
    for line in ("two", "three"):
        terminal.keys("-l", "--", "\\")
        terminal.keys("Enter")
        terminal.keys("-l", "--", line)
    draft_shows("one two three")
    assert cleared_within(1)

    terminal.keys("-l", "--", "!")
    draft_shows("!")
    terminal.keys("-l", "--", "rm x")
    draft_shows("! rm x")
    assert cleared_within(2)

    terminal.paste("\n".join(f"line {number}" for number in range(9)))
    wait_until(lambda: world.agent.placeholder(terminal.screen), 5, "the placeholder")
    assert cleared_within(1)
    assert world.server.prompts() == ()


def test_it_ends_by_its_exit_line_and_continues_its_conversation(make_world: MakeWorld) -> None:
    world = make_world()
    terminal = world.run("[msg 1] first [end 1]", resume=True)  # nothing to resume yet: it starts all the same
    world.wait_for_receipt("stop")
    world.wait_for_state(terminal, "idle")
    world.submit(terminal, world.agent.exit_line())
    wait_until(lambda: terminal.dead, 10, "the program's end")
    assert world.receipts()[-1] == ("end", None)
    assert world.agent.classify(terminal.screen).name == "gone"
    terminal.tmux("kill-server")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(world.home))
        world.run("[msg 2] second [end 2]", resume=True)
    world.wait_for_receipt("stop", count=2)
    assert world.server.prompts() == ("[msg 1] first [end 1]", "[msg 2] second [end 2]")
    assert "[msg 1] first" in world.server.main_calls("[msg 2]")[0].surroundings


def test_the_users_own_hooks_go_on_working(make_world: MakeWorld) -> None:
    world = make_world()
    folder = world.home / ".claude"
    folder.mkdir()
    hook = '{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch ~/own"}]}]}}'
    (folder / "settings.json").write_text(hook, encoding="utf-8")
    world.run("[msg 1] go [end 1]")
    world.wait_for_receipt("prompt", "1")
    wait_until((world.home / "own").exists, 5, "the user's own hook")
    assert (folder / "settings.json").read_text(encoding="utf-8") == hook
