"""The adapters that a single verb needs, made as the configuration says and loaded only when asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from conductor.layout import Layout
from conductor.ports import Forge
from schemas.config import Config

if TYPE_CHECKING:
    from conductor.git.worktrees import GitWorktrees
    from conductor.panes.tmux import TmuxPanes


def panes_of(layout: Layout, config: Config) -> TmuxPanes:
    """The repository's tmux session, on the user's server or a private socket."""
    from conductor.panes.tmux import TmuxPanes, session_name

    socket = Path(config.tmux.socket).expanduser() if config.tmux.socket else None
    return TmuxPanes(
        session_name(layout.root),
        socket,
        panes_per_window=config.tmux.panes_per_window,
        receipts=layout.receipts,
    )


def worktrees_of(layout: Layout, config: Config, forge: Forge) -> GitWorktrees:
    """The repository's worktrees, against the remote that the forge is behind."""
    from conductor.git.worktrees import GitWorktrees

    return GitWorktrees(layout.root, config.model_copy(update={"remote": forge.remote_name}))
