"""The scripted agent in a real tmux pane: its screen, its dialogs, its receipts, its faults."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.repos import git
from tests.support.tmux_server import tmux
from tests.support.waiting import wait_until
from tests.worker.conftest import World

ROOT = Path(__file__).resolve().parents[2]
RECORD = """
import json, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([sys.argv[2], json.load(sys.stdin)]) + "\\n")
"""
SIGN = "\u276f"


@dataclass
class Pane:
    """The one pane of a private tmux server, with the agent in it."""

    socket: Path
    hooks: Path

    def lines(self) -> list[str]:
        shown = tmux(self.socket, "capture-pane", "-p", "-J").stdout
        return [line.rstrip() for line in shown.splitlines() if line.strip()]

    def title(self) -> str:
        return tmux(self.socket, "display-message", "-p", "#{pane_title}").stdout.strip()

    def composer(self) -> str | None:
        lines = self.lines()
        if len(lines) < 3 or set(lines[-1]) != {"─"} or not lines[-2].startswith(SIGN):
            return None
        return lines[-2][1:].strip()

    def keys(self, *names: str) -> None:
        assert tmux(self.socket, "send-keys", *names).returncode == 0

    def paste(self, text: str) -> None:
        tmux(self.socket, "set-buffer", "-b", "b", "--", text)
        tmux(self.socket, "paste-buffer", "-p", "-d", "-b", "b")

    def sees(self, text: str) -> None:
        wait_until(lambda: any(text in line for line in self.lines()), what=f"{text!r} in {self.lines()}")

    def idle(self) -> None:
        wait_until(lambda: self.title() == "scripted: idle" and self.composer() is not None, what="idle")

    def send(self, text: str) -> None:
        self.idle()
        self.paste(text)
        wait_until(lambda: self.composer() not in ("", None), what="the paste")
        self.keys("Enter")

    def dead(self) -> str:
        flags = tmux(self.socket, "display-message", "-p", "#{pane_dead} #{pane_dead_status}").stdout
        return flags.strip() if flags.startswith("1 ") else ""

    def events(self) -> list[tuple[str, str]]:
        if not self.hooks.exists():
            return []
        rows = [json.loads(line) for line in self.hooks.read_text().splitlines()]
        return [(event, data.get("prompt", "")) for event, data in rows]


Start = Callable[..., Pane]


@pytest.fixture
def start(private_tmux: Path, world: World, tmp_path: Path) -> Start:
    """Start the agent in the world's worktree with this script and prompt."""

    def begin(script: dict[str, object], *prompt: str, width: int = 80) -> Pane:
        (tmp_path / "script.json").write_text(json.dumps(script))
        hooks = tmp_path / "hooks"
        hook = json.dumps([sys.executable, "-I", "-S", "-c", RECORD, str(hooks)])
        argv = [
            sys.executable,
            "-P",
            "-m",
            "worker.scripted",
            "--script",
            str(tmp_path / "script.json"),
            *prompt,
        ]
        tmux(
            private_tmux,
            *("new-session", "-d", "-x", str(width), "-y", "24", "-c", str(world.tree)),
            *(
                "-e",
                f"PYTHONPATH={tmp_path / 'fake'}:{ROOT}",
                "-e",
                f"FAKE_PR_LOG={world.log}",
                "-e",
                f"TASKMAESTRO_HOOK={hook}",
            ),
            "stty sane; "
            + shlex.join(argv)
            + '; code=$?; stty -a | grep -q " icanon" && echo "left $code"; exec sleep 600',
        )
        return Pane(private_tmux, hooks)

    return begin


LINE = "[msg 3] Read TASK.md in this folder and do what it says. [end 3]"


def test_idle_busy_idle_and_receipts(start: Start) -> None:
    pane = start({"turns": [{"steps": [{"say": "Working"}, {"wait": 1.0}, {"say": "Finished"}]}]})
    pane.idle()
    assert pane.composer() == ""
    pane.send("do it")
    pane.sees("Working")
    assert pane.title() == "scripted: busy"
    assert pane.composer() is None
    pane.sees("Finished")
    pane.idle()
    wait_until(lambda: pane.events() == [("prompt", "do it"), ("stop", "")], what=f"{pane.events()}")


def test_a_prompt_on_the_command_line_is_the_first_turn(start: Start, world: World) -> None:
    world.task("first", nonce="n-9")
    pane = start({"turns": [{"task": "first", "steps": [{"say": "nonce {{nonce}} issue {{issue}}"}]}]}, LINE)
    pane.sees("nonce n-9 issue 7")
    pane.idle()
    assert pane.events()[0] == ("prompt", LINE)


