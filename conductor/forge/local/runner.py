"""Runs the checks of heads: ``python -m conductor.forge.local.runner <forge folder> [<sha>]``.

A process and session of its own, so that checks go on when the conductor or a worker's command ends. It
claims a run (that head's first), runs its checks one after another on a scratch clone in the system's
temporary folder, writes each result, takes the next queued run, and ends when none is left. Checks see PATH,
HOME, LANG, TMPDIR, what the configuration lists, ``CI=true`` and a mark by which leftovers are found; never
logins or tokens.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from conductor.forge.local import runs
from conductor.forge.local.alive import become_subreaper
from conductor.forge.local.layout import Layout, read_needed
from conductor.forge.local.plumbing import git
from conductor.forge.local.process import Outcome, run_check
from conductor.forge.local.store import Store, now
from schemas.errors import Fault
from schemas.text import one_line
from worker.tools.needed import copy_needed

_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class _Runner:
    """One runner on one forge."""

    def __init__(self, layout: Layout, store: Store) -> None:
        self._layout = layout
        self._store = store
        self._told = False

    def tell(self, _signal: int, _frame: object) -> None:
        """A signal asked this runner to end: the check that runs is ended, its run given back, the checkout
        removed.
        """
        self._told = True

    def work(self, prefer: str) -> None:
        for scratch, cookie in runs.abandoned(self._store):
            runs.end_cookie(cookie)
            shutil.rmtree(scratch, ignore_errors=True)
        run = runs.claim(self._store, prefer=prefer)
        while run is not None:
            whole = self._run(run)
            if self._told:
                runs.give_back(self._store, run, done=whole)
                return
            run = runs.claim(self._store, finished=run.id)
            self._layout.wake("checks")

    def _run(self, run: runs.Run) -> bool:
        """Run all checks; False where that ended early."""
        self._layout.wake("checks")
        scratch = Path(tempfile.mkdtemp(prefix="taskmaestro-check-"))
        try:
            earlier = runs.set_scratch(self._store, run, scratch)
            if earlier:
                shutil.rmtree(earlier, ignore_errors=True)
            return self._run_checks(run, scratch / "checkout")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            runs.forget_scratch(self._store, run, scratch)

    def _run_checks(self, run: runs.Run, checkout: Path) -> bool:
        folder = self._layout.logs / run.sha[:12] / str(run.id)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._check_out(run.sha, checkout)
        except (Fault, OSError) as error:
            reason = f"the checkout of {run.sha[:12]} could not be made: {one_line(str(error), 600)}"
            for position, _, _ in run.checks:
                self._record(run, position, Outcome(False, None, "could not be started", reason))
            return True
        for position, name, argv in run.checks:
            log = folder / f"{position}-{_UNSAFE.sub('_', name)[:60]}.log"
            if not runs.record_start(self._store, run, position, log):
                return False
            outcome = self._one(run, position, argv, checkout, log)
            if outcome is None or not self._record(run, position, outcome):
                return False
        return True

    def _one(self, run: runs.Run, position: int, argv: tuple[str, ...], checkout: Path, log: Path) -> Outcome | None:
        def started(pid: int) -> None:
            runs.record_process(self._store, run, position, pid)

        def stop() -> bool:
            if self._told:
                return True
            with self._store.read() as connection:
                return not runs.is_mine(connection, run)

        try:
            return run_check(
                argv,
                cwd=checkout,
                env=check_environment(run),
                log_path=log,
                timeout=run.timeout,
                started=started,
                stop=stop,
            )
        except OSError as error:
            return Outcome(False, None, "could not be run", f"{log}: {error.strerror or error}")

    def _record(self, run: runs.Run, position: int, outcome: Outcome) -> bool:
        mine = runs.record_outcome(self._store, run, position, outcome)
        self._layout.wake("checks")
        return mine

    def _check_out(self, sha: str, checkout: Path) -> None:
        """A clone that borrows the forge's objects, so that tools find a real repository with
        ``origin/<base>``.
        """
        git(
            self._layout.folder,
            "clone",
            "--quiet",
            "--shared",
            "--no-checkout",
            "--template=",
            "--",
            str(self._layout.repo),
            str(checkout),
            timeout=600.0,
        )
        git(checkout, "checkout", "--quiet", "--detach", sha, timeout=600.0)
        copy_needed(*read_needed(self._layout, checkout))


def check_environment(run: runs.Run) -> dict[str, str]:
    """What a check sees of the environment."""
    passed = {name: os.environ[name] for name in (*_PASSED_ON, *run.env) if name in os.environ}
    return {**passed, "CI": "true", runs.COOKIE: run.cookie}


def main(arguments: list[str]) -> int:
    """Work until nothing is queued. Exit 0, also when there was nothing to do; 3 when the forge cannot be
    used.
    """
    layout = Layout(Path(arguments[0]))
    become_subreaper()
    try:
        runner = _Runner(layout, Store(layout.database))
        signal.signal(signal.SIGTERM, runner.tell)
        signal.signal(signal.SIGINT, runner.tell)
        runner.work(arguments[1] if len(arguments) > 1 else "")
    except Fault as fault:
        print(f"{now()} {fault}", file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
