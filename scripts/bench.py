"""Benchmarks of what users wait for, each beside its floor measured in the same run. Run by ``scripts/bench``.

- reaction: RESULT.json renamed -> fix line pasted into a pane whose agent is known to be idle, with 1, 16 and 100
  panes and a review that takes no time; the floor is one inotify event plus one tmux buffer paste done by hand.
- up: ``taskmaestro up`` -> the scripted agent has its prompt; the floor is the same tmux commands by hand.
- idle: processor share and memory of a conductor with 16 idle panes.
- start: ``taskmaestro --help`` and ``status --json``, process start to exit, beside ``python -c pass``.
- loops: one ``taskmaestro loop reviewer --input``, process start to exit, beside ``python3 -c pass`` and, where it is
  there, ``node -e 0``; and 10,000 snapshots as JSON Lines.
- github: requests and points of a full run of 16 panes on the stand-in for GitHub; the floor is the same by plain
  ``gh`` (``bench_github.py`` says how it is counted). It takes some two minutes, so it runs only where it is asked for:
  ``--only github``. The others together take under three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from conductor.layout import Layout
from conductor.loop.assemble import outside_of
from conductor.loop.conductor import Conductor, Outside
from conductor.ports import Panes, ReviewRequest
from schemas.finding import Finding, Severity
from schemas.review import Review, Verdict
from worker.tools.config import load_config

PYTHON = sys.executable
SCRIPT = {"turns": [{"repeat": True, "steps": [{"say": "noted"}]}]}
SAMPLES = 12
CYCLES = 9
DEFAULT = ("start", "loops", "up", "idle", "reaction")
COUNTED = ("requests", "points", "connections")
"""Units of what is counted, not measured."""
SNAPSHOTS = 10_000
SNAPSHOT = {"prExists": True, "prNumber": 12, "prHeadSha": "a" * 40, "reviewRequested": True}


@dataclass
class Row:
    """One line of the table: seconds, and the ratio to the floor where there is one."""

    name: str
    p50: float
    p99: float
    unit: str = "ms"
    floor: float | None = None
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        return self.p99 / self.floor if self.floor else None


@dataclass
class World:
    """A repository with the embedded forge, a private tmux server, and a way to run the command."""

    root: Path
    socket: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str, check: bool = True, cwd: Path | None = None) -> str:
        done = subprocess.run(argv, cwd=cwd or self.root, capture_output=True, text=True, env=self.environment)
        if check and done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def taskmaestro(self, *argv: str, cwd: Path | None = None) -> str:
        return self.run(PYTHON, "-m", "conductor", *argv, cwd=cwd)

    def tmux(self, *argv: str) -> str:
        return self.run("tmux", "-S", str(self.socket), *argv)


@contextmanager
def world() -> Iterator[World]:
    """A world of its own, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tm-bench-"))
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    identity = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()}
    made = World(folder / "project", folder / "tmux", {"TERM": "xterm-256color", **kept, **identity})
    try:
        made.root.mkdir()
        (made.root / "readme.txt").write_text("a project\n", encoding="utf-8")
        made.run("git", "init", "-q", "-b", "main")
        made.run("git", "add", "-A")
        made.run("git", "commit", "-q", "-m", "start")
        (folder / "script.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
        home = made.root / ".taskmaestro"
        home.mkdir()
        (home / "config.toml").write_text(
            f'agent = "scripted"\n[tmux]\nsocket = "{made.socket}"\npanes_per_window = 12\n'
            f'[agents.scripted]\nargs = ["--script", "{folder / "script.json"}"]\n'
            f"[review]\nmax_cycles = {CYCLES}\n"
            '[forge.local.checks]\nok = ["true"]\n',
            encoding="utf-8",
        )
        yield made
    finally:
        subprocess.run(["tmux", "-S", str(made.socket), "kill-server"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


_IDENTITY = {"NAME": "Bench", "EMAIL": "bench@example.invalid"}


class AlwaysChanges:
    """A review that takes no time and always asks for the same change."""

    def review(self, request: ReviewRequest, cancelled: Callable[[], bool]) -> Review:  # noqa: ARG002 - the port's
        finding = Finding(
            path="readme.txt", line=1, severity=Severity.HIGH, message="again", impact="a benchmark", rule="bench"
        )
        return Review(
            review_id=request.review_id,
            cycle=request.cycle,
            head=request.head,
            base=request.base,
            verdict=Verdict.CHANGES,
            findings=(finding,),
        )


class PasteTimes:
    """Notes when a line was pasted, by standing between the pane adapter and its paste."""

    def __init__(self, panes: Panes) -> None:
        courier = panes._courier  # type: ignore[attr-defined]  # the only place at which "pasted" can be seen
        module = sys.modules[type(courier).__module__]
        attempt = module._Attempt
        original, times = attempt._paste, self

        def paste(self: Any, *args: Any, **more: Any) -> Any:
            done = original(self, *args, **more)
            times.note(self._pane)
            return done

        attempt._paste = paste
        self._restore = lambda: setattr(attempt, "_paste", original)
        self._changed = threading.Condition()
        self._at: dict[str, float] = {}

    def note(self, pane_id: str) -> None:
        with self._changed:
            self._at[pane_id] = time.perf_counter()
            self._changed.notify_all()

    def after(self, pane_id: str, since: float, timeout: float = 20.0) -> float:
        with self._changed:
            fits = self._changed.wait_for(lambda: self._at.get(pane_id, 0.0) > since, timeout)
            if not fits:
                raise SystemExit(f"bench: nothing was pasted into {pane_id} within {timeout:.0f} s")
            return self._at[pane_id]

    def restore(self) -> None:
        self._restore()


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))]


