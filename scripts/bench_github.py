"""What a full run of 16 panes asks of GitHub, beside the same with plain ``gh``. For ``scripts/bench --only github``.

Everything is real but GitHub: scripted workers in panes, a conductor started by ``up``, pushes, the gh program; the
other side is the tests' stand-in (``tests/github``), which counts requests and points by GitHub's rules. The reviewer
always asks for changes, so that every pane is reviewed three times and ends at the cap.

The plain side is counted, not played. Each verb's cost is measured on the same stand-in, when gh has already looked up
what it keeps, and multiplied by how often the run needed it as one works by hand:

- ``gh issue view`` when a task is given, and once a review;
- ``gh pr checks`` for each pane whose checks were awaited in each round in which the conductor asked;
- ``gh pr diff`` and ``gh pr review`` once a review;
- ``gh pr create`` once a pane; ``gh pr view --comments`` and ``gh pr comment`` once a fix.

Not counted there, though the conductor does it: looking whether a request was merged or closed, reading the head before
and after a review, and looking before a post whether it was posted already.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from demo import PYTHON, ROOT, Stage, github

from conductor.forge.github.forge import GithubForge
from worker.tools.config import load_config

PANES = 16
REVIEWS = 3
CHECK = f"{PYTHON} -c 'import time; time.sleep(1)'"
POLL = 0.5
"""Seconds; a check takes one and a little, so that each is asked about a few times."""
PATIENCE = 400.0
REVIEWER = (
    "import json; print(json.dumps({'findings': [{'path': 'readme.txt', 'line': 1, 'severity': 'high', "
    "'message': 'again', 'impact': 'a benchmark', 'rule': 'bench'}]}))"
)
CREATE, COMMENT, TALK = "pr create", "pr comment", "pr view --comments"
CHECKS, DIFF, REVIEW, ISSUE, VIEW = "pr checks", "pr diff", "pr review", "issue view", "pr view --json"


class Cost(NamedTuple):
    """What something asked: HTTP requests, and points (a REST request is one)."""

    requests: int
    points: int

    def __add__(self, other: Any) -> Cost:
        return Cost(self.requests + other.requests, self.points + other.points)

    def times(self, count: int) -> Cost:
        return Cost(self.requests * count, self.points * count)


def cost(asked: Sequence[Mapping[str, Any]]) -> Cost:
    return Cost(len(asked), sum(one["points"] for one in asked))


@dataclass
class Side:
    """The stand-in, as its control door shows it."""

    socket: str

    def recorded(self, since: int = 0) -> tuple[list[dict[str, Any]], Counter[str]]:
        """The requests from number ``since`` on, and how often git was there."""
        if str(ROOT) not in sys.path:
            sys.path.append(str(ROOT))  # the stand-in belongs to the tests, which are not installed
        from tests.github.git_ssh import ask

        status, told = ask(self.socket, "recorded", {"since": since})
        if status != 200:
            raise SystemExit(f"bench: the stand-in answered {status}: {told}")
        return told["requests"], Counter(told["git"])

    def count(self, act: Callable[[], object]) -> Cost:
        """What ``act`` asks."""
        before = len(self.recorded()[0])
        act()
        return cost(self.recorded(before)[0])


@dataclass
class Measured:
    """What the run asked, by who and what for, and how often it needed what."""

    polling: Cost
    reviews: Cost
    workers: Cost
    awaited: int
    """Panes whose checks were awaited, summed over all rounds."""
    reviewed: int
    fixed: int
    fetches: int
    by_name: dict[str, Counter[str]]
    seconds: float

    @property
    def whole(self) -> Cost:
        return self.polling + self.reviews + self.workers


def script() -> dict[str, Any]:
    """Every worker writes a file, and touches it again for each review."""
    body = "Closes #{{issue}}\n\n## Acceptance criteria\n\n- [x] the file is there: work-{{issue}}.txt\n"
    name = "work-{{issue}}.txt"
    write = {"write": {"path": name, "text": "cycle {{cycle}}, task {{task}}\n"}}
    answer = ["taskmaestro", "pr", "comment", "{{pr}}", "--body", "Resolved: written again"]
    first = [write, {"git": ["add", name]}, {"ship": {"title": "Write {{issue}}", "body": body}}]
    fix = [write, {"git": ["add", name]}, {"run": answer}, {"ship": {"amend": True}}]
    return {"turns": [{"task": "first", "steps": first}, {"task": "fix", "repeat": True, "steps": fix}]}


@contextmanager
def played() -> Iterator[tuple[Stage, Side]]:
    """A project on the stand-in, with the issues of all panes; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tm-bench-"))
    made = Stage(folder / "shop", folder / "tmux", lambda _: None, "github")
    try:
        made.root.mkdir()
        (made.root / "readme.txt").write_text("a project\n", encoding="utf-8")
        for argv in (
            ("init", "-q", "-b", "main"),
            ("config", "user.name", "Bench"),
            ("config", "user.email", "bench@example.invalid"),
            ("add", "-A"),
            ("commit", "-q", "-m", "start"),
        ):
            made.run("git", *argv)
        with github(made, folder / "github", CHECK, more_logins=["worker"]) as told:
            try:
                configure(made, folder, told["environments"]["worker"]["GH_CONFIG_DIR"])
                for index in range(PANES):
                    made.taskmaestro("issue", "create", "--title", f"Write {index}", "--body", "Write a file.")
                yield made, Side(told["socket"])
            finally:
                with made.end_of_server():
                    made.taskmaestro("stop", "--panes", check=False)
    finally:
        rmtree(folder, ignore_errors=True)


