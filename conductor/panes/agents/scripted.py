"""The scripted agent: ``worker.scripted``, a stand-in for a coding agent that costs nothing and does what it
is told.

Its screen: the input line (\\u276f, a blank, the text) is the last one, the title ends in ``idle``, ``busy``
or ``asks``, dialogs and faults are whole lines of fixed words. It records receipts by running the command in
``TASKMAESTRO_HOOK``.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

from conductor.ports import AgentState, Launch, Screen
from schemas.config import AgentConfig
from schemas.text import one_line

_TRUST = "Do you trust the files in this folder?"
_PERMISSION = "Allow this? (y/n)"
_LIMIT = re.compile(r"Usage limit reached, resets at \d\d:\d\d")
_ERROR = "Error:"
_COMPOSER = re.compile("\u276f ?(.*)")
_RULE = re.compile("\u2500{3,}")
_PLACEHOLDER = re.compile(r"\[[Pp]asted[^\]]*\]")
_LINES = 14


class ScriptedAgent:
    """``python -m worker.scripted``. The first prompt is its last argument."""

    install_hint = "It is part of this program; install that again."
    idle_memory_mb = 15
    has_receipts = True
    pass_env: tuple[str, ...] = ("TASKMAESTRO_SCRIPT",)

    def __init__(self, settings: AgentConfig) -> None:
        self.name = "scripted"
        self._command = settings.command or (sys.executable, "-P", "-m", "worker.scripted")
        self.program = self._command[0]

    def prepare(self, launch: Launch) -> None:
        """Nothing: it has no settings."""

    def argv(self, launch: Launch) -> list[str]:
        argv = [*self._command, *launch.extra_args]
        if launch.first_prompt is not None:
            argv.append(launch.first_prompt)
        return argv

    def env(self, launch: Launch) -> dict[str, str]:
        env = {"TASKMAESTRO_HOOK": json.dumps(list(launch.hook_argv))}
        spec = importlib.util.find_spec("worker")
        if spec is not None and spec.origin:
            env["PYTHONPATH"] = str(Path(spec.origin).resolve().parent.parent)
        return env

    def classify(self, screen: Screen) -> AgentState:
        tail = [line for line in screen.tail(_LINES) if not _RULE.fullmatch(line.strip())]
        lines = [line.strip() for line in tail]
        if _TRUST in lines and self.composer(screen) is None:
            return AgentState("trust", _TRUST)
        if _PERMISSION in lines and screen.title.endswith("asks"):
            return AgentState("permission", one_line(" ".join(lines[-3:])))
        if screen.title.endswith("busy"):
            return AgentState("busy")
        if self.composer(screen) is None or not screen.title.endswith("idle"):
            return AgentState("unknown", one_line(lines[-1]) if lines else "")
        above = next((line for line in reversed(lines[:-1]) if line), "")
        if _LIMIT.fullmatch(above):
            return AgentState("limit", above)
        if above.startswith(_ERROR):
            return AgentState("error", one_line(above))
        return AgentState("idle")

    def composer(self, screen: Screen) -> str | None:
        """The last line that is not a rule; the rows of a trust dialog are none."""
        lines = [line for line in screen.tail(_LINES) if not _RULE.fullmatch(line.strip())]
        found = _COMPOSER.fullmatch(lines[-1]) if lines else None
        if found is None or _TRUST in [line.strip() for line in lines[-4:]]:
            return None
        return found[1].strip()

    def placeholder(self, screen: Screen) -> bool:
        return _PLACEHOLDER.search(self.composer(screen) or "") is not None

    def clear_keys(self) -> tuple[str, ...]:
        return ("C-e", "C-u")

    def exit_line(self) -> str | None:
        return "/exit"


def make(settings: AgentConfig) -> ScriptedAgent:
    """The factory that the entry point names."""
    return ScriptedAgent(settings)
