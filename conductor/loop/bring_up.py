"""Brings a fleet about: worktrees, session, panes, and the request that tells the conductor of them. Safe to repeat.

What is there already is kept: worktrees with their branches, living panes, unfinished tasks. So the same call also
brings everything back after tmux or the machine died.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from conductor import inbox
from conductor.journal import holder
from conductor.layout import Layout
from conductor.loop.delivery import NO_TOKENS, worker_environment
from conductor.ports import AgentKind, PaneInfo, Panes, PaneSpec, Worktree, Worktrees
from schemas.config import Config
from schemas.errors import BadInput, NotSo, Unavailable
from schemas.events import Event, PaneAdded, PaneBound, TaskGiven
from schemas.forge import TOKEN_VARIABLES, Issue
from schemas.pane import Role
from schemas.text import clean

_ENDING = 30.0
"""Seconds for which a conductor that is ending is waited for."""
_LEAVING = 5.0
"""Seconds for which a living program in the conductor's pane may be one that is leaving, or has not begun."""
_WAITING = "waits for the conductor"
PLACEHOLDER = ("/bin/sh", "-c", f"printf '%s\\n' 'taskmaestro: this pane {_WAITING}'; exec cat")
CONDUCTOR_PANE = 0
MAX_PANES = 100


@dataclass(frozen=True)
class Known:
    """What the state files say of a pane that is there already."""

    index: int
    role: str
    agent: str
    pane_id: str | None
    free: bool
    used: bool
    """It had a task before: a new one gets a branch of its own."""
    branch: str | None = None


@dataclass
class Plan:
    """What is to be brought about: worker panes 1..count, an optional review pane after them, and their tasks."""

    count: int
    agent: str
    issues: Sequence[Issue] = ()
    review_pane: bool = False
    known: dict[int, Known] = field(default_factory=dict)

    @property
    def reviewer(self) -> int | None:
        """The review pane's index: the one that is there, or the first one after the workers."""
        for known in self.known.values():
            if known.role == "reviewer":
                return known.index
        return self.count + 1 if self.review_pane else None

    def workers(self) -> list[int]:
        """Indexes of the worker panes; an index that the review pane has is left out."""
        wanted: list[int] = []
        index = 1
        while len(wanted) < self.count:
            if index != self.reviewer or (self.reviewer not in self.known and index <= self.count):
                wanted.append(index)
            index += 1
        return wanted

    def agent_of(self, index: int) -> str:
        known = self.known.get(index)
        return known.agent if known is not None and known.agent else self.agent