def configure(made: Stage, folder: Path, worker: str) -> None:
    """The workers act under a login of their own, so that the record tells them from the conductor."""
    (folder / "script.json").write_text(json.dumps(script()), encoding="utf-8")
    home = made.root / ".taskmaestro"
    home.mkdir()
    (home / "config.toml").write_text(
        'agent = "scripted"\n'
        f"[tmux]\nsocket = {json.dumps(str(made.socket))}\npanes_per_window = 8\n"
        f'[agents.scripted]\nargs = ["--script", {json.dumps(str(folder / "script.json"))}]\n'
        f"env = {{ GH_CONFIG_DIR = {json.dumps(worker)} }}\n"
        f'[forge]\nkind = "github"\n[ci]\npoll = {POLL}\n'
        '[battery]\nskip = ["format", "lint", "types", "test"]\n'
        f'[review]\nmax_cycles = {REVIEWS}\nsteps = ["reviewers"]\n'
        f"[review.reviewers]\nagain = {json.dumps([str(PYTHON), '-I', '-S', '-c', REVIEWER])}\n",
        encoding="utf-8",
    )


def run(made: Stage, side: Side) -> Measured:
    """The whole of it, from ``up`` until all panes stand at the cap."""
    before, git_before = side.recorded()
    began = time.monotonic()
    numbers = ",".join(str(index + 1) for index in range(PANES))
    made.taskmaestro("up", str(PANES), "--issues", numbers)
    while not ended(made):
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"bench: not all panes came to their end\n{made.taskmaestro('status')}")
        time.sleep(1)
    seconds = time.monotonic() - began
    made.taskmaestro("stop", "--panes")
    asked, git = side.recorded(len(before))
    workers = [one for one in asked if one["login"] == "worker"]
    polls = [one for one in asked if one["login"] != "worker" and one["name"] == "Poll"]
    others = [one for one in asked if one["login"] != "worker" and one["name"] != "Poll"]
    names = {
        "polling": Counter(one["name"] for one in polls),
        "tasks and reviews": Counter(one["name"] for one in others),
        "workers": Counter(one["name"] for one in workers),
    }
    return Measured(
        polling=cost(polls),
        reviews=cost(others),
        workers=cost(workers),
        awaited=sum(one["document"].count("statusCheckRollup") for one in polls),
        reviewed=names["tasks and reviews"]["submitPullRequestReview"],
        fixed=names["workers"]["addComment"],
        fetches=git["git-upload-pack"] - git_before["git-upload-pack"],
        by_name=names,
        seconds=seconds,
    )


