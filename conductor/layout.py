"""Where things are in a managed repository (docs/contracts.md, "Files in a managed repository")."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths below ``<root>/.taskmaestro``; ``root`` is the main checkout, absolute."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / ".taskmaestro"

    @property
    def config(self) -> Path:
        return self.home / "config.toml"

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def journal(self) -> Path:
        return self.state / "journal.jsonl"

    @property
    def lock(self) -> Path:
        return self.state / "conductor.lock"

    @property
    def panes(self) -> Path:
        return self.state / "panes"

    @property
    def inbox(self) -> Path:
        return self.state / "inbox"

    @property
    def tmux_socket(self) -> Path:
        """Which tmux server the session lives on."""
        return self.state / "tmux-socket"

    @property
    def quarantine(self) -> Path:
        return self.state / "quarantine"

    @property
    def receipts(self) -> Path:
        return self.state / "receipts"

    @property
    def agents(self) -> Path:
        """Settings files that agent kinds write, one folder a pane."""
        return self.state / "agents"

    def worktree(self, index: int) -> Path:
        return self.home / f"wt-{index}"

    def pane_file(self, index: int) -> Path:
        return self.panes / f"{index}.json"

    def receipts_of(self, index: int) -> Path:
        return self.receipts / f"pane-{index}.jsonl"
