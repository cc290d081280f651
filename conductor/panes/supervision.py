"""Watching panes without polling: output from the control client, ends by a subscription, quiet by one timer.

No timer runs while every pane is quiet. tmux tells of a pane's output, and once a second of a changed
``pane_dead``; for a pane that went away it only says that its window changed, so the list of panes is read
then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from conductor.panes.activity import Activity
from conductor.panes.server import Tmux
from schemas.errors import Fault

_LOG = logging.getLogger(__name__)
_DEAD = "taskmaestro-dead-"
_CHANGES = "#{P:#{pane_id} #{pane_dead} #{pane_pid};}"
_CLOSINGS = frozenset(
    {
        "layout-change",
        "window-close",
        "unlinked-window-close",
        "window-pane-changed",
        "sessions-changed",
        "window-add",
    }
)
_RETRY = 1.0


Known = Callable[[], dict[str, tuple[bool, str]]]
"""Our panes that are there now by id: whether each is dead, and the id of its window."""


class Watcher:
    """Tells ``on_change`` of output after quiet, of quiet, of dead and of gone panes; on one thread of its
    own.
    """

    def __init__(self, tmux: Tmux, activity: Activity, known: Known, quiet: float) -> None:
        self._tmux, self._activity, self._known, self._quiet = tmux, activity, known, quiet
        self._on_change: Callable[[str, str], None] | None = None
        self._wake = threading.Condition()
        self._noisy: set[str] = set()
        self._new_output: list[str] = []
        self._check = False
        self._lost = False
        self._closed = False
        self._panes: dict[str, bool] = {}
        self._windows: set[str] = set()
        self._aside: set[str] = set()
        self._thread: threading.Thread | None = None
        activity.on_output = self._output
        tmux.on_output = activity.note
        tmux.on_connect = activity.connected
        tmux.on_notice = self._notice
        tmux.on_lost = self._gone_deaf

    def start(self, on_change: Callable[[str, str], None]) -> None:
        """Watch from now on. Panes that are quiet already are told of as quiet once, after the usual time."""
        if self._thread is not None:
            raise RuntimeError("watch was called twice")
        self._on_change = on_change
        self._panes = self._look()
        with self._wake:
            self._noisy |= {pane_id for pane_id, dead in self._panes.items() if not dead}
        self._thread = threading.Thread(target=self._run, name="pane-watcher", daemon=True)
        self._thread.start()

    def _look(self) -> dict[str, bool]:
        """Our panes, and whether each is dead; tmux tells of changes in their windows from now on.

        One subscription for each window: for one of all panes (``%*``) the server of tmux 3.3a crashes, with all that
        runs on it, where the session ends before the client that subscribed has left.
        """
        now = self._known()
        windows = {window for _, window in now.values()}
        for window in windows:
            # With the pid, so that one that was started again and ended within the second is told of too.
            self._tmux.subscribe(f"{_DEAD}{window.removeprefix('@')}", f"{window}:{_CHANGES}")
        for window in self._windows - windows:
            self._tmux.unsubscribe(f"{_DEAD}{window.removeprefix('@')}")
        self._windows = windows
        return {pane_id: dead for pane_id, (dead, _) in now.items()}

    def expect(self, pane_ids: Iterable[str]) -> None:
        """These panes run a new program."""
        with self._wake:
            for pane_id in pane_ids:
                self._aside.discard(pane_id)
                self._panes[pane_id] = False
                self._noisy.add(pane_id)
            self._check = True
            self._wake.notify()

    def forget(self, pane_id: str) -> None:
        """What happens to this pane is done on purpose, until it is expected again."""
        with self._wake:
            self._aside.add(pane_id)
            self._panes.pop(pane_id, None)
            self._noisy.discard(pane_id)

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    # --- called on the control client's reader thread ---

    def _output(self, pane_id: str) -> None:
        if pane_id in self._noisy:
            return
        with self._wake:
            if pane_id in self._panes and pane_id not in self._noisy:
                self._noisy.add(pane_id)
                self._new_output.append(pane_id)
                self._wake.notify()

    def _notice(self, name: str, rest: str) -> None:
        if name in _CLOSINGS or (name == "subscription-changed" and rest.startswith(_DEAD)):
            with self._wake:
                self._check = True
                self._wake.notify()

    def _gone_deaf(self, reason: str) -> None:
        self._activity.lost()
        _LOG.info("the connection to tmux ended: %s", reason)
        with self._wake:
            self._check = self._lost = True
            self._wake.notify()

    # --- the thread ---

    def _run(self) -> None:
        while True:
            with self._wake:
                if not (self._closed or self._check or self._new_output):
                    self._wake.wait(self._until_due())
                if self._closed:
                    return
                outputs, self._new_output = self._new_output, []
                check, self._check = self._check, False
            for pane_id in outputs:
                self._tell(pane_id, "output")
            if check:
                self._compare()
            self._tell_quiet()

    def _until_due(self) -> float | None:
        """Seconds until the next pane may be quiet; None while there is nothing to wait for."""
        if not self._noisy:
            return None
        return max(0.001, self._quiet - max(self._silence(pane_id) for pane_id in self._noisy))

    def _silence(self, pane_id: str) -> float:
        return self._activity.still_for(pane_id)

    def _tell_quiet(self) -> None:
        with self._wake:
            quiet = [pane_id for pane_id in self._noisy if self._silence(pane_id) >= self._quiet]
            self._noisy.difference_update(quiet)
        for pane_id in quiet:
            if self._panes.get(pane_id) is False:
                self._tell(pane_id, "quiet")

    def _compare(self) -> None:
        """Read the list of our panes and tell of what ended or went away since."""
        try:
            if self._lost:
                # Attached anew where the session still stands, so that output is told of again.
                self._lost = self._tmux.connect(now=True) is None
            now = self._look()
        except Fault as fault:
            _LOG.warning("panes could not be listed, asked again in %g s: %s", _RETRY, fault)
            threading.Timer(_RETRY, self._recheck).start()
            return
        with self._wake:
            before = dict(self._panes)
            self._aside &= now.keys()
            self._panes = {pane_id: dead for pane_id, dead in now.items() if pane_id not in self._aside}
            for pane_id in before.keys() - now.keys():
                self._noisy.discard(pane_id)
        for pane_id, dead in before.items():
            if pane_id not in now:
                self._tell(pane_id, "gone")
            elif now[pane_id] and not dead:
                self._tell(pane_id, "dead")

    def _recheck(self) -> None:
        with self._wake:
            self._check = True
            self._wake.notify()

    def _tell(self, pane_id: str, what: str) -> None:
        assert self._on_change is not None  # noqa: S101 - the thread starts after it was set
        try:
            self._on_change(pane_id, what)
        except Exception:
            # One listener's defect must not blind the conductor to all panes.
            _LOG.exception("the listener failed on %s of pane %s", what, pane_id)
