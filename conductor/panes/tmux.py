"""``Panes`` on real tmux: exact pane ids, tags that survive the user's own moving about, no shell in between.

The parts: ``control`` and ``server`` talk to tmux, ``listing`` reads, ``layout`` places, ``delivery`` types,
``supervision`` watches, ``processes`` ends. Only options of our own panes, windows and session are set.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from conductor.panes import processes
from conductor.panes.activity import Activity
from conductor.panes.control import TmuxRefused
from conductor.panes.delivery import Courier, Timings
from conductor.panes.layout import Layout
from conductor.panes.listing import STARTED, Row, all_rows, row_of, screen_of
from conductor.panes.programs import find_program
from conductor.panes.receipts import Receipts
from conductor.panes.server import Tmux, require_tmux, unformatted
from conductor.panes.states import by_hook_alone, combined, settled
from conductor.panes.supervision import Watcher
from conductor.ports import AgentKind, AgentState, Delivery, PaneInfo, PaneSpec, Prompt, Screen
from schemas.errors import BadInput, Fault, NotSo, Unavailable
from schemas.text import one_line

_LOG = logging.getLogger(__name__)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXIT_PATIENCE = 5.0
_EXIT_POLL = 0.05
_EACH_MORE = 0.05
"""Seconds more of patience for each pane that ends at the same time: they share the machine."""
_ASKED_AT_ONCE = 25
"""Exit lines that are typed side by side: with more, an agent may not show its own in time."""
_DIALOG_DRAWN = 1.0
"""Seconds for a dialog to show on the screen after the hook told of it."""


def session_name(repo_root: Path) -> str:
    """``taskmaestro-<folder>-<hash>``: the folder's name sanitised once, the hash of the whole path against
    namesakes.
    """
    root = repo_root.resolve()
    folder = re.sub(r"[^A-Za-z0-9_]+", "-", root.name).strip("-")[:32] or "repo"
    return f"taskmaestro-{folder}-{hashlib.sha256(str(root).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def direct(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv so that tmux runs it without a shell's reading it: tmux takes a single argument for a shell
    command.
    """
    return tuple(argv) if len(argv) > 1 else ("/bin/sh", "-c", 'exec "$0"', argv[0])


