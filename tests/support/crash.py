"""The crash walk: one worker through a whole three-cycle run, and a conductor that dies where it is told to.

``Runner`` is the client of ``tests.support.crash_runner``. ``CrashRun`` is one world with its conductors; ``Outcome``
is all that must come out the same however often and wherever a conductor died.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.support.crash_runner import STEADY
from tests.support.fleet import DEADLINE, RED, WRONG, FleetWorld, Step, Turn, add, fleet, turn, write
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
ISSUE, PULL = 1, 2
"""The numbers of the only issue and the only pull request: they share one sequence."""
Ending = Literal["cap", "approved"]
_MARKER = re.compile(r"<!-- taskmaestro: review=(\S+)")


def _report(status: str, **more: object) -> Step:
    return {"result": {"status": status, "pr_number": PULL, "issue": ISSUE, "nonce": "{{nonce}}", **more}}


def _amended(*steps: Step) -> list[Step]:
    push = {"git": ["push", "-q", "--force-with-lease={{branch}}:{{lease}}", "origin", "HEAD"]}
    return [*steps, {"git": ["commit", "-q", "--amend", "--no-edit"]}, push]


def turns(ending: Ending) -> list[Turn]:
    """A task, CI that fails once, then three reviews: the third asks for changes too (``cap``) or approves."""
    right: list[Step] = [{"delete": WRONG}, add(WRONG)]
    again: list[Step] = [write(WRONG, "wrong still\n"), add(WRONG)]
    create = ["taskmaestro", "pr", "create", "--title", "A change", "--body", "What was asked for."]
    return [
        turn(
            ISSUE,
            "first",
            write(RED, "red\n"),
            write(WRONG, "wrong\n"),
            add(RED, WRONG),
            {"git": ["commit", "-q", "-m", "A change"]},
            {"git": ["push", "-q", "-u", "origin", "HEAD"]},
            {"run": create},
            _report("success"),
        ),
        turn(ISSUE, "ci", *_amended({"delete": RED}, add(RED)), _report("success")),
        turn(
            ISSUE,
            "fix",
            *_amended(write("one.txt", "1\n"), add("one.txt")),
            _report("review_addressed", review_cycle=1),
            cycle=1,
        ),
        turn(
            ISSUE,
            "fix",
            *_amended(*(right if ending == "approved" else again), write("two.txt", "2\n"), add("two.txt")),
            _report("review_addressed", review_cycle=2),
            cycle=2,
        ),
    ]


class Runner:
    """A process that has the conductor loaded and forks it; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        argv = [sys.executable, "-m", "tests.support.crash_runner"]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=DEADLINE)
        self._process.stdout.close()


@dataclass(frozen=True)
class Outcome:
    """What a run came to. Two runs of one script are equal in all of it."""

    status: str
    review_cycle: int
    ci_returns: int
    attention: str | None
    serial: int
    result: str | None
    tree: str
    reviews: tuple[tuple[int, str, int], ...]
    """Cycle, verdict as the forge has it, and number of findings, of each review on the pull request."""
    earlier: tuple[int, ...]
    """The cycles of the reviews that the pane remembers."""
    tasks: tuple[str, ...]
    """The kinds of the tasks that the agent took."""


