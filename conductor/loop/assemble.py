"""Puts the adapters together for one managed repository, as its configuration says."""

from __future__ import annotations

import re
from importlib.metadata import entry_points

from conductor.forge import open_forge
from conductor.git.facts import inspect
from conductor.layout import Layout
from conductor.loop.adapters import panes_of, worktrees_of
from conductor.loop.conductor import Outside
from conductor.panes.agents import agent_kinds
from conductor.panes.receipts import Receipts
from conductor.ports import Forge, Notifier, Worktrees
from conductor.review.runner import StepsReviewer
from schemas.config import Config
from schemas.effects import InspectPr
from schemas.errors import Unavailable
from schemas.events import History, PrFacts
from worker.tools.git import git

_EMAIL = re.compile(r"<([^<>]+)>")


def outside_of(layout: Layout, config: Config) -> Outside:
    """Everything that a conductor of this repository works with."""
    receipts = Receipts(layout.receipts)
    forge = open_forge(config, layout.root)
    worktrees = worktrees_of(layout, config, forge)
    inspector = _Inspector(layout, forge, worktrees)
    return Outside(
        forge=forge,
        worktrees=worktrees,
        panes=panes_of(layout, config),
        kinds=agent_kinds(config),
        reviewer=StepsReviewer(worktrees, forge, config, layout.root),
        inspect=inspector,
        history=inspector.history,
        received=lambda index, message: receipts.find(index, message) is not None,
        notifiers=_notifiers(),
    )


class _Inspector:
    """Holds a claim against forge, remote and worktree."""

    def __init__(self, layout: Layout, forge: Forge, worktrees: Worktrees) -> None:
        self._layout = layout
        self._forge = forge
        self._worktrees = worktrees
        self._known: dict[int, tuple[str, ...]] = {}

    def __call__(self, effect: InspectPr) -> PrFacts:
        # Where an old head is compared with the new one, one's own amended commits are not somebody else's.
        compared = effect.old_head is not None
        return inspect(
            effect.pr_number,
            forge=self._forge,
            worktrees=self._worktrees,
            index=effect.pane,
            old_head=effect.old_head,
            review_id=effect.review_id,
            mine=self._identities(effect.pane) if compared else (),
        )

    def history(self, index: int, old: str, new: str, base: str) -> History:
        """How the pane's branch moved between two heads."""
        return self._worktrees.history(old, new, base, mine=self._identities(index))

    def _identities(self, index: int) -> tuple[str, ...]:
        """The e-mail addresses under which the worker and the conductor commit, from configuration and environment."""
        if index in self._known:
            return self._known[index]
        found: list[str] = []
        for folder in (self._layout.worktree(index), self._layout.root):
            for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
                said = git(["var", name], folder, check=False).output if folder.is_dir() else ""
                email = _EMAIL.search(said)
                if email is not None and email.group(1) not in found:
                    found.append(email.group(1))
        self._known[index] = tuple(found)
        return self._known[index]


def _notifiers() -> tuple[Notifier, ...]:
    found: list[Notifier] = []
    for door in entry_points(group="taskmaestro.notifiers"):
        try:
            found.append(door.load()())
        except Exception as fault:  # a plug-in is somebody else's code; say which one cannot be had
            raise Unavailable(
                f"notifier {door.name} ({door.value}) cannot be loaded: {fault}", "Mend or uninstall it."
            ) from fault
    return tuple(found)