def ended(made: Stage) -> bool:
    panes = [json.loads(path.read_text("utf-8")) for path in (made.root / ".taskmaestro/state/panes").glob("*.json")]
    asking = [pane["attention"] for pane in panes if pane.get("attention")]
    other = [one for one in asking if one["reason"] != "cycle_cap"]
    if other:
        raise SystemExit(f"bench: a pane asks for a person: {json.dumps(other[0])}")
    return len(asking) == PANES


def verbs(made: Stage, side: Side) -> dict[str, Cost]:
    """What each plain verb asks, once gh has looked up what it keeps."""
    for index in (1, 2):
        made.run("git", "switch", "-q", "-c", f"plain-{index}", "main")
        made.run("git", "commit", "-q", "--allow-empty", "-m", f"plain {index}")
        made.run("git", "push", "-q", "origin", f"plain-{index}")
    number = str(json.loads(made.run("gh", "pr", "list", "--json", "number", "--limit", "1").stdout)[0]["number"])
    fields = "state,headRefOid,baseRefOid,statusCheckRollup"
    argv = {
        VIEW: ("pr", "view", number, "--json", fields),
        CHECKS: ("pr", "checks", number),
        DIFF: ("pr", "diff", number),
        REVIEW: ("pr", "review", number, "--comment", "--body", "text"),
        COMMENT: ("pr", "comment", number, "--body", "text"),
        TALK: ("pr", "view", number, "--comments"),
        ISSUE: ("issue", "view", "1", "--json", "number,title,body,state"),
    }
    found = {name: _second(made, side, one, one) for name, one in argv.items()}
    creates = [("pr", "create", "--head", f"plain-{n}", "--title", "T", "--body", "B") for n in (1, 2)]
    return {CREATE: _second(made, side, *creates), **found}


def _second(made: Stage, side: Side, *argvs: Sequence[str]) -> Cost:
    return [side.count(lambda argv=argv: made.run("gh", *argv)) for argv in argvs][-1]  # type: ignore[misc]


def one_round(made: Stage, side: Side) -> Cost:
    """One look at all panes and their checks."""
    forge = GithubForge.open(load_config(made.root), made.root, environment=made.environment())
    numbers = sorted(pull.number for pull in forge.pull_requests() if pull.head_branch.startswith("taskmaestro/"))
    if len(numbers) != PANES:
        raise SystemExit(f"bench: {len(numbers)} pull requests of {PANES} panes")
    return side.count(lambda: forge.poll(numbers, numbers))


class Line(NamedTuple):
    """A row: ours and plain."""

    name: str
    unit: str
    ours: int
    plain: int | None
    aim: str = ""


def measure(say: Callable[[str], object]) -> list[Line]:
    with played() as (made, side):
        ours = run(made, side)
        round_ = one_round(made, side)
        plain = verbs(made, side)
    say(f"github: {ours.seconds:.0f} s, {ours.reviewed} reviews, {ours.fixed} fixes, {ours.awaited} looks at checks")
    for who, names in ours.by_name.items():
        say(f"github: {who}: " + ", ".join(f"{name} {count}" for name, count in names.most_common()))
    say("github: plain: " + ", ".join(f"gh {name} {one.requests}/{one.points}" for name, one in plain.items()))
    polling = plain[CHECKS].times(ours.awaited)
    reviews = plain[ISSUE].times(PANES) + (plain[ISSUE] + plain[DIFF] + plain[REVIEW]).times(ours.reviewed)
    workers = plain[CREATE].times(PANES) + (plain[TALK] + plain[COMMENT]).times(ours.fixed)
    found = []
    for name, mine, theirs in (
        (f"github, {PANES} panes, {REVIEWS} cycles", ours.whole, polling + reviews + workers),
        ("- polling", ours.polling, polling),
        ("- tasks and reviews", ours.reviews, reviews),
        ("- workers' verbs", ours.workers, workers),
        (f"github, one look at {PANES} panes", round_, plain[CHECKS].times(PANES)),
    ):
        found += [Line(name, unit, getattr(mine, unit), getattr(theirs, unit)) for unit in Cost._fields]
    return [*found, Line("github, git reads of the remote", "connections", ours.fetches, None)]