class CrashRun:
    """One world, and the conductors that lived in it one after the other."""

    def __init__(self, world: FleetWorld, runner: Runner) -> None:
        self.world = world
        self.runner = runner
        self.conductor = 0

    def _ask(self, what: str, **more: object) -> int:
        facts = {"folder": str(self.world.folder), "root": str(self.world.root), "environment": dict(os.environ)}
        return int(self.runner.ask({"do": what, **facts, **more})["pid"])

    def code(self, pid: int, timeout: float = DEADLINE) -> int:
        """The exit code of a child, waited for."""
        found: list[int] = []

        def ended() -> bool:
            status = self.runner.ask({"do": "wait", "pid": pid})["status"]
            found.extend([] if status is None else [status])
            return status is not None

        wait_until(ended, timeout, "the end of a child of the runner")
        return found[0]

    def said(self, what: str) -> str:
        path = self.world.folder / f"{what}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def begin(self, at: Sequence[str] = ()) -> None:
        """A conductor first, then the worker and its task."""
        self.conduct(at)
        up = self._ask("up", titles=["Do it"])
        if self.code(up) != 0:
            raise AssertionError(f"up failed:\n{self.said('up')}")

    def conduct(self, at: Sequence[str] = ()) -> None:
        self.conductor = self._ask("conduct", at=list(at))
        lock = self.world.layout.lock
        wait_until(
            lambda: (lock.exists() and str(self.conductor).encode() in lock.read_bytes()) or self.gone(),
            DEADLINE,
            "the conductor's start",
        )

    def gone(self) -> bool:
        """No conductor lives: the last one was waited for, or is about to be."""
        stat = Path(f"/proc/{self.conductor}/stat")
        return not self.conductor or stat.read_text().rpartition(")")[2].split()[0] == "Z"

    def passed(self) -> list[str]:
        path = self.world.folder / "boundaries"
        return path.read_text().splitlines() if path.exists() else []

    def ended_at(self) -> list[str]:
        path = self.world.folder / "ends"
        return path.read_text().splitlines() if path.exists() else []

    def finished(self) -> bool:
        """The run came to its end, and nothing is outstanding."""
        state = self.world.pane(1)
        final = state.get("status") == "approved" or self.world.attention(1) == "cycle_cap"
        return final and not self.world.memory_of_journal().outstanding

    def goes_on(self, *, must_die: bool = False) -> bool:
        """Wait until the conductor is killed (False), or, unless it must die, until the run is finished (True)."""
        try:
            wait_until(lambda: self.gone() or (not must_die and self.finished()), DEADLINE)
        except AssertionError:
            raise AssertionError(
                f"the run went nowhere; ends: {self.ended_at()}\n{self.world.told()}\n{self.said('conduct')}"
                f"\n{self.world.capture(1)}"
            ) from None
        if not self.gone():
            return True
        code, self.conductor = self.code(self.conductor), 0
        if code != -signal.SIGKILL:
            raise AssertionError(f"the conductor exited {code}:\n{self.said('conduct')}\n{self.world.told()}")
        return False

    def stop(self) -> bool:
        """End the conductor in good order; False where it was killed at a last boundary before that."""
        os.kill(self.conductor, signal.SIGTERM)
        code, self.conductor = self.code(self.conductor), 0
        assert code in (0, -signal.SIGKILL), f"the conductor exited {code} after SIGTERM:\n{self.said('conduct')}"
        return code == 0

    def check(self) -> Outcome:
        """Whatever must hold after any run; answers what it came to."""
        world = self.world
        replay = self._ask("cli", argv=["replay"])
        assert self.code(replay) == 0, self.said("cli")
        memory = world.memory_of_journal()
        pane = memory.fleet.panes[1]
        given = [event["task_id"] for event in world.events("task_delivered")]
        story = f"ends: {self.ended_at()}\n{world.told()}"
        assert len(given) == len(set(given)), f"a task was recorded as delivered twice: {given}\n{story}"
        taken = world.receipts(1)
        assert len(taken) == len(set(taken)), f"a task was taken twice: {taken}\n{story}"
        assert set(given) <= set(taken), f"taken {taken}, delivered {given}\n{story}"
        assert world.turns_done(1) == len(taken), story
        shown = world.capture(1)
        assert [shown.count(f"> [msg {task}]") for task in taken] == [1] * len(taken), f"{shown}\n{story}"
        reviews = world.reviews(PULL)
        ids = [found[1] for row in reviews if (found := _MARKER.search(row["body"]))]
        assert len(ids) == len(set(ids)) == len(reviews), f"a review was posted twice: {ids}\n{story}"
        assert len(world.posts(PULL)) == len(reviews), story
        decided = [event["review"]["review_id"] for event in world.events("review_finished")]
        assert [one for one in decided if one in ids] == ids, f"decided {decided}, posted {ids}\n{story}"
        kinds = {kind["task_id"]: kind["kind"] for kind in self._tasks()}
        result = json.loads((world.worktree(1) / "RESULT.json").read_bytes())
        return Outcome(
            status=pane.status,
            review_cycle=pane.review_cycle,
            ci_returns=pane.ci_returns,
            attention=pane.attention.reason if pane.attention else None,
            serial=pane.serial,
            result=f"{result['status']} {result.get('review_cycle')} {result.get('written_by')}",
            tree=world.git("rev-parse", "HEAD^{tree}", folder=world.worktree(1)),
            reviews=tuple(
                (number, row["review_state"], row["body"].count("Impact")) for number, row in enumerate(reviews, 1)
            ),
            earlier=tuple(review.cycle for review in pane.reviews),
            tasks=tuple(kinds[task] for task in taken),
        )

    def _tasks(self) -> Iterator[dict[str, str]]:
        """Every task that the rules made, by folding the journal anew."""
        from conductor.core.memory import Memory
        from conductor.journal import read

        memory = Memory()
        for line in read(self.world.layout.journal):
            memory.take(line)
            task = memory.fleet.panes[1].task if 1 in memory.fleet.panes else None
            if task is not None:
                yield {"task_id": task.task_id, "kind": task.kind}