class TmuxPanes:
    """The port ``Panes``. ``socket`` None: the user's own server. ``receipts``: the folder that hooks write
    to.

    ``tag`` marks the panes as this repository's; it defaults to the session's name and must not change
    between runs.
    """

    def __init__(
        self,
        session: str,
        socket: Path | None = None,
        *,
        panes_per_window: int = 4,
        receipts: Path | None = None,
        tag: str = "",
        timings: Timings | None = None,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", session) or session.startswith("-"):
            raise BadInput(f"`{one_line(session)}` is no session name", "Use `session_name(repo_root)`.")
        self.session = session
        self._timings = timings or Timings()
        self._activity = Activity()
        self._receipts = Receipts(receipts)
        self._tmux = Tmux(session, socket)
        self._layout = Layout(self._tmux, tag or session, panes_per_window, self.start)
        self._courier = Courier(self._tmux, self._activity, self._receipts, self._index, self._is_ours, self._timings)
        self._watcher = Watcher(self._tmux, self._activity, self._known, self._timings.quiet)
        self._indexes: dict[str, int] = {}

    @property
    def tmux(self) -> Tmux:
        """The one place that runs tmux commands, for whoever attaches a terminal."""
        return self._tmux

    def socket_path(self) -> Path:
        """The socket of the server that the session lives on."""
        return Path(self._tmux.read("display-message", "-p", "#{socket_path}")[0])

    def ensure_session(self, specs: Sequence[PaneSpec]) -> dict[int, tuple[str, bool]]:
        """See ``Panes``. A dead pane is started again in its place. Raises before anything is made where a
        program is missing (``Unavailable``) or a folder or an environment name is not usable (``BadInput``).
        """
        require_tmux(self._tmux)
        checked = [self._checked(spec) for spec in specs]
        if len({spec.index for spec in specs}) != len(specs):
            raise BadInput("two panes of one index were asked for")
        made = self._layout.ensure(checked)
        self._indexes.update({pane_id: index for index, (pane_id, _) in made.items()})
        self._watcher.expect(pane_id for pane_id, _ in made.values())
        return made

    def hand_over(self, variables: Mapping[str, str]) -> None:
        """See ``Panes``: the session's own environment, set through the connection. Raises ``BadInput`` for a name
        that tmux cannot take.
        """
        for name in variables:
            if not _ENV_NAME.fullmatch(name):
                raise BadInput(f"the variable `{one_line(name)}` cannot be handed over to the panes", "Unset it.")
        session = f"={self.session}:"
        setting = [("set-environment", "-t", session, "--", name, value) for name, value in sorted(variables.items())]
        if setting:
            self._tmux.privately(*setting)

    def all(self) -> dict[str, PaneInfo]:
        return {pane_id: settled(self._tmux, row).info for pane_id, row in all_rows(self._tmux).items()}

    def info(self, pane_id: str) -> PaneInfo | None:
        row = self._row(pane_id)
        return row.info if row and self._is_ours(row) else None

    def screen(self, pane_id: str, *, history: int = 0) -> Screen:
        """See ``Panes``. Raises ``NotSo`` where there is no such pane."""
        shown = screen_of(self._tmux, _exact(pane_id), history)
        if shown is None:
            raise NotSo(f"pane {pane_id} is not there any more", "List the panes anew.")
        return shown[1]

    def start(self, pane_id: str, spec: PaneSpec) -> PaneInfo:
        spec = self._checked(spec)
        row = self._row(pane_id)
        if row is None or self._layout.index_of(row) != spec.index:
            # Another server may know the same number, for a program of somebody else's.
            raise NotSo(f"pane {one_line(pane_id)} is not pane {spec.index} any more", "Bring it up again.")
        # The old program's end is no news.
        self._watcher.forget(pane_id)
        try:
            self._replace(row, spec)
        finally:
            self._indexes[pane_id] = spec.index
            self._watcher.expect([pane_id])
        info = self.info(pane_id)
        if info is None:
            raise Unavailable(f"pane {pane_id} went away while {one_line(spec.argv[0])} was started", "Try again.")
        return info

    def _replace(self, row: Row, spec: PaneSpec) -> None:
        pane_id = row.info.pane_id
        own = ("set-option", "-p", "-t", pane_id)
        self._tmux.run_many((*own, "remain-on-exit", "on"), (*own, "-u", STARTED))
        if row.started or not row.info.dead:
            self._end_tree(row)
        env = [word for name, value in sorted(spec.env.items()) for word in ("-e", f"{name}={value}")]
        cwd = unformatted(str(spec.cwd))
        respawn = ("respawn-pane", "-k", "-c", cwd, *env, "-t", pane_id, "--", *direct(spec.argv))
        self._tmux.run_many(("select-pane", "-t", pane_id, "-T", ""), ("clear-history", "-t", pane_id))
        self._tmux.run_many(respawn, (*own, STARTED, "1"))

    def deliver(self, pane_id: str, prompt: Prompt, agent: AgentKind, *, known_idle: bool) -> Delivery:
        return self._courier.deliver(_exact(pane_id), prompt, agent, known_idle=known_idle)

    def find_delivery(self, pane_id: str, prompt: Prompt, agent: AgentKind) -> Delivery | None:
        return self._courier.find(_exact(pane_id), prompt, agent)

    def state_of(self, pane_id: str, agent: AgentKind) -> AgentState:
        deadline = time.monotonic() + _DIALOG_DRAWN
        while True:
            mark = self._activity.mark(pane_id)
            shown = screen_of(self._tmux, _exact(pane_id))
            if shown is None or not self._is_ours(shown[0]):
                return AgentState("gone", "the pane is not there any more")
            row, screen = settled(self._tmux, shown[0]), shown[1]
            index = self._index(pane_id) if agent.has_receipts else None
            receipt = self._receipts.last(index) if index is not None else None
            state = combined(row, screen, agent, receipt, self._activity.still_for(pane_id))
            left = deadline - time.monotonic()
            if state.name != "permission" or not by_hook_alone(state) or left <= 0:
                break
            # The hook is quicker than the screen, and only the screen says what is asked.
            self._activity.wait(pane_id, mark, min(left, _DIALOG_DRAWN / 4))
        if state.name == "idle" and self._activity.mark(pane_id) == mark:
            self._activity.seen_idle(pane_id)
        return state

    def watch(self, on_change: Callable[[str, str], None]) -> None:
        self._watcher.start(on_change)

    def end(self, pane_id: str, agent: AgentKind | None) -> None:
        self.end_all({pane_id: agent})

    def end_all(self, agents: Mapping[str, AgentKind | None]) -> list[str]:
        """See ``Panes``. A pane that is not there any more is fine. Raises ``Unavailable`` naming what would not end,
        after all others have.
        """
        asked = {_exact(pane_id): agent for pane_id, agent in agents.items()}
        listed = all_rows(self._tmux)
        rows = {pane_id: listed[pane_id] for pane_id in asked if pane_id in listed and self._is_ours(listed[pane_id])}
        for pane_id in rows:
            self._watcher.forget(pane_id)
        now = processes.snapshot()
        trees = {pane_id: self._tree(row, now) for pane_id, row in rows.items()}
        more = _EACH_MORE * max(0, len(rows) - 1)
        self._wait_dead(self._ask_to_leave(rows, asked, trees), _EXIT_PATIENCE + more)
        left = processes.end(frozenset[processes.Process]().union(*trees.values()), self._timings.grace + more)
        for pane_id in rows:
            try:
                self._tmux.run("kill-pane", "-t", pane_id)
            except TmuxRefused:
                if row_of(self._tmux, pane_id) is not None:
                    raise
            self._indexes.pop(pane_id, None)
        stubborn = [
            f"pane {pane_id}: these processes would not end: {', '.join(map(str, pids))}"
            for pane_id, tree in trees.items()
            if (pids := sorted(one.pid for one in tree & left))
        ]
        if stubborn:
            raise Unavailable("\n".join(stubborn), "End them by hand (kill -9).")
        return list(rows)

    def _ask_to_leave(
        self,
        rows: Mapping[str, Row],
        agents: Mapping[str, AgentKind | None],
        trees: dict[str, frozenset[processes.Process]],
    ) -> list[str]:
        """Type their exit lines, side by side; answers the panes where Enter was pressed.

        What an agent began while it was asked is added to its tree.
        """
        lines = [
            (pane_id, agent, line)
            for pane_id, row in rows.items()
            if (agent := agents[pane_id]) is not None and not row.info.dead and (line := agent.exit_line())
        ]
        if not lines:
            return []
        said: list[str] = []
        with ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="pane-end") as pool:
            asked = {pool.submit(self._said, *one): one[0] for one in lines}
            waiting = set(asked)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                now = processes.snapshot()
                for future in done:
                    if future.result():
                        pane_id = asked[future]
                        trees[pane_id] |= self._tree(rows[pane_id], now)
                        said.append(pane_id)
        return said

    def _said(self, pane_id: str, agent: AgentKind, line: str) -> bool:
        try:
            return self._courier.say(pane_id, agent, line)
        except Fault as fault:
            # Its processes are ended all the same, and so are those of the others.
            _LOG.info("pane %s: its exit line was not typed: %s", pane_id, fault)
            return False

    def close(self) -> None:
        self._watcher.close()
        self._tmux.close()

    def _checked(self, spec: PaneSpec) -> PaneSpec:
        if not spec.cwd.is_dir():
            raise BadInput(f"pane {spec.index}: {one_line(str(spec.cwd))} is no folder", "Make the worktree first.")
        for name in spec.env:
            if not _ENV_NAME.fullmatch(name):
                raise BadInput(f"pane {spec.index}: `{one_line(name)}` is no name for an environment variable")
        program = find_program(spec.argv, spec.env, cwd=spec.cwd)
        argv = (program, *spec.argv[1:])
        for text in (*argv, *spec.env.values(), str(spec.cwd)):
            if "\0" in text:
                raise BadInput(f"pane {spec.index}: a NUL character in `{one_line(text, 80)}`")
        return PaneSpec(spec.index, spec.role, spec.title, spec.cwd.absolute(), argv, dict(_with_path(spec.env)))

    def _row(self, pane_id: str) -> Row | None:
        row = row_of(self._tmux, _exact(pane_id))
        return settled(self._tmux, row) if row else None

    def _is_ours(self, row: Row) -> bool:
        return self._layout.index_of(row) is not None

    def _index(self, pane_id: str) -> int | None:
        if pane_id not in self._indexes:
            row = row_of(self._tmux, pane_id)
            index = self._layout.index_of(row) if row else None
            if index is None:
                return None
            self._indexes[pane_id] = index
        return self._indexes[pane_id]

    def _known(self) -> dict[str, tuple[bool, str]]:
        """Our panes that are there: whether each is dead, and its window."""
        return {row.info.pane_id: (row.info.dead, row.info.window_id) for row in self._layout.ours().values()}

    def _tree(self, row: Row, now: Mapping[int, processes.Process] | None = None) -> frozenset[processes.Process]:
        return processes.tree(row.info.pid, ended=row.info.dead, now=now)

    def _end_tree(self, row: Row) -> None:
        left = processes.end(self._tree(row), self._timings.grace)
        if left:
            pids = ", ".join(str(one.pid) for one in left)
            raise Unavailable(f"pane {row.info.pane_id}: the old program would not end ({pids})", "End it by hand.")

    def _wait_dead(self, pane_ids: Iterable[str], patience: float) -> None:
        """Until the programs of all these panes have ended, ``patience`` seconds for all of them together."""
        waiting = set(pane_ids)
        deadline = time.monotonic() + patience
        while waiting:
            rows = all_rows(self._tmux)
            waiting = {pane_id for pane_id in waiting if pane_id in rows and not rows[pane_id].info.dead}
            if not waiting or time.monotonic() >= deadline:
                return
            time.sleep(_EXIT_POLL)


def _with_path(env: Mapping[str, str]) -> Mapping[str, str]:
    """PATH as this program has it: the tmux server may have been started with another one."""
    path = os.environ.get("PATH")
    return env if "PATH" in env or path is None else {"PATH": path, **env}


def _exact(pane_id: str) -> str:
    if not re.fullmatch(r"%[0-9]+", pane_id):
        raise BadInput(f"`{one_line(pane_id)}` is no pane id", "tmux pane ids look like %5.")
    return pane_id
