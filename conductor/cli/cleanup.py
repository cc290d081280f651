"""``taskmaestro cleanup``: remove worktrees and panes, and never any work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from conductor import inbox
from conductor.cli.context import find_context
from conductor.cli.output import answer, note
from conductor.cli.stop import stop_conductor
from conductor.cli.turns import turn
from conductor.journal import holder
from conductor.layout import Layout
from conductor.ports import AgentKind, Panes
from schemas.config import Config
from schemas.errors import BadInput, NotSo
from schemas.events import PaneRemoved
from schemas.text import clean

if TYPE_CHECKING:
    from conductor.git.worktrees import GitWorktrees

_TAKEN_WAIT = 10.0
_TOLD = 20
"""At most so many refs of dropped commits are named one by one."""


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
    merged, also by squash, counts as saved. Commits that no branch holds (amended, reset, detached) get recovery refs
    in any case, which are printed.
    """
    from conductor.git.worktrees import GitWorktrees

    context = find_context()
    layout, config = Layout(context.root), context.config
    worktrees = GitWorktrees(layout.root, config)
    asked = _existing(layout, worktrees)
    with turn(layout, "cleanup"):
        there = _existing(layout, worktrees)  # another clean-up may have come first, or a start
        unknown = sorted(set(only) - {*asked, *there})
        if unknown:
            raise BadInput(f"pane {unknown[0]} has no worktree", f"There are: {', '.join(map(str, there)) or 'none'}.")
        chosen = [index for index in there if not only or index in only]
        # Without --pane the session and the conductor go too, also where no worktree is left.
        removed, kept = _remove(layout, config, worktrees, chosen, force, chosen == there and not (only and not chosen))
    for name, ref in removed.items():
        if ref is not None:
            note(f"pane {name}: kept under {ref}; get it back with `git worktree add ../rescued-{name} {ref}`")
    for name, refs in kept.items():
        _tell_dropped(name, refs)
    answer(
        {"removed": removed, "dropped": kept},
        as_json=as_json,
        text=f"Removed {len(removed)} worktree(s)." if removed else "Nothing to remove.",
    )


def _existing(layout: Layout, worktrees: GitWorktrees) -> list[int]:
    """Panes of which something is there: a folder, git's record of one that was deleted by hand, or a state."""
    from conductor.loop.bring_up import known_panes, worktree_indexes

    return sorted({*worktree_indexes(layout.home), *worktrees.recorded(), *known_panes(layout)})


def _remove(
    layout: Layout, config: Config, worktrees: GitWorktrees, chosen: list[int], force: bool, everything: bool
) -> tuple[dict[str, str | None], dict[str, list[str]]]:
    """Remove these; what can refuse is asked before anything is changed. Answers the recovery ref of each, and the
    refs of commits that no branch held.
    """
    from conductor.loop.adapters import panes_of
    from conductor.panes.agents import agent_kinds

    panes, kinds = panes_of(layout, config), agent_kinds(config)
    panes.all()
    if not force:
        _refuse_at_risk(worktrees, chosen)
    for index in chosen:
        worktrees.check_removal(index, force=force)
    if everything:
        stop_conductor(layout)
    removed: dict[str, str | None] = {}
    kept: dict[str, list[str]] = {}
    for index in chosen:
        before = {*worktrees.recovery_refs(index)}
        _end_pane(layout, panes, kinds, index)
        ref = removed[str(index)] = worktrees.remove(index, force=force)
        layout.pane_file(index).unlink(missing_ok=True)
        new = [name for name in worktrees.recovery_refs(index) if name not in before and name != ref]
        if new:
            kept[str(index)] = new
    if everything:
        _end_session(panes)
    panes.close()
    return removed, kept


def _tell_dropped(name: str, refs: list[str]) -> None:
    for ref in refs[:_TOLD]:
        note(f"pane {name}: a commit that no branch held is kept under {ref}; get it back with `git branch NAME {ref}`")
    if len(refs) > _TOLD:
        pattern = f"{refs[0].rpartition('/')[0]}/"
        note(f"pane {name}: {len(refs) - _TOLD} more are kept; list them with `git for-each-ref {pattern}`")


def _refuse_at_risk(worktrees: GitWorktrees, chosen: list[int]) -> None:
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
    panes.end_all({pane_id: None for pane_id, info in panes.all().items() if info.session == panes.session})
