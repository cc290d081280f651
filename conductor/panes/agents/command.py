"""Any program as an agent: what its screen means is said by patterns in ``[agents.NAME]``.

Without an ``idle`` pattern nothing is ever typed into it: it gets its first prompt on the command line, and
that is all. Patterns are searched in each of the screen's last lines; a permission is looked for first, then
busy, then idle.
"""

from __future__ import annotations

import re

from conductor.ports import AgentState, Launch, Screen
from schemas.config import AgentConfig
from schemas.errors import BadInput
from schemas.text import one_line

_LINES = 14


def _pattern(name: str, text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise BadInput(
            f"[agents]: the pattern `{name}` is no regular expression: {error}", f"It reads: {one_line(text)}"
        ) from error
    if name == "composer" and pattern.groups < 1:
        raise BadInput("[agents]: the pattern `composer` has no group", "Put the input text into parentheses.")
    return pattern


class CommandAgent:
    """An agent program that is described in the configuration only. It records no receipts."""

    install_hint = "Install it, or correct `command` of this agent in the configuration."
    idle_memory_mb = 200
    has_receipts = False
    pass_env: tuple[str, ...] = ()

    def __init__(self, settings: AgentConfig) -> None:
        if not settings.command:
            raise BadInput(
                "[agents]: an agent of kind `command` has no command",
                'Add `command = ["program", "argument"]`.',
            )
        self.name = "command"
        self.program = settings.command[0]
        self._settings = settings
        self._idle = _pattern("idle", settings.idle)
        self._busy = _pattern("busy", settings.busy)
        self._permission = _pattern("permission", settings.permission)
        self._composer = _pattern("composer", settings.composer)

    def prepare(self, launch: Launch) -> None:
        """Nothing: such an agent has no settings that are known."""

    def argv(self, launch: Launch) -> list[str]:
        argv = [*(self._settings.command or ()), *launch.extra_args]
        if launch.first_prompt is not None and self._settings.prompt == "argument":
            argv.append(launch.first_prompt)
        return argv

    def env(self, launch: Launch) -> dict[str, str]:  # noqa: ARG002 - the port's signature
        return {}

    def classify(self, screen: Screen) -> AgentState:
        tail = screen.tail(_LINES)
        asked = _found(tail, self._permission)
        if asked is not None:
            return AgentState("permission", one_line(asked))
        if _found(tail, self._busy) is not None:
            return AgentState("busy")
        if _found(tail, self._idle) is not None:
            return AgentState("idle")
        return AgentState("unknown", one_line(tail[-1]) if tail else "")

    def composer(self, screen: Screen) -> str | None:
        if self._composer is None:
            return None
        for line in reversed(screen.tail(_LINES)):
            found = self._composer.search(line)
            if found:
                return (found[1] or "").strip()
        return None

    def placeholder(self, screen: Screen) -> bool:  # noqa: ARG002 - the port's signature
        return False

    def clear_keys(self) -> tuple[str, ...]:
        return ("C-e", "C-u")

    def exit_line(self) -> str | None:
        return self._settings.exit


def _found(lines: tuple[str, ...], pattern: re.Pattern[str] | None) -> str | None:
    if pattern is None:
        return None
    return next((line for line in reversed(lines) if pattern.search(line)), None)


def make(settings: AgentConfig) -> CommandAgent:
    """The factory that the entry point names."""
    return CommandAgent(settings)
