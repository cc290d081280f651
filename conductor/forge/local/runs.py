"""Which heads have their checks run, by whom, and with what result: rows of ``runs`` and ``results``.

A run is queued by whoever sees a head without one. Runners (at most one a processor) claim runs one at a
time; each writes only while the run is still its own. A runner that died is known by its process being gone,
and its run is queued again by the next one who looks, three times at most.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import conductor
from conductor.forge.local.alive import end_marked, identity, kill, runs_still
from conductor.forge.local.layout import Layout
from conductor.forge.local.process import Outcome
from conductor.forge.local.store import Store, now
from schemas.errors import Unavailable

Result = sqlite3.Row
"""A row of ``results``."""
MAX_TAKEOVERS = 3
COOKIE = "TASKMAESTRO_CHECK"
_LAUNCH_SECONDS = 10.0
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Plan:
    """The configured checks: name -> argv, in order; seconds for each; more variables that they may see."""

    checks: Mapping[str, Sequence[str]]
    timeout: float
    env: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Names this set of checks, so that a run of another set does not count."""
        text = json.dumps([[name, list(argv)] for name, argv in self.checks.items()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Run:
    """A claimed run, with all that its runner needs."""

    id: int
    sha: str
    timeout: float
    env: tuple[str, ...]
    cookie: str
    checks: tuple[tuple[int, str, tuple[str, ...]], ...]


def bound() -> int:
    """How many runs may go on at the same time on this machine."""
    return os.cpu_count() or 1


def queue(connection: sqlite3.Connection, sha: str, plan: Plan) -> None:
    """Queue a run of this head unless one is there; a cancelled one does not count."""
    if not plan.checks:
        return
    there = connection.execute(
        "SELECT 1 FROM runs WHERE sha = ? AND plan = ? AND state <> 'cancelled' LIMIT 1", (sha, plan.key)
    ).fetchone()
    if there is None:
        queue_anew(connection, sha, plan)


def queue_anew(connection: sqlite3.Connection, sha: str, plan: Plan) -> None:
    """Queue one more run of this head; from now on only it counts."""
    cancel(connection, [sha])
    run = connection.execute(
        "INSERT INTO runs (sha, plan, state, timeout, env, created_at) VALUES (?, ?, 'queued', ?, ?, ?)",
        (sha, plan.key, plan.timeout, json.dumps(list(plan.env)), now()),
    ).lastrowid
    connection.executemany(
        "INSERT INTO results (run, position, name, argv) VALUES (?, ?, ?, ?)",
        [(run, n, name, json.dumps(list(argv))) for n, (name, argv) in enumerate(plan.checks.items(), 1)],
    )


def cancel(connection: sqlite3.Connection, shas: Iterable[str]) -> None:
    """Runs of these heads are not wanted any more; their runners notice within a second."""
    connection.executemany(
        "UPDATE runs SET state = 'cancelled', ended_at = ? WHERE sha = ? AND state IN ('queued', 'running')",
        [(now(), sha) for sha in shas],
    )


def latest(connection: sqlite3.Connection, shas: Iterable[str], plan: Plan) -> dict[str, list[sqlite3.Row]]:
    """The results of the newest run of each of these heads, in one query; heads without one are left out."""
    rows = connection.execute(
        """WITH newest AS (
               SELECT sha, max(id) AS id FROM runs
               WHERE plan = ? AND state <> 'cancelled' AND sha IN (SELECT value FROM json_each(?))
               GROUP BY sha)
           SELECT newest.sha, results.* FROM newest JOIN results ON results.run = newest.id
           ORDER BY results.run, results.position""",
        (plan.key, json.dumps(sorted(set(shas)))),
    )
    found: dict[str, list[sqlite3.Row]] = {}
    for row in rows:
        found.setdefault(row["sha"], []).append(row)
    return found


def last_of(connection: sqlite3.Connection, sha: str) -> list[sqlite3.Row]:
    """The results of the newest run of this head, whatever the checks were then; none where it had none."""
    return connection.execute(
        """SELECT * FROM results WHERE run = (SELECT max(id) FROM runs WHERE sha = ? AND state <> 'cancelled')
           ORDER BY position""",
        (sha,),
    ).fetchall()


def take_up_dead(connection: sqlite3.Connection) -> int:
    """Queue again the runs whose runner is gone; answers how many runs still have a live one."""
    alive = 0
    for row in connection.execute("SELECT * FROM runs WHERE state = 'running'").fetchall():
        if runs_still(row["runner_pid"], row["runner_identity"]):
            alive += 1
        elif row["takeovers"] >= MAX_TAKEOVERS:
            why = f"the runner of the checks died {MAX_TAKEOVERS + 1} times while it ran them"
            connection.execute(
                "UPDATE results SET state = 'failed', ended_at = ?, detail = ?, tail = ? "
                "WHERE run = ? AND state = 'pending'",
                (now(), why, why, row["id"]),
            )
            connection.execute("UPDATE runs SET state = 'done', ended_at = ? WHERE id = ?", (now(), row["id"]))
        else:
            connection.execute(
                "UPDATE runs SET state = 'queued', runner_pid = NULL, launched = NULL, "
                "takeovers = takeovers + 1 WHERE id = ?",
                (row["id"],),
            )
    return alive


def something_to_launch(connection: sqlite3.Connection) -> bool:
    """A look without writing: a run waits for a runner, or its runner is gone."""
    for row in connection.execute("SELECT * FROM runs WHERE state IN ('queued', 'running')"):
        if row["state"] == "queued":
            if row["launched"] is None or row["launched"] < time.time() - _LAUNCH_SECONDS:
                return True
        elif not runs_still(row["runner_pid"], row["runner_identity"]):
            return True
    return False


def launch(store: Store, layout: Layout) -> None:
    """Start runners for what is queued, within the bound. They live on when this process ends."""
    _children[:] = [child for child in _children if child.poll() is None]
    with store.read() as connection:
        if not something_to_launch(connection):
            return
    stale = time.time() - _LAUNCH_SECONDS
    with store.write() as connection:
        alive = take_up_dead(connection)
        launching = connection.execute(
            "SELECT count(*) FROM runs WHERE state = 'queued' AND launched >= ?", (stale,)
        ).fetchone()[0]
        waiting = connection.execute(
            "SELECT id, sha FROM runs WHERE state = 'queued' AND (launched IS NULL OR launched < ?) "
            "ORDER BY id LIMIT ?",
            (stale, max(0, bound() - alive - launching)),
        ).fetchall()
        for row in waiting:
            connection.execute("UPDATE runs SET launched = ? WHERE id = ?", (time.time(), row["id"]))
    for row in waiting:
        _spawn(layout, row["sha"])


def _spawn(layout: Layout, sha: str) -> None:
    code = str(Path(conductor.__file__).resolve().parents[1])
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (code, os.environ.get("PYTHONPATH", "")))),
    }
    # -P and our own folder as cwd: a managed project may have a package called conductor, too.
    argv = [sys.executable, "-P", "-m", "conductor.forge.local.runner", str(layout.folder), sha]
    try:
        with (layout.logs / "runner.log").open("ab") as log:
            child = subprocess.Popen(
                argv,
                cwd=layout.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        raise Unavailable(
            f"the checks could not be started: {error.strerror or error} ({error.filename or argv[0]})",
            "They are queued and start with the next look at this pull request.",
        ) from error
    # Kept so that it is collected when it ends, and not warned about.
    _children.append(child)


def claim(store: Store, *, finished: int | None = None, prefer: str = "") -> Run | None:
    """End the run ``finished`` of this runner and take the next one, in one transaction; None: nothing to do.

    Both in one, so that a run which was queued while all runners were busy is never left without one.
    """
    pid = os.getpid()
    me = identity(pid)
    with store.write() as connection:
        if finished is not None:
            connection.execute(
                "UPDATE runs SET state = 'done', ended_at = ? "
                "WHERE id = ? AND state = 'running' AND runner_pid = ? AND runner_identity = ?",
                (now(), finished, pid, me),
            )
        if take_up_dead(connection) >= bound():
            return None
        row = connection.execute(
            "SELECT * FROM runs WHERE state = 'queued' ORDER BY (sha = ?) DESC, id LIMIT 1", (prefer,)
        ).fetchone()
        if row is None:
            return None
        cookie = f"{row['id']}-{os.urandom(8).hex()}"
        connection.execute(
            "UPDATE runs SET state = 'running', runner_pid = ?, runner_identity = ?, started_at = ?, "
            "cookie = ? WHERE id = ?",
            (pid, me, now(), cookie, row["id"]),
        )
        left = connection.execute("SELECT pid, identity FROM results WHERE run = ?", (row["id"],)).fetchall()
        connection.execute(
            "UPDATE results SET state = 'pending', exit_code = NULL, detail = '', tail = '', pid = NULL, "
            "started_at = NULL, ended_at = NULL WHERE run = ?",
            (row["id"],),
        )
        checks = connection.execute(
            "SELECT position, name, argv FROM results WHERE run = ? ORDER BY position", (row["id"],)
        ).fetchall()
    _end_left_behind(row["cookie"], left)
    return Run(
        id=row["id"],
        sha=row["sha"],
        timeout=row["timeout"],
        env=tuple(json.loads(row["env"])),
        cookie=cookie,
        checks=tuple((check["position"], check["name"], tuple(json.loads(check["argv"]))) for check in checks),
    )


def _end_left_behind(cookie: str | None, results: Sequence[sqlite3.Row]) -> None:
    """End what an earlier runner of this run left behind when it was killed."""
    for result in results:
        if runs_still(result["pid"], result["identity"]):
            kill(result["pid"], group=True)
    end_cookie(cookie or "")


def end_cookie(cookie: str) -> None:
    """End every process that carries this run's mark."""
    if cookie:
        end_marked(f"{COOKIE}={cookie}")


def is_mine(connection: sqlite3.Connection, run: Run) -> bool:
    """Whether the run is still wanted and still this runner's."""
    row = connection.execute("SELECT state, cookie FROM runs WHERE id = ?", (run.id,)).fetchone()
    return bool(row["state"] == "running" and row["cookie"] == run.cookie)


def record_start(store: Store, run: Run, position: int, log: Path) -> bool:
    """A check begins; False, and nothing written, where the run is not this runner's any more."""
    return _record(
        store,
        run,
        "UPDATE results SET started_at = ?, log = ? WHERE run = ? AND position = ?",
        (now(), str(log)),
        position,
    )


def record_process(store: Store, run: Run, position: int, pid: int) -> bool:
    """The check's process, so that it can be ended when this runner is killed."""
    return _record(
        store,
        run,
        "UPDATE results SET pid = ?, identity = ? WHERE run = ? AND position = ?",
        (pid, identity(pid)),
        position,
    )


def record_outcome(store: Store, run: Run, position: int, outcome: Outcome) -> bool:
    """A check ended; False, and nothing written, where the run is not this runner's any more."""
    return _record(
        store,
        run,
        "UPDATE results SET state = ?, exit_code = ?, detail = ?, tail = ?, ended_at = ?, pid = NULL "
        "WHERE run = ? AND position = ?",
        ("passed" if outcome.passed else "failed", outcome.exit_code, outcome.detail, outcome.tail, now()),
        position,
    )


def _record(store: Store, run: Run, statement: str, values: tuple[str | int | None, ...], position: int) -> bool:
    with store.write() as connection:
        mine = is_mine(connection, run)
        if mine:
            connection.execute(statement, (*values, run.id, position))
    return mine


def set_scratch(store: Store, run: Run, path: Path) -> str | None:
    """Record where the checkout is; answers the one of an earlier runner, to be removed."""
    with store.write() as connection:
        old = connection.execute("SELECT scratch FROM runs WHERE id = ?", (run.id,)).fetchone()[0]
        connection.execute("UPDATE runs SET scratch = ? WHERE id = ? AND cookie = ?", (str(path), run.id, run.cookie))
    return None if old is None else str(old)


def forget_scratch(store: Store, run: Run, path: Path) -> None:
    """The checkout was removed."""
    with store.write() as connection:
        connection.execute("UPDATE runs SET scratch = NULL WHERE id = ? AND scratch = ?", (run.id, str(path)))


def abandoned(store: Store) -> list[tuple[str, str]]:
    """(scratch folder, cookie) of ended runs whose runner was killed before it could clear up; forgotten with
    this.
    """
    with store.write() as connection:
        rows = connection.execute(
            "SELECT * FROM runs WHERE scratch IS NOT NULL AND state IN ('done', 'cancelled')"
        ).fetchall()
        gone = [row for row in rows if not runs_still(row["runner_pid"], row["runner_identity"])]
        connection.executemany("UPDATE runs SET scratch = NULL WHERE id = ?", [(row["id"],) for row in gone])
    return [(row["scratch"], row["cookie"] or "") for row in gone]


def give_back(store: Store, run: Run, *, done: bool) -> None:
    """The runner was asked to end: the run is ``done``, or somebody else may run it."""
    with store.write() as connection:
        connection.execute(
            "UPDATE runs SET state = ?, launched = NULL, ended_at = ? "
            "WHERE id = ? AND cookie = ? AND state = 'running'",
            ("done" if done else "queued", now() if done else None, run.id, run.cookie),
        )
