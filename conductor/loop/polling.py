"""Asks the forge about what is awaited: one batched question for all panes, when something is due or the forge says so.

What to ask is read off the states (``core.watches``), so a crash loses no watch. An event is made only for a change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from conductor.core.budget import pause_for, spent
from conductor.core.state import Fleet
from conductor.core.watches import CiWatch, PrWatch, ci_watches, pr_watches
from conductor.ports import Forge, Metered
from schemas.errors import Fault, Unavailable
from schemas.events import CiBudgetSpent, CiRead, Event, ForgeBack, ForgeFailed, HeadMoved, PrClosed, PrMerged
from schemas.forge import ApiBudget, Checks, CheckState, PullRequest
from schemas.text import one_line

_BACKOFF = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
_NOISY_AFTER = 2


class Poller:
    """A thread that asks at ``interval`` seconds (more rarely where the forge's rate limit runs low), at a gate's
    deadline, and whenever it is poked."""

    def __init__(
        self,
        forge: Forge,
        fleet: Callable[[], Fleet],
        observe: Callable[[Event], None],
        *,
        interval: float,
        remote_head: Callable[[str], str | None] = lambda _branch: None,
        on_budget: Callable[[ApiBudget], None] = lambda _budget: None,
    ) -> None:
        """``remote_head`` answers the head of a branch on the remote, None where it cannot be said: a forge's API may
        serve the head before the last push for minutes. ``on_budget`` is called after each round on a metered forge."""
        self._forge = forge
        self._remote_head = remote_head
        self._fleet = fleet
        self._observe = observe
        self._interval = interval
        self._poke = threading.Event()
        self._on_budget = on_budget
        self._budget: ApiBudget | None = None
        self._points = 1
        self._stopped = False
        self._failures = 0
        self._noisy = True  # what an earlier conductor reported is settled by the first answer
        self._asked: set[str] = set()
        self._spent: set[str] = set()
        self._told: dict[str, Checks] = {}
        self._thread = threading.Thread(target=self._run, name="forge", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poke(self) -> None:
        """Ask now: a gate opened, or the forge said that something changed."""
        self._poke.set()

    def fleet_changed(self, fleet: Fleet) -> None:
        """A gate that was not asked about yet is asked about now; a forge that fails keeps its pause."""
        if not self._failures and any(watch.gate_id not in self._asked for watch in ci_watches(fleet)):
            self.poke()

    def stop(self) -> None:
        self._stopped = True
        self._poke.set()
        # It may be waiting for a forge that does not answer; nothing is lost with its answer.
        self._thread.join(timeout=3)

    def _run(self) -> None:
        while True:
            self._poke.clear()
            if self._stopped:
                return
            self.ask()
            self._poke.wait(self._pause())

    def _pause(self) -> float | None:
        fleet = self._fleet()
        if self._failures:
            return _BACKOFF[min(self._failures, len(_BACKOFF)) - 1]
        watches = ci_watches(fleet)
        if not watches and not pr_watches(fleet):
            return None
        now = datetime.now(UTC)
        deadlines = [(watch.deadline - now).total_seconds() for watch in watches if watch.deadline is not None]
        interval = self._interval
        if self._budget is not None:
            interval = pause_for(self._budget, self._points, interval, now)
        return max(0.05, min([interval, *[left for left in deadlines if left > 0]]))

    def ask(self) -> None:
        """One round of questions. A forge that cannot be reached is reported after the third try, and asked again."""
        fleet = self._fleet()
        gates, pulls = ci_watches(fleet), pr_watches(fleet)
        numbers = sorted({gate.pr_number for gate in gates} | {pull.pr_number for pull in pulls})
        if not numbers:
            self._failures = 0
            return
        try:
            answer = self._forge.poll(numbers, sorted({watch.pr_number for watch in gates}))
            requests, checks = answer.requests, answer.checks
            heads = {number: pull.head for number, pull in requests.items() if self._is_news(pull, gates, pulls)}
        except Fault as fault:
            self._failed(fleet, fault)
            return
        except Exception as fault:  # an adapter's defect must not end the watch of every pane unseen
            self._failed(fleet, Fault(f"{type(fault).__name__}: {one_line(str(fault), 400)}"))
            return
        self._back(fleet)
        self._count()
        for pull in pulls:
            self._look_at_pull(pull, requests.get(pull.pr_number), heads)
        for gate in gates:
            self._look_at_gate(gate, checks.get(gate.pr_number), heads)

    def _count(self) -> None:
        """Note what the round left of the rate limit."""
        budget = self._forge.budget() if isinstance(self._forge, Metered) else None
        if budget is not None:
            self._points, self._budget = spent(self._budget, budget), budget
            self._on_budget(budget)

    def _is_news(self, pull: PullRequest, gates: Sequence[CiWatch], pulls: Sequence[PrWatch]) -> bool:
        """The request has another head than the one that is known, and the remote has it too."""
        known = {gate.head for gate in gates if gate.pr_number == pull.number}
        known |= {watch.head or "" for watch in pulls if watch.pr_number == pull.number and pull.head not in watch.seen}
        return bool(known - {pull.head}) and self._remote_head(pull.head_branch) in (None, pull.head)

    def _failed(self, fleet: Fleet, fault: Fault) -> None:
        self._failures += 1
        if self._failures > _NOISY_AFTER or not isinstance(fault, Unavailable):
            self._noisy = True
            for watch in pr_watches(fleet):
                self._observe(ForgeFailed(pane=watch.pane, at=_now(), reason=one_line(str(fault), 500)))

    def _back(self, fleet: Fleet) -> None:
        self._failures = 0
        if self._noisy:
            self._noisy = False
            for pane in fleet.panes.values():
                if pane.pr_number is not None or pane.claim is not None:
                    self._observe(ForgeBack(pane=pane.index, at=_now()))

    def _look_at_pull(self, watch: PrWatch, pull: PullRequest | None, heads: Mapping[int, str]) -> None:
        if pull is None:
            return  # not an answer: a page may be missing; the next round asks again
        if pull.state == "merged":
            self._observe(PrMerged(pane=watch.pane, at=_now()))
        elif pull.state == "closed":
            self._observe(PrClosed(pane=watch.pane, at=_now()))
        elif (
            watch.head is not None and pull.head != watch.head and pull.head not in watch.seen and pull.number in heads
        ):
            self._observe(HeadMoved(pane=watch.pane, at=_now(), head=pull.head, base=pull.base))

    def _look_at_gate(self, gate: CiWatch, checks: Checks | None, heads: Mapping[int, str]) -> None:
        self._asked.add(gate.gate_id)
        if checks is not None and checks.head not in (gate.head, heads.get(gate.pr_number)):
            checks = None  # of a head that the remote does not have
        if checks is not None and self._told.get(gate.gate_id, _unknown(gate)) != checks:
            self._told[gate.gate_id] = checks
            self._observe(
                CiRead(
                    pane=gate.pane,
                    at=_now(),
                    gate_id=gate.gate_id,
                    head=checks.head,
                    state=checks.state,
                    checks=checks.checks,
                )
            )
        late = gate.deadline is not None and _now() >= gate.deadline
        state = checks.state if checks is not None else CheckState.NONE
        if late and gate.gate_id not in self._spent and state.undecided:
            self._spent.add(gate.gate_id)
            self._observe(CiBudgetSpent(pane=gate.pane, at=_now(), gate_id=gate.gate_id, state=state))


def _unknown(gate: CiWatch) -> Checks:
    """What a gate that nothing was read of yet is taken to show: not worth an event."""
    return Checks(head=gate.head, state=gate.known)


def _now() -> datetime:
    return datetime.now(UTC)