@contextmanager
def crash_run(runner: Runner, ending: Ending) -> Iterator[CrashRun]:
    """A world with this script; nothing is started yet."""
    with fleet() as world:
        world.turns.extend(turns(ending))
        world.configure()
        run = CrashRun(world, runner)
        try:
            yield run
        finally:
            if run.conductor:
                os.kill(run.conductor, signal.SIGKILL)
                run.code(run.conductor)


def undisturbed(runner: Runner, ending: Ending) -> tuple[Outcome, list[str]]:
    """The run as it goes by itself: what it comes to, and the boundaries that it passes, in order."""
    with crash_run(runner, ending) as run:
        run.begin()
        assert run.goes_on(), "the conductor was killed by somebody"
        assert run.stop(), "the conductor was killed by somebody"
        passed = [name for name in dict.fromkeys(run.passed()) if _steady(name)]
        story = [json.dumps(line) for line in run.world.journal()]
        assert not any(name.startswith("report 2") for name in passed), "a person was told twice:\n" + "\n".join(story)
        return run.check(), passed


def _steady(name: str) -> bool:
    """Every run passes it. Whether a push is seen before the worker reports it depends on who is quicker."""
    kind, _, boundary = name.rpartition(": ")
    return boundary in STEADY and not kind.startswith(("keep_backup", "check_history"))


def ended_at(runner: Runner, ending: Ending, boundaries: Sequence[str]) -> Outcome:
    """A run whose conductor is killed at the first of these boundaries, the next one at the second, and so on; the
    last conductor goes on to the end.
    """
    with crash_run(runner, ending) as run:
        run.begin(boundaries[:1])
        for number, boundary in enumerate(boundaries, 1):
            run.goes_on(must_die=True)
            assert run.ended_at()[-1] == boundary
            run.conduct(boundaries[number : number + 1])
        assert run.goes_on(), "the conductor was killed by somebody"
        assert run.stop(), "the conductor was killed by somebody"
        return run.check()


def ended_at_each(runner: Runner, ending: Ending, boundaries: Sequence[str]) -> tuple[Outcome, list[str]]:
    """One run whose conductors are killed at all of these boundaries, one after the other."""
    with crash_run(runner, ending) as run:
        run.begin(boundaries)
        while not (run.goes_on() and run.stop()):
            run.conduct(boundaries)
        return run.check(), run.ended_at()