@pytest.mark.parametrize("width", [40, 62, 63, 64, 65, 66, 67, 68, 100])
def test_a_line_longer_than_the_pane_is_shown_whole_and_taken_whole(start: Start, width: int) -> None:
    pane = start({"turns": [{"steps": [{"say": "Got it"}]}]}, width=width)
    pane.idle()
    line = LINE.replace("TASK.md", "TASK.txt")
    pane.paste(line)
    wait_until(lambda: pane.composer() == line, what=f"the line, not {pane.lines()}")
    pane.keys("C-u")
    wait_until(lambda: pane.composer() == "", what="an empty composer")
    assert sum(set(shown) == {"─"} for shown in pane.lines()) == 2
    pane.send(line)
    pane.sees("Got it")
    pane.idle()
    assert pane.events()[0] == ("prompt", line)


def test_a_resize_redraws_and_keeps_the_text(start: Start) -> None:
    pane = start({})
    pane.idle()
    pane.paste("x" * 90 + " end")
    pane.sees("end")
    tmux(pane.socket, "resize-window", "-x", "50", "-y", "20")
    wait_until(lambda: any(line == "─" * 49 for line in pane.lines()), what=f"rules of 49: {pane.lines()}")
    wait_until(lambda: pane.composer() == "x" * 90 + " end", what=f"the text: {pane.lines()}")
    tmux(pane.socket, "resize-window", "-x", "120", "-y", "20")
    wait_until(lambda: any(line == "─" * 119 for line in pane.lines()), what=f"rules of 119: {pane.lines()}")
    assert sum(set(shown) == {"─"} for shown in pane.lines()) == 2
    assert pane.composer() == "x" * 90 + " end"


def test_pasted_lines_show_a_placeholder_and_control_characters_are_dropped(start: Start) -> None:
    pane = start({"turns": [{"steps": [{"say": "ok"}]}]})
    pane.idle()
    pane.paste("one\ntwo\x07\nthree")
    wait_until(lambda: pane.composer() == "[Pasted text +2 lines]", what="the placeholder")
    pane.keys("Enter")
    pane.sees("ok")
    wait_until(lambda: ("prompt", "one\ntwo\nthree") in pane.events(), what=f"{pane.events()}")


def test_a_torn_prompt_is_an_error_and_runs_nothing(start: Start) -> None:
    pane = start({"turns": [{"steps": [{"say": "ran"}]}]})
    pane.send("[msg 3] Read TASK.md in this")
    pane.sees("Error: the prompt is torn")
    pane.idle()
    assert not any("ran" in line for line in pane.lines())


def test_leave_is_asked_for_and_enter_alone_grants_it(start: Start) -> None:
    steps = [{"ask": "rm -r build"}, {"say": "went on"}]
    pane = start({"turns": [{"steps": steps}, {"steps": steps}]})
    pane.send("go")
    pane.sees("Allow this? (y/n)")
    wait_until(lambda: pane.title() == "scripted: asks", what="the title")
    wait_until(lambda: pane.events()[-1][0] == "permission", what="the receipt")
    pane.keys("n")
    pane.sees("Denied.")
    pane.send("again")
    wait_until(lambda: pane.title() == "scripted: asks", what="the title")
    pane.keys("Enter")
    pane.sees("went on")


def test_trust_is_preselected_no(start: Start) -> None:
    pane = start({"options": {"trust": True}})
    pane.sees("Do you trust the files in this folder?")
    assert pane.lines()[1:] == [f"{SIGN} 1. No", "  2. Yes"]
    assert pane.title() == "scripted: asks"
    pane.keys("Down")
    pane.sees(f"{SIGN} 2. Yes")
    pane.keys("Enter")
    pane.idle()


def test_a_blind_enter_at_the_trust_dialog_ends_it(start: Start) -> None:
    pane = start({"options": {"trust": True}})
    pane.sees("Do you trust")
    pane.keys("Enter")
    pane.sees("left 1")


def test_a_draft_stands_in_the_composer_and_ctrl_u_clears_it(start: Start) -> None:
    pane = start({"options": {"draft": "half a thought"}})
    pane.idle()
    assert pane.composer() == "half a thought"
    pane.keys("C-u")
    wait_until(lambda: pane.composer() == "", what="an empty composer")