def reaction_floor(made: World, pane_id: str) -> list[float]:
    """One inotify event plus one tmux buffer paste by hand, on the same server."""
    folder = made.root.parent / "floor"
    folder.mkdir(exist_ok=True)
    seen = threading.Event()

    class Seen(FileSystemEventHandler):
        def on_moved(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - the handler's
            seen.set()

        def on_created(self, event: FileSystemEvent) -> None:
            if os.fsdecode(event.src_path).endswith("RESULT.json"):
                seen.set()

    observer = Observer()
    observer.schedule(Seen(), str(folder))
    observer.start()
    tmux = ["tmux", "-S", str(made.socket)]
    values = []
    try:
        for _ in range(SAMPLES):
            (folder / "RESULT.json").unlink(missing_ok=True)
            (folder / "new").write_text("{}", encoding="utf-8")
            time.sleep(0.02)
            seen.clear()
            began = time.perf_counter()
            (folder / "new").replace(folder / "RESULT.json")
            seen.wait(5)
            subprocess.run([*tmux, "load-buffer", "-b", "floor", "-"], input=b"a short line", check=True)
            subprocess.run([*tmux, "paste-buffer", "-p", "-d", "-b", "floor", "-t", pane_id], check=True)
            values.append(time.perf_counter() - began)
            subprocess.run([*tmux, "send-keys", "-t", pane_id, "C-u"], check=True)
    finally:
        observer.stop()
        observer.join()
    return values


class Reaction:
    """A conductor with so many panes, and one worker that reports again and again."""

    def __init__(self, made: World, panes: int) -> None:
        self.made = made
        self.count = panes
        self.layout = Layout(made.root)

    def measure(self, samples: int) -> tuple[list[float], list[float]]:
        """Reactions and floors, in seconds."""
        self.made.taskmaestro("issue", "create", "--title", "Benchmark", "--body", "Nothing.")
        self.made.taskmaestro("up", str(self.count))
        self.made.taskmaestro("stop")
        config = load_config(self.layout.root)
        outside = outside_of(self.layout, config)
        outside = Outside(**{**outside.__dict__, "reviewer": AlwaysChanges()})
        conductor = Conductor(self.layout, config, outside)
        times = PasteTimes(outside.panes)
        thread = threading.Thread(target=conductor.run)
        thread.start()
        try:
            self._until(lambda: len(conductor.engine.fleet.panes) == self.count, "the panes")
            floors = reaction_floor(self.made, self._pane_id(conductor, self.count))
            self._until(lambda: self._all_known(conductor), "every pane to be known as idle")
            values: list[float] = []
            workers = [index % self.count + 1 for index in range(samples)]
            for index in workers:
                values.append(self._one(conductor, times, index))
            return values, floors
        finally:
            conductor.stop()
            thread.join()
            times.restore()

    def _all_known(self, conductor: Conductor) -> bool:
        """A conductor that has just started looks at each pane once; what is measured is one at its work."""
        return all(
            conductor.supervisor.known_idle(pane.pane_id or "") for pane in conductor.engine.fleet.panes.values()
        )

    def _pane_id(self, conductor: Conductor, index: int) -> str:
        return conductor.engine.fleet.panes[index].pane_id or ""

    def _one(self, conductor: Conductor, times: PasteTimes, index: int) -> float:
        pane_id = self._pane_id(conductor, index)
        self._until(lambda: conductor.supervisor.known_idle(pane_id), f"pane {index} to be idle")
        result = self._ready(conductor, index)
        time.sleep(0.8)  # idle is known only of an agent whose screen stood still for half a second
        folder = self.layout.worktree(index)
        staged = folder / ".git-result.tmp"
        staged.write_text(json.dumps(result), encoding="utf-8")
        began = time.perf_counter()
        staged.replace(folder / "RESULT.json")
        value = times.after(pane_id, began) - began
        cycle = conductor.engine.fleet.panes[index].review_cycle
        self._until(
            lambda: self._delivered(conductor, index) and conductor.engine.fleet.panes[index].review_cycle == cycle,
            "the delivery",
        )
        return value

    def _delivered(self, conductor: Conductor, index: int) -> bool:
        task = conductor.engine.fleet.panes[index].task
        return task is not None and task.delivery == "delivered"

    def _ready(self, conductor: Conductor, index: int) -> dict[str, Any]:
        """A pull request with green checks and an answer on it, so that only the conductor's own time is measured."""
        pane = conductor.engine.fleet.panes[index]
        folder = self.layout.worktree(index)
        forge = conductor.outside.forge
        if pane.pr_number is None:
            (folder / "work.txt").write_text(f"work of pane {index}\n", encoding="utf-8")
            self.made.run("git", "add", "work.txt", cwd=folder)
            self.made.run("git", "commit", "-q", "-m", f"work {index}", cwd=folder)
            self.made.run("git", "push", "-q", "origin", "HEAD", cwd=folder)
            branch = pane.branch or ""
            pull = forge.create_pull_request(
                branch=branch, base="main", title="Work", body="", draft=False, author=f"worker-{index}"
            )
            self._until(lambda: forge.checks([pull.number])[pull.number].state == "passed", "green checks")
            return {"status": "success", "pr_number": pull.number}
        forge.comment(pane.pr_number, "Resolved: done", author=f"worker-{index}")
        return {"status": "review_addressed", "review_cycle": pane.review_cycle}

    def _until(self, fits: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not fits():
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: waited {timeout:.0f} s for {what}")
            time.sleep(0.01)


def reactions(counts: Sequence[int], samples: int) -> list[Row]:
    rows = []
    for count in counts:
        values: list[float] = []
        floors: list[float] = []
        while len(values) < samples:
            # One pull request gives as many samples as the cap of cycles allows.
            wanted = min(samples - len(values), count * (CYCLES - 1))
            with world() as made:
                more, floor = Reaction(made, count).measure(wanted)
            values += more
            floors += floor
        rows.append(
            Row(
                f"reaction, {count} pane(s)",
                statistics.median(values) * 1000,
                percentile(values, 0.99) * 1000,
                floor=percentile(floors, 0.99) * 1000,
                aim="p99 at most 3 times the floor",
            )
        )
    return rows


def up_to_prompt() -> Row:
    """``taskmaestro up`` until the agent recorded its prompt, beside the same tmux commands by hand."""
    values, floors = [], []
    for _ in range(3):
        with world() as made:
            made.taskmaestro("issue", "create", "--title", "Benchmark", "--body", "Nothing.")
            receipts = made.root / ".taskmaestro" / "state" / "receipts" / "pane-1.jsonl"
            began = time.perf_counter()
            made.taskmaestro("up", "1", "--issues", "1")
            _until_recorded(receipts)
            values.append(time.perf_counter() - began)
        with world() as made:
            floors.append(_by_hand(made))
    return Row(
        "up to prompt delivered",
        statistics.median(values) * 1000,
        max(values) * 1000,
        floor=statistics.median(floors) * 1000,
        aim="at most 3 times the floor",
    )


def _by_hand(made: World) -> float:
    receipts = made.root.parent / "by-hand.jsonl"
    hook = [PYTHON, "-I", "-S", str(Path(__file__).resolve().parents[1] / "worker" / "hook.py")]
    settings = {
        "TASKMAESTRO_RECEIPTS": str(receipts),
        "TASKMAESTRO_PANE": "1",
        "TASKMAESTRO_HOOK": json.dumps(hook),
    }
    options = [part for name, value in settings.items() for part in ("-e", f"{name}={value}")]
    agent = [PYTHON, "-P", "-m", "worker.scripted", "--script", str(made.root.parent / "script.json")]
    began = time.perf_counter()
    made.run("git", "worktree", "add", "-q", "-b", "by-hand", str(made.root.parent / "wt"))
    made.tmux("new-session", "-d", "-s", "by-hand", "sh", "-c", "exec cat")
    made.tmux(
        "split-window", "-t", "=by-hand:", *options, "-c", str(made.root.parent / "wt"), *agent, "[msg 1] x [end 1]"
    )
    _until_recorded(receipts)
    return time.perf_counter() - began


def _until_recorded(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and b'"prompt"' in path.read_bytes()):
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: no prompt was recorded in {path}")
        time.sleep(0.002)


def idle(seconds: float) -> list[Row]:
    """Processor share and memory of a conductor whose 16 panes are idle."""
    with world() as made:
        up = json.loads(made.taskmaestro("up", "16", "--json"))
        pid = up["conductor"]["pid"]
        layout = Layout(made.root)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            states = [json.loads(path.read_text()) for path in layout.panes.glob("*.json")]
            if len(states) == 16 and all(state["pane_id"] for state in states):
                break
            time.sleep(0.1)
        time.sleep(6)
        before = _processor_seconds(pid)
        time.sleep(seconds)
        share = (_processor_seconds(pid) - before) / seconds * 100
        resident = _resident_mb(pid)
    return [
        Row("idle, 16 panes: processor", share, share, unit="% of a core", aim="under 0.2 %"),
        Row("idle, 16 panes: memory", resident, resident, unit="MB", aim="under 90 MB"),
    ]


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"bench: /proc/{pid}/status names no resident memory")


def starts() -> list[Row]:
    """Process start to exit of the read verbs."""
    with world() as made:
        made.taskmaestro("up", "2")
        command = str(Path(PYTHON).with_name("taskmaestro"))
        floor = _timed(made, PYTHON, "-c", "pass")
        rows = []
        for name, argv in (("taskmaestro --help", ["--help"]), ("taskmaestro status --json", ["status", "--json"])):
            values = _timed(made, command, *argv)
            rows.append(
                Row(
                    name,
                    statistics.median(values) * 1000,
                    percentile(values, 0.99) * 1000,
                    floor=percentile(floor, 0.99) * 1000,
                    aim="under 120 ms",
                )
            )
    return rows


def loops() -> list[Row]:
    """A detector's answer, and many of them. The calls take turns, so that a busy moment hits all alike."""
    with world() as made:
        snapshot = made.root / "snapshot.json"
        snapshot.write_text(json.dumps(SNAPSHOT), encoding="utf-8")
        many = made.root / "snapshots.jsonl"
        many.write_text(f"{json.dumps(SNAPSHOT)}\n" * SNAPSHOTS, encoding="utf-8")
        command = str(Path(PYTHON).with_name("taskmaestro"))
        calls = {"python3 -c pass": (PYTHON, "-c", "pass")}
        if shutil.which("node"):
            calls["node -e 0"] = ("node", "-e", "0")
        calls["loop reviewer --input FILE"] = (command, "loop", "reviewer", "--input", str(snapshot))
        values: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(25):
            for name, argv in calls.items():
                began = time.perf_counter()
                made.run(*argv)
                values[name].append(time.perf_counter() - began)
        whole = []
        for _ in range(5):
            began = time.perf_counter()
            made.run(command, "loop", "reviewer", "--input", str(many))
            whole.append(time.perf_counter() - began)
    floor = percentile(values["python3 -c pass"], 0.99) * 1000
    rows = [Row(name, statistics.median(one) * 1000, percentile(one, 0.99) * 1000) for name, one in values.items()]
    rows[-1].floor, rows[-1].aim = floor, "under 6 times python3 -c pass"
    name = f"loop reviewer, {SNAPSHOTS:,} lines"
    return [*rows, Row(name, statistics.median(whole) * 1000, percentile(whole, 0.99) * 1000, aim="under 2,000 ms")]


def github() -> list[Row]:
    """What a run on GitHub asks; the floor is what plain gh would. Loaded here: the rest needs no stand-in."""
    from bench_github import measure

    lines = measure(lambda text: print(f"bench: {text}", file=sys.stderr, flush=True))
    return [Row(line.name, line.ours, line.ours, line.unit, line.plain, line.aim) for line in lines]


def _timed(made: World, *argv: str) -> list[float]:
    values = []
    for _ in range(15):
        began = time.perf_counter()
        made.run(*argv)
        values.append(time.perf_counter() - began)
    return values


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| what | p50 | p99 | floor (p99) | p99 / floor | aim |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        counted = row.unit in COUNTED
        digits = 0 if counted else 1
        floor = f"{row.floor:.{digits}f} {row.unit}" if row.floor is not None else ""
        ratio = f"{row.ratio:.{2 if counted else 1}f}" if row.ratio is not None else ""
        values = " | ".join(f"{value:.{digits}f} {row.unit}" for value in (row.p50, row.p99))
        lines.append(f"| {row.name} | {values} | {floor} | {ratio} | {row.aim} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    only = "this alone; github is not in the default run"
    parser.add_argument("--only", choices=[*DEFAULT, "github"], action="append", help=only)
    parser.add_argument("--panes", type=int, action="append", help="pane counts for the reaction; default 1, 16, 100")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    options = parser.parse_args()
    wanted = options.only or DEFAULT
    rows: list[Row] = []
    for name in wanted:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        if name == "start":
            rows += starts()
        elif name == "loops":
            rows += loops()
        elif name == "up":
            rows.append(up_to_prompt())
        elif name == "idle":
            rows += idle(15.0)
        elif name == "github":
            rows += github()
        else:
            rows += reactions(options.panes or [1, 16, 100], options.samples)
    if options.json:
        print(json.dumps([{**row.__dict__, "ratio": row.ratio} for row in rows]))
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