def known_panes(layout: Layout) -> dict[int, Known]:
    """The panes of the state files. A file that cannot be read counts as none: the conductor writes it anew."""
    found = {}
    for path in layout.panes.glob("*.json") if layout.panes.is_dir() else ():
        try:
            state = json.loads(path.read_bytes())
            index = int(state["index"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        free = state.get("status") in ("done", "approved") or (
            state.get("status") == "working" and state.get("awaiting") == "a task"
        )
        used = state.get("status") in ("done", "approved")
        found[index] = Known(
            index,
            state.get("role", "worker"),
            state.get("agent") or "",
            state.get("pane_id"),
            free,
            used,
            state.get("branch"),
        )
    return found


def make_plan(
    layout: Layout, config: Config, *, count: int | None, issues: Sequence[Issue], agent: str | None, review_pane: bool
) -> Plan:
    """What ``up`` is to do. Raises ``BadInput`` for counts and issues that do not fit."""
    known = known_panes(layout)
    workers = [one.index for one in known.values() if one.role == "worker"]
    count = count if count is not None else max(len(workers), len(issues), 1)
    count = max(count, len(workers))
    if not 1 <= count <= MAX_PANES:
        raise BadInput(f"{count} worker panes", f"From 1 to {MAX_PANES} can be had.")
    plan = Plan(count, agent or config.agent, issues, review_pane, known)
    free = [index for index in plan.workers() if index not in known or known[index].free]
    if len(issues) > len(free):
        raise BadInput(
            f"{len(issues)} issues for {len(free)} free panes",
            "Ask for more panes, or wait until one is done (`taskmaestro status`).",
        )
    return plan


@dataclass(frozen=True)
class BroughtUp:
    """What came of it: pane ids by index, which of them are new, and what a person should know."""

    panes: dict[int, str]
    fresh: tuple[int, ...]
    notes: tuple[str, ...]


def chosen(environment: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """The variables with one of these names; ``PREFIX_*`` stands for many. A forge's token is never among them."""
    return {
        name: value
        for name, value in environment.items()
        if name not in TOKEN_VARIABLES and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def bring_up(
    layout: Layout, plan: Plan, *, panes: Panes, worktrees: Worktrees, variables: Mapping[str, str] | None = None
) -> BroughtUp:
    """Worktrees, panes, and the request for the conductor; in this order, so that a crash is mended by a repeat.

    ``variables`` are handed to the session before any agent starts, since tmux may have been started elsewhere.
    The conductor's own pane comes first: it loads while the worktrees are made.
    """
    notes: list[str] = []
    _wait_for_one_that_ends(layout)
    conductor = [] if holder(layout.lock) is not None else [conductor_spec(layout)]
    if conductor:
        _bring_conductor(layout, panes, conductor)
    offline = worktrees.fetch()
    if offline:
        notes.append(f"the remote could not be fetched ({clean(offline)}); the local state of it is used")
    base = worktrees.default_branch()
    tasks = _tasks(plan)
    branches: dict[int, str | None] = {}
    anew: set[int] = set()  # an agent that runs on in a folder that was lost has to be started again
    for index in plan.workers():
        issue = tasks.get(index)
        found = worktrees.find(index)
        if found is None:
            anew.add(index)
            lost = plan.known[index].branch if index in plan.known and issue is None else None
            found = _made(worktrees, index, lost or branch_name(index, issue.number if issue else None), notes)
        elif issue is not None and index in plan.known and plan.known[index].used:
            found = worktrees.turn_to(index, branch_name(index, issue.number))
        branches[index] = found.branch
    if plan.reviewer is not None:
        branch = f"taskmaestro/review-{plan.reviewer}"
        found = worktrees.find(plan.reviewer) or _made(worktrees, plan.reviewer, branch, notes)
        branches[plan.reviewer] = found.branch
    before = panes.all()
    ids = panes.ensure_session([*conductor, *_specs(layout, plan)])
    panes.hand_over(variables or {})
    fresh = tuple(
        index for index, (pane_id, made) in ids.items() if made or index in anew or _waits(before.get(pane_id))
    )
    events: list[Event] = []
    request = inbox.new_request()
    for position, index in enumerate(sorted(branches)):
        pane_id, _ = ids[index]
        events += _events(layout, plan, index, branches[index], base, tasks.get(index), f"{request}.{position}")
        events.append(
            PaneBound(
                pane=index, at=_now(), pane_id=pane_id, fresh=index in fresh, request=f"{request}.{position}.bound"
            )
        )
    inbox.put(layout.inbox, request, events)
    return BroughtUp({index: pane_id for index, (pane_id, _) in ids.items()}, fresh, tuple(notes))


def _made(worktrees: Worktrees, index: int, branch: str, notes: list[str]) -> Worktree:
    """The worktree, made; what had to be kept of a lost one that lay there is told."""
    before = set(worktrees.recovery_refs(index))
    made = worktrees.add(index, branch)
    notes += [
        f"pane {index}: its worktree was gone; a commit that no branch held is kept under {ref};"
        f" get it back with `git branch NAME {ref}`"
        for ref in worktrees.recovery_refs(index)
        if ref not in before
    ]
    return made


def branch_name(index: int, issue: int | None) -> str:
    """The branch that a pane works on: named after its issue where it has one."""
    return f"taskmaestro/issue-{issue}-pane-{index}" if issue is not None else f"taskmaestro/pane-{index}"


def _tasks(plan: Plan) -> dict[int, Issue]:
    free = [index for index in plan.workers() if index not in plan.known or plan.known[index].free]
    return dict(zip(free, plan.issues, strict=False))


def _events(
    layout: Layout, plan: Plan, index: int, branch: str | None, base: str, issue: Issue | None, request: str
) -> list[Event]:
    role = Role.REVIEWER if index == plan.reviewer else Role.WORKER
    events: list[Event] = [
        PaneAdded(
            pane=index,
            at=_now(),
            role=role,
            agent=plan.agent_of(index),
            run=secrets.token_hex(6),
            worktree=str(layout.worktree(index)),
            branch=branch,
            base_branch=base,
        )
    ]
    if issue is not None:
        events.append(
            TaskGiven(
                pane=index,
                at=_now(),
                issue=issue.number,
                title=clean(issue.title),
                body=clean(issue.body),
                request=f"{request}.task",
            )
        )
    return events


def _specs(layout: Layout, plan: Plan) -> list[PaneSpec]:
    specs = []
    for index in [*plan.workers(), *([plan.reviewer] if plan.reviewer is not None else [])]:
        specs.append(
            PaneSpec(
                index=index,
                role="reviewer" if index == plan.reviewer else "worker",
                title=f"{index} {plan.agent_of(index)}",
                cwd=layout.worktree(index),
                argv=PLACEHOLDER,
                env=worker_environment(layout, index),
            )
        )
    return specs


def _wait_for_one_that_ends(layout: Layout) -> None:
    """A conductor that is ending is not one that runs. Raises ``Unavailable`` where it takes too long over it."""
    deadline = time.monotonic() + _ENDING
    while (held := holder(layout.lock)) is not None and held.get("ending"):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the conductor (pid {held.get('pid')}) is ending, and has not ended within {_ENDING:.0f} s",
                f"`kill -9 {held.get('pid')}` is safe: the next start recovers from the journal.",
            )
        time.sleep(0.02)


def _bring_conductor(layout: Layout, panes: Panes, specs: Sequence[PaneSpec]) -> None:
    """Its pane with a conductor in it. One that has let go of its lock just now is still in its pane for a moment."""
    ((pane_id, made),) = panes.ensure_session(specs).values()
    deadline = time.monotonic() + _LEAVING
    while not made and holder(layout.lock) is None and time.monotonic() < deadline:
        info = panes.info(pane_id)
        if info is None or info.dead:
            ((pane_id, made),) = panes.ensure_session(specs).values()
        else:
            time.sleep(0.02)


def conductor_spec(layout: Layout) -> PaneSpec:
    """The conductor's own pane."""
    return PaneSpec(
        index=CONDUCTOR_PANE,
        role="conductor",
        title="conductor",
        cwd=layout.root,
        # -P: folders of the managed repository must not stand in for our packages.
        argv=(sys.executable, "-P", "-m", "conductor", "conduct"),
        env={"PATH": worker_environment(layout, 0)["PATH"], **NO_TOKENS},
    )


def _waits(info: PaneInfo | None) -> bool:
    """The pane lives, but no agent was ever started in it (an earlier call was ended half-way)."""
    return info is not None and (info.dead or _WAITING in info.start_command)


def worktree_indexes(home: Path) -> list[int]:
    """The worktrees that are there, by index."""
    return sorted(int(entry.name[3:]) for entry in home.glob("wt-*") if entry.name[3:].isdigit() and entry.is_dir())


def check_kind(kinds: Mapping[str, AgentKind], name: str) -> AgentKind:
    """The agent kind of this name. Raises ``NotSo`` naming the known ones."""
    if name not in kinds:
        raise NotSo(
            f"agent {clean(name)!r} is not known",
            f"Known: {', '.join(sorted(kinds))}; more in [agents] of config.toml.",
        )
    return kinds[name]


def _now() -> datetime:
    return datetime.now(UTC)
