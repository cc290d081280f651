"""``taskmaestro cleanup``: remove worktrees and panes, and never any work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from conductor import inbox
from conductor.cli.context import find_context
from conductor.cli.output import answer, note
from conductor.cli.stop import stop_conductor
from conductor.journal import holder
from conductor.layout import Layout
from conductor.ports import AgentKind, Panes, Worktrees
from schemas.errors import BadInput, NotSo
from schemas.events import PaneRemoved
from schemas.text import clean

_TAKEN_WAIT = 10.0


@click.command(
    "cleanup", short_help="Remove worktrees without losing work", epilog="Example: taskmaestro cleanup --pane 2 --force"
)
@click.option("--pane", "only", type=click.IntRange(1), multiple=True, help="Only this pane; can be repeated.")
@click.option("--force", is_flag=True, help="Keep unsaved work under a recovery ref first, then remove.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(only: tuple[int, ...], force: bool, as_json: bool) -> None:
    """Remove the workers' worktrees, branches and panes.

    Without --force it refuses, and lists why, where uncommitted, untracked, precious ignored or unpushed work would be
    lost. With --force everything is first kept under a recovery ref, and the way back is printed. Work that was
    merged, also by squash, counts as saved.
    """
    from conductor.git.worktrees import GitWorktrees
    from conductor.loop.adapters import panes_of
    from conductor.loop.bring_up import worktree_indexes
    from conductor.panes.agents import agent_kinds

    context = find_context()
    layout, config = Layout(context.root), context.config
    worktrees = GitWorktrees(layout.root, config)
    there = worktree_indexes(layout.home)
    unknown = sorted(set(only) - set(there))
    if unknown:
        raise BadInput(f"pane {unknown[0]} has no worktree", f"There are: {', '.join(map(str, there)) or 'none'}.")
    chosen = sorted(set(only)) or there
    if not force:
        _refuse_at_risk(worktrees, chosen)
    panes = panes_of(layout, config)
    if set(chosen) == set(there):
        stop_conductor(layout)
    removed: dict[str, str | None] = {}
    for index in chosen:
        _end_pane(layout, panes, agent_kinds(config), index)
        removed[str(index)] = worktrees.remove(index, force=force)
        layout.pane_file(index).unlink(missing_ok=True)
    if set(chosen) == set(there):
        _end_session(panes)
    panes.close()
    for name, ref in removed.items():
        if ref is not None:
            note(f"pane {name}: kept under {ref}; get it back with `git worktree add ../rescued-{name} {ref}`")
    answer(
        {"removed": removed},
        as_json=as_json,
        text=f"Removed {len(removed)} worktree(s)." if removed else "Nothing to remove.",
    )


def _refuse_at_risk(worktrees: Worktrees, chosen: list[int]) -> None:
    lines = []
    for index in chosen:
        risk = worktrees.at_risk(index)
        for what, names in (
            ("uncommitted", risk.uncommitted),
            ("untracked", risk.untracked),
            ("ignored, precious", risk.precious),
            ("unpushed", risk.unpushed),
        ):
            lines += [f"  pane {index}, {what}: {clean(name)}" for name in names]
    if lines:
        raise NotSo(
            "cleanup would lose work:\n" + "\n".join(lines),
            "Commit and push it, or use --force: it keeps everything under a recovery ref first.",
        )


def _end_pane(layout: Layout, panes: Panes, kinds: Mapping[str, AgentKind], index: int) -> None:
    """Tell the conductor, wait until it knows, then end the agent."""
    from conductor.loop.bring_up import known_panes

    known = known_panes(layout).get(index)
    path = inbox.put(
        layout.inbox, inbox.new_request(), [PaneRemoved(pane=index, at=datetime.now(UTC), why="cleaned up")]
    )
    deadline = time.monotonic() + _TAKEN_WAIT
    while path.exists() and holder(layout.lock) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    if known is not None and known.pane_id is not None and panes.info(known.pane_id) is not None:
        panes.end(known.pane_id, kinds.get(known.agent))


def _end_session(panes: Panes) -> None:
    for pane_id, info in panes.all().items():
        if info.session == panes.session:
            panes.end(pane_id, None)
