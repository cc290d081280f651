"""The adapters that a single verb needs, made as the configuration says and loaded only when asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from conductor.layout import Layout
from conductor.ports import Forge
from schemas.config import Config

if TYPE_CHECKING:
    from conductor.git.worktrees import GitWorktrees
    from conductor.panes.tmux import TmuxPanes


def panes_of(layout: Layout, config: Config) -> TmuxPanes:
    """The repository's tmux session: on a private socket, on the server where it lives, else on the user's."""
    from conductor.panes.tmux import TmuxPanes, session_name
    from conductor.panes.whereabouts import socket_of

    session = session_name(layout.root)
    socket = Path(config.tmux.socket).expanduser() if config.tmux.socket else None
    return TmuxPanes(
        session,
        socket or socket_of(layout.tmux_socket, session, os.environ),
        panes_per_window=config.tmux.panes_per_window,
        receipts=layout.receipts,
    )


def worktrees_of(layout: Layout, config: Config, forge: Forge) -> GitWorktrees:
    """The repository's worktrees, against the remote that the forge is behind."""
    from conductor.git.worktrees import GitWorktrees

    return GitWorktrees(layout.root, config.model_copy(update={"remote": forge.remote_name}))
