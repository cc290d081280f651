"""Claude Code in a pane: how it is started, what its screen means, how it reports.

All that is known about this program stands here as data, measured with version 2.1.197
(docs/agents/claude.md) and tested against recorded screens and the program itself. Its hooks come in by
`--settings FILE`: they are added to the user's own, and no file of the user's or of the worktree is touched.
In the patterns, \\u276f is the mark before the input line and before a dialog's selected row.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conductor.ports import AgentState, AgentStateName, Launch, Screen
from schemas.text import one_line
from worker.tools.files import replace_file

#: The program's hook events, and the receipt's event that each becomes. A turn that an API error ends reports
#: StopFailure instead of Stop; one that a person interrupts reports neither.
HOOKS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "PermissionRequest": "permission",
    "Stop": "stop",
    "StopFailure": "error",
    "SessionEnd": "end",
}
#: Seconds after which the program gives up on a hook; one takes about 0.03 s.
HOOK_TIMEOUT = 10

#: Who it works for, and through which door. A tmux server that ran before knows none of these.
PASS_ENV = (
    "ANTHROPIC_*",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_*",
    "CLAUDE_CODE_SKIP_*",
    "CLAUDE_CONFIG_DIR",
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NODE_EXTRA_CA_CERTS"),
)

#: A draft is cleared from its end, one row, line break or paste placeholder a key.
#: Ctrl-C does it at once, but ends the program where the draft was empty already and a second one follows.
CLEAR_KEYS = ("C-e", *["C-u"] * 24)

_RULE = re.compile(r"─{10,}(?:.*─)?")
_COMPOSER_START = re.compile(r"[\u276f!](?:[ \xa0]|$)")
_PASTE = re.compile(r"\[Pasted text #\d+(?: \+\d+ lines?)?\]")
#: What the program writes into an empty input line itself, dimmed; the cursor then stands before it.
_GHOSTS = ("Press up to edit queued messages", 'Try "')
_COMPOSER_COLUMN = 2

_BUSY_TITLE = re.compile(r"[\u2800-\u28ff]")
_BUSY_FOOTER = "esc to interrupt"
_LOGGED_OUT = "Not logged in"

_ROW = re.compile(r"\s*(\u276f)?\s*(\d+\.\s?\S.*)")
_DIFF_EDGE = re.compile(r"╌+")
_TRUST_FOOTER = "Enter to confirm"
_ASKS_FOOTERS = ("Esc to cancel", "Enter to select")
_LIMIT_ROW = "wait for limit to reset"
#: The last lines after its end, at the margin, where no text of an answer stands; the input line stays above.
_ENDED = ("Resume this session with:", "claude --resume ", "Pane is dead")

#: Faults are shown as a block of the answer: a bullet or a result mark, then these words.
_BLOCK = re.compile(r"(?:● |\s*⎿\s+)(?=\S)")
_LIMIT = re.compile(_BLOCK.pattern + r"(You've (?:hit|reached) your .*|You're out of .*|Your org is out of .*)")
_ERROR = re.compile(_BLOCK.pattern + r"(API Error\b.*|Not logged in.*|Please run /login.*|Invalid API key.*)")
_USER_LINE = re.compile(r"\u276f[ \xa0]")


@dataclass(frozen=True)
class Dialog:
    """A question on the screen: what it is about, its rows (`1. Yes`), and the row that Enter would take."""

    question: str
    subject: str
    rows: tuple[str, ...]
    selected: str | None
    footer: str


@dataclass(frozen=True)
class _Composer:
    """The input line: indexes of its two rules, its rows, and whether the cursor is in its first column."""

    top: int
    bottom: int
    rows: tuple[str, ...]
    cursor_at_start: bool

    @property
    def text(self) -> str:
        """Its rows as one line; in shell mode with the leading `!`, so that it never passes for empty."""
        first = self.rows[0]
        kept = [first if first.startswith("!") else first[1:], *self.rows[1:]]
        text = " ".join(row.replace("\xa0", " ").strip() for row in kept).strip()
        return "" if self.cursor_at_start and text.startswith(_GHOSTS) else text


def _find_composer(screen: Screen) -> _Composer | None:
    """The input line, between the last two rules of the screen; a dialog takes its place."""
    lines = screen.lines
    rules = [number for number, line in enumerate(lines) if _RULE.fullmatch(line.rstrip())]
    if len(rules) < 2:
        return None
    top, bottom = rules[-2:]
    rows = tuple(line.rstrip() for line in lines[top + 1 : bottom])
    if not rows or not _COMPOSER_START.match(rows[0]):
        return None
    if any(row and not row.startswith("  ") for row in rows[1:]):
        return None
    return _Composer(top, bottom, rows, cursor_at_start=screen.cursor[0] == _COMPOSER_COLUMN)


def read_dialog(screen: Screen) -> Dialog | None:
    """The dialog at the bottom of the screen, or None. Text that quotes one has the input line below it."""
    if _find_composer(screen) is not None:
        return None
    tail = screen.tail()
    # In a narrow pane the footer wraps, so it may begin above the last line.
    starts = [n for n, line in enumerate(tail) if line.strip().startswith((_TRUST_FOOTER, *_ASKS_FOOTERS))]
    if not starts or starts[-1] < len(tail) - 3:
        return None
    body = [line.rstrip() for line in tail[: starts[-1]]]
    found = [match for match in map(_ROW.fullmatch, body) if match]
    first = next((n for n, line in enumerate(body) if _ROW.fullmatch(line)), len(body))
    top = max((n + 1 for n, line in enumerate(body[:first]) if _RULE.fullmatch(line)), default=0)
    asked = [line.strip() for line in body[top:first] if not _DIFF_EDGE.fullmatch(line.strip())]
    question = next((line for line in reversed(asked) if line.endswith("?")), "")
    return Dialog(
        question=one_line(question),
        subject=one_line(" ".join(line for line in asked if line != question)),
        rows=tuple(one_line(match[2]) for match in found),
        selected=next((one_line(match[2]) for match in found if match[1]), None),
        footer=tail[starts[-1]].strip(),
    )


def _asks(dialog: Dialog) -> str:
    """The dialog for a person, on one line: its question and what it is about."""
    return one_line(" ".join(filter(None, (dialog.question, dialog.subject))))


def _last_fault(lines: Sequence[str]) -> AgentState | None:
    """A limit or an error that the newest answer ends with; one before other output is past."""
    newest = max((n for n, line in enumerate(lines) if _USER_LINE.match(line)), default=-1)
    answer = list(lines[newest + 1 :])
    start = max((n for n, line in enumerate(answer) if _BLOCK.match(line)), default=None)
    if start is None:
        return None
    patterns: tuple[tuple[AgentStateName, re.Pattern[str]], ...] = (("limit", _LIMIT), ("error", _ERROR))
    for name, pattern in patterns:
        match = pattern.match(answer[start])
        if match:
            wrapped = []
            for line in answer[start + 1 :]:
                if not line.startswith("  "):
                    break
                wrapped.append(line.strip())
            return AgentState(name, one_line(" ".join([match[1], *wrapped])))
    return None


class Claude:
    """The agent kind `claude` (`conductor.ports.AgentKind`)."""

    name = "claude"
    install_hint = "npm install -g @anthropic-ai/claude-code, then run `claude` once to log in"
    idle_memory_mb = 251
    has_receipts = True
    pass_env: tuple[str, ...] = PASS_ENV

    def __init__(self, program: str = "claude") -> None:
        self.program = program

    def prepare(self, launch: Launch) -> None:
        """Write the settings with the hooks into the launch's private folder, replacing the file whole."""
        hooks = {
            event: [
                {
                    "hooks": [
                        {
                            "type": "command",
                            "command": shlex.join([*launch.hook_argv, receipt]),
                            "timeout": HOOK_TIMEOUT,
                        }
                    ]
                }
            ]
            for event, receipt in HOOKS.items()
        }
        # Suggested prompts would stand in the input line like a draft.
        settings = {"hooks": hooks, "promptSuggestionEnabled": False}
        launch.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._settings(launch), json.dumps(settings, indent=2) + "\n", mode=0o600)

    def argv(self, launch: Launch) -> list[str]:
        """The command; `--` ends options that take many values, so that none swallows the prompt."""
        argv = [self.program, "--settings", str(self._settings(launch))]
        if launch.resume and _has_conversation(launch.worktree):
            argv.append("--continue")
        argv += launch.extra_args
        return argv if launch.first_prompt is None else [*argv, "--", launch.first_prompt]

    def env(self, launch: Launch) -> dict[str, str]:  # noqa: ARG002 - the port's signature
        """Its title tells busy from idle: a user's wish to leave titles alone is lifted in our panes."""
        return {"CLAUDE_CODE_DISABLE_TERMINAL_TITLE": ""}

    def classify(self, screen: Screen) -> AgentState:
        """The state that the screen shows; see docs/agents/claude.md for the screens behind each rule."""
        if any(line.startswith(_ENDED) for line in screen.tail(3)):
            return AgentState("gone")
        composer = _find_composer(screen)
        if composer is None:
            return self._without_composer(screen)
        footer = " ".join(screen.lines[composer.bottom + 1 :])
        if _BUSY_TITLE.match(screen.title) or _BUSY_FOOTER in footer:
            return AgentState("busy")
        if _LOGGED_OUT in footer:
            return AgentState("error", "not logged in: run /login in the pane")
        above = Screen(screen.lines[: composer.top]).tail()
        return _last_fault(above) or AgentState("idle")

    def _without_composer(self, screen: Screen) -> AgentState:
        tail = screen.tail()
        if not tail:
            return AgentState("starting")
        dialog = read_dialog(screen)
        if dialog is None:
            return AgentState("unknown", one_line(tail[-1]))
        if any(_LIMIT_ROW in row for row in dialog.rows):
            shown = [match[1] for match in map(_LIMIT.match, screen.lines) if match]
            return AgentState("limit", one_line(shown[-1]) if shown else _asks(dialog))
        if dialog.footer.startswith(_TRUST_FOOTER):
            return AgentState("trust", _asks(dialog))
        if dialog.selected is not None:
            return AgentState("permission", _asks(dialog))
        return AgentState("unknown", _asks(dialog))

    def composer(self, screen: Screen) -> str | None:
        """The text in the input line, its rows joined by blanks; in shell mode it begins with `!`."""
        composer = _find_composer(screen)
        return None if composer is None else composer.text

    def placeholder(self, screen: Screen) -> bool:
        """Whether a paste stands there as a placeholder: one of several lines, or of some 800 characters."""
        return bool(_PASTE.search(self.composer(screen) or ""))

    def clear_keys(self) -> tuple[str, ...]:
        """Keys that empty the input line, harmless when it is empty.

        To be sent again while text stands there: shell mode is only left by a second sending.
        """
        return CLEAR_KEYS

    def exit_line(self) -> str:
        """The line that ends the program, within 0.2 s when idle."""
        return "/exit"

    def _settings(self, launch: Launch) -> Path:
        return launch.private / f"claude-{launch.index}.json"


def _has_conversation(worktree: Path) -> bool:
    """Whether the program has one to continue here: without one, `--continue` ends it at once with an error.

    Where another version lays out its folders otherwise, the answer is no, and a new conversation begins.
    """
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    folder = home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(worktree.resolve()))
    return any(folder.glob("*.jsonl"))
