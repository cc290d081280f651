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
    def turn(self) -> Path:
        """Held by the verb that is making or taking away panes."""
        return self.state / "turn.lock"

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

    @property
    def budget(self) -> Path:
        """What is left of the forge's rate limit, as the conductor's last question told it."""
        return self.state / "forge-budget.json"

    @property
    def reviews(self) -> Path:
        """What the conductor's reviews say of themselves, one file a pull request."""
        return self.state / "reviews"

    def review_file(self, number: int) -> Path:
        return self.reviews / f"pr-{number}.json"

    def checkpoint(self, repo: str, number: int) -> Path:
        """The outer loop's checkpoint; ``repo`` is ``owner/name``."""
        return self.state / "checkpoints" / repo / f"pr-{number}.json"

    def watch_lock(self, repo: str, number: int) -> Path:
        """Held by the one process that watches this pull request."""
        return self.state / "watches" / repo / f"pr-{number}.lock"

    def validation(self, head: str) -> Path:
        """The record that the battery passed for exactly this commit."""
        return self.state / "validations" / f"{head}.json"

    def worktree(self, index: int) -> Path:
        return self.home / f"wt-{index}"

    def pane_file(self, index: int) -> Path:
        return self.panes / f"{index}.json"

    def receipts_of(self, index: int) -> Path:
        return self.receipts / f"pane-{index}.jsonl"
