"""An agent whose usage limit is over by its own words, although its screen still shows it: it may be typed to."""

from __future__ import annotations

from conductor.ports import AgentKind, AgentState, Screen


class AfterLimit:
    """The same kind, but for one thing: a limit with an input line counts as idle."""

    def __init__(self, kind: AgentKind) -> None:
        self.kind = kind
        self.name = kind.name
        self.program = kind.program
        self.install_hint = kind.install_hint
        self.idle_memory_mb = kind.idle_memory_mb
        self.has_receipts = kind.has_receipts
        self.pass_env = kind.pass_env
        self.prepare = kind.prepare
        self.argv = kind.argv
        self.env = kind.env
        self.composer = kind.composer
        self.placeholder = kind.placeholder
        self.clear_keys = kind.clear_keys
        self.exit_line = kind.exit_line

    def classify(self, screen: Screen) -> AgentState:
        state = self.kind.classify(screen)
        return AgentState("idle") if state.name == "limit" and self.kind.composer(screen) is not None else state