def test_an_enter_right_after_a_paste_can_be_lost(start: Start) -> None:
    pane = start({"options": {"drop_enter_ms": 400}, "turns": [{"steps": [{"say": "ran"}]}]})
    pane.idle()
    pane.paste("do it")
    pane.keys("Enter")
    pasted = time.monotonic()
    wait_until(lambda: pane.composer() == "do it" and time.monotonic() - pasted > 0.5, what="the text still there")
    pane.keys("Enter")
    pane.sees("ran")


def test_errors_and_limits_stand_above_an_idle_composer(start: Start) -> None:
    pane = start({"turns": [{"steps": [{"error": "500 from the API"}]}, {"steps": [{"limit": "14:30"}]}]})
    pane.send("a")
    pane.sees("Error: 500 from the API")
    pane.idle()
    assert pane.lines()[-4] == "Error: 500 from the API"
    pane.send("b")
    pane.sees("Usage limit reached, resets at 14:30")
    pane.idle()
    assert pane.lines()[-4] == "Usage limit reached, resets at 14:30"


def test_exit_gives_the_terminal_back(start: Start) -> None:
    pane = start({})
    pane.send("/exit")
    pane.sees("left 0")
    assert pane.composer() is None


def test_it_dies_at_the_turn_that_was_asked_for_and_remembers_it(start: Start, tmp_path: Path) -> None:
    script = {"options": {"die_at_turn": 1, "memory": str(tmp_path / "m")}, "turns": [{"steps": []}]}
    pane = start(script)
    pane.send("a")
    pane.sees("left 70")
    assert json.loads((tmp_path / "m" / "wt-1.json").read_text()) == {"turn": 1, "used": [0]}


def test_a_silent_turn_stays_busy(start: Start) -> None:
    pane = start({"turns": [{"steps": [{"say": "hm"}, {"silent": True}]}]})
    pane.send("a")
    pane.sees("hm")
    pane.keys("C-c")
    assert pane.title() == "scripted: busy"
    pid = tmux(pane.socket, "display-message", "-p", "#{pane_pid}").stdout.strip()
    child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    os.kill(int(child), signal.SIGTERM)
    pane.sees("left 143")


def test_half_a_result_is_written_in_place_and_finished_later(start: Start, world: World) -> None:
    text = json.dumps({"status": "failure", "error": "x" * 300})
    pane = start({"turns": [{"steps": [{"half": {"text": text, "finish_after": 0.5}}]}, {"steps": [{"half": {}}]}]})
    pane.send("a")
    pane.sees("Wrote half")
    path = world.tree / "RESULT.json"
    wait_until(lambda: path.read_text() == text, what="the whole")
    pane.send("b")
    wait_until(lambda: 0 < len(path.read_text()) < len(text), what="half of another")
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(path.read_text())


def test_it_works_with_real_git_and_files(start: Start, world: World) -> None:
    steps = [
        {"write": {"path": "src/a.py", "text": "one = 1\n"}},
        {"replace": {"path": "src/a.py", "old": "1", "new": "2"}},
        {"git": ["add", "src/a.py"]},
        {"git": ["commit", "-qm", "Add a"]},
        {"run": ["cat", "src/a.py"]},
        {"result": {"status": "success", "pr_number": 99, "nonce": "{{nonce}}"}},
    ]
    pane = start({"turns": [{"task": "first", "steps": steps}]}, LINE)
    pane.sees("one = 2")
    pane.idle()
    assert git(world.tree, "show", "HEAD:src/a.py") == "one = 2"
    assert world.result() == {"status": "success", "pr_number": 99, "nonce": "n-1"}


def test_ship_and_report_steps_call_the_verbs(start: Start, world: World) -> None:
    steps = [
        {"ship": {"amend": True, "title": "T {{issue}}", "body": "Closes #{{issue}}"}},
        {"report": {"kind": "failure", "error": "it's no use"}},
        {"report": {"kind": "success", "pr": 999}},
    ]
    pane = start({"turns": [{"task": "first", "steps": steps}]}, LINE)
    pane.idle()
    ship, failure, lie = world.pr_calls()
    assert ship[:3] == ["ship", "--title=T 7", "--amend"]
    assert ship[3].startswith("--body-file=")
    assert failure == ["report", "failure", "--error=it's no use"]
    assert lie == ["report", "success", "--pr=999"]


def test_a_failing_step_ends_the_turn_with_an_error(start: Start) -> None:
    pane = start({"turns": [{"steps": [{"run": ["sh", "-c", "echo why; exit 3"]}, {"say": "went on"}]}]})
    pane.send("a")
    pane.sees("Error: sh: exit code 3")
    pane.idle()
    assert "  why" in pane.lines()
    assert not any("went on" in line for line in pane.lines())
