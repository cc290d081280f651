"""What the recorded screens of Claude Code mean, and what must not be read into them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from conductor.panes.agents.claude import HOOKS, Claude, read_dialog
from conductor.ports import Launch, Screen

SCREENS = Path(__file__).parents[1] / "screens"
AGENT = Claude()

STATES = {
    "api-error-500": "idle",  # the retry succeeded: the answer stands below
    "busy": "busy",
    "busy-draft": "busy",
    "busy-queued": "busy",
    "busy-retry": "busy",
    "busy-tool": "busy",
    "busy-turn": "busy",
    "composer-draft": "idle",
    "composer-multiline": "idle",
    "composer-shell-mode": "idle",
    "error-429": "error",
    "error-500": "error",
    "idle-fresh": "idle",
    "interrupted": "idle",
    "limit": "limit",
    "limit-dialog": "limit",
    "narrow-composer": "idle",
    "narrow-permission": "permission",
    "not-logged-in": "error",
    "permission": "permission",
    "permission-bash": "permission",
    "permission-edit": "permission",
    "permission-question": "permission",
    "quoted-dialog": "idle",
    "slash-menu": "idle",
    "trust-api-key": "trust",
    "trust-bypass": "trust",
    "trust-folder": "trust",
}


def recorded(state: str, agent: str = "claude") -> Screen:
    record = json.loads((SCREENS / f"{agent}.{state}.json").read_text(encoding="utf-8"))
    column, row = map(int, record["cursor"].split(",")[:2])
    lines = tuple(line.rstrip(" ") for line in record["screen"].split("\n"))
    return Screen(lines, record["title"], (column, row))


def test_every_recorded_screen_has_an_expected_state() -> None:
    names = {path.name.removeprefix("claude.").removesuffix(".json") for path in SCREENS.glob("claude.*.json")}
    assert names == set(STATES)


@pytest.mark.parametrize(("state", "expected"), STATES.items())
def test_a_recorded_screen_is_classified(state: str, expected: str) -> None:
    assert AGENT.classify(recorded(state)).name == expected


@pytest.mark.parametrize(("state", "expected"), STATES.items())
def test_an_input_line_shows_unless_a_dialog_has_its_place(state: str, expected: str) -> None:
    dialog = expected in ("permission", "trust") or state == "limit-dialog"
    assert (AGENT.composer(recorded(state)) is None) == dialog


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("idle-fresh", ""),
        ("busy-draft", "queued draft"),
        ("composer-draft", "queued draft"),
        ("composer-multiline", "[Pasted text #1 +6 lines]"),
        ("composer-shell-mode", "!"),
        ("narrow-composer", "[msg 1] please go and do the thing that TASK.md says now [end 1]"),
        ("slash-menu", "/"),
        ("busy-queued", ""),  # "Press up to edit queued messages" is the program's own hint
    ],
)
def test_the_text_in_the_input_line(state: str, text: str) -> None:
    assert AGENT.composer(recorded(state)) == text


def test_typed_text_that_equals_a_hint_is_no_hint() -> None:
    shown = recorded("busy-queued")
    typed = Screen(shown.lines, shown.title, (34, shown.cursor[1]))
    assert AGENT.composer(typed) == "Press up to edit queued messages"


def test_a_paste_placeholder_is_recognised() -> None:
    assert [state for state in STATES if AGENT.placeholder(recorded(state))] == ["composer-multiline"]


@pytest.mark.parametrize(
    ("state", "selected"),
    [
        ("trust-folder", "1. Yes, I trust this folder"),
        ("trust-api-key", "2. No (recommended)"),
        ("trust-bypass", "1. No, exit"),
        ("permission", "1. Yes"),
        ("narrow-permission", "1. Yes"),
        ("permission-question", "1. Red"),
        ("limit-dialog", "1. Stop and wait for limit to reset"),
    ],
)
def test_the_selected_row_of_a_dialog_is_read(state: str, selected: str) -> None:
    dialog = read_dialog(recorded(state))
    assert dialog is not None
    assert dialog.selected == selected
    assert selected in dialog.rows


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("permission-bash", "Do you want to proceed? Bash command echo hi > a.txt"),
        ("permission", 'Do you want to create RESULT.json? Create file RESULT.json 1 {"status"'),
        ("trust-folder", "Accessing workspace: /srv/demo"),
        ("limit", "You've hit your session limit · resets 5:06pm (UTC)"),
        ("limit-dialog", "You've hit your session limit · resets 5:06pm (UTC)"),
        ("error-429", "API Error: Request rejected (429)"),
        ("error-500", "API Error: 500"),
        ("not-logged-in", "not logged in: run /login"),
    ],
)
def test_the_detail_tells_a_person_what_is_wanted(state: str, words: str) -> None:
    detail = AGENT.classify(recorded(state)).detail
    assert detail.startswith(words)
    assert "╌" not in detail


def test_a_dialog_that_an_answer_quotes_is_none() -> None:
    shown = recorded("quoted-dialog")
    assert any("1. Yes" in line for line in shown.lines)
    assert read_dialog(shown) is None


def test_an_error_before_newer_output_is_past() -> None:
    shown = recorded("error-500")
    place = next(n for n, line in enumerate(shown.lines) if "API Error: 500" in line)
    after = (*shown.lines[: place + 2], "", "● Going on.", *shown.lines[place + 2 :])
    assert AGENT.classify(Screen(after, shown.title, shown.cursor)).name == "idle"


def test_rules_in_an_answer_are_not_the_input_line() -> None:
    shown = recorded("composer-draft")
    above = ("─" * 60, "\u276f an older line", "─" * 60)
    assert AGENT.composer(Screen((*above, *shown.lines), shown.title, shown.cursor)) == "queued draft"


def test_busy_is_seen_without_a_title() -> None:
    shown = recorded("busy-turn")
    assert AGENT.classify(Screen(shown.lines, "host", shown.cursor)).name == "busy"


def test_a_blank_screen_is_starting_and_a_strange_one_unknown() -> None:
    assert AGENT.classify(Screen(("", ""))).name == "starting"
    assert AGENT.classify(Screen(("panic: something else",))).name == "unknown"
    assert AGENT.classify(Screen(("Resume this session with:", "claude --resume 0-0"))).name == "gone"


def test_a_menu_without_rows_is_never_taken_for_a_permission() -> None:
    lines = ("─" * 80, "  Rewind", "", "  Nothing to rewind to yet.", "", "  Esc to cancel")
    assert AGENT.classify(Screen(lines, "✳ Claude Code")).name == "unknown"


@pytest.mark.parametrize("agent", ["codex", "opencode", "gemini", "qwen", "pi", "aider"])
def test_screens_of_other_programs_are_not_taken_for_a_dialog(agent: str) -> None:
    for path in SCREENS.glob(f"{agent}.*.json"):
        state = path.name.split(".")[1]
        assert AGENT.classify(recorded(state, agent)).name not in ("permission", "trust", "limit"), path.name


def launch(tmp_path: Path, *, resume: bool = False, prompt: str | None = "[msg 1] go [end 1]") -> Launch:
    hook = ("/opt/my python", "-I", "hook.py")
    return Launch(3, tmp_path / "tree", tmp_path / "private", hook, prompt, ("--allowedTools", "Edit"), resume)


def test_the_prompt_comes_last_and_no_option_can_swallow_it(tmp_path: Path) -> None:
    argv = AGENT.argv(launch(tmp_path))
    assert argv[0] == "claude"
    assert argv[-4:] == ["--allowedTools", "Edit", "--", "[msg 1] go [end 1]"]
    assert AGENT.argv(launch(tmp_path, prompt=None))[-1] == "Edit"


def test_the_settings_hold_every_hook_and_lie_outside_the_worktree(tmp_path: Path) -> None:
    how = launch(tmp_path)
    AGENT.prepare(how)
    AGENT.prepare(how)
    path = Path(AGENT.argv(how)[2])
    assert list(how.private.iterdir()) == [path]
    assert path.stat().st_mode & 0o077 == 0
    hooks = json.loads(path.read_text(encoding="utf-8"))["hooks"]
    commands = {event: shlex.split(rules[0]["hooks"][0]["command"]) for event, rules in hooks.items()}
    assert commands == {event: [*how.hook_argv, receipt] for event, receipt in HOOKS.items()}


def test_resuming_needs_a_conversation_to_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    assert "--continue" not in AGENT.argv(launch(tmp_path, resume=True))
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str((tmp_path / "tree").resolve()))
    folder = tmp_path / "config" / "projects" / name
    folder.mkdir(parents=True)
    (folder / "0.jsonl").touch()
    assert "--continue" in AGENT.argv(launch(tmp_path, resume=True))
    assert "--continue" not in AGENT.argv(launch(tmp_path))
