"""The demonstration: four workers, four endings, one kill -9. Run by ``scripts/demo``; everything in it is real.

A small project is made in a temporary folder, with a private tmux server and the embedded forge. The workers are
scripted agents: real programs in real panes that edit, commit, push and report as their script says.

With ``--forge github`` the same is played through the real ``gh``, against the tests' stand-in (``tests/github``): it
executes GitHub's published schema on this machine, and git pushes into a bare repository of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from conductor.panes.processes import end, tree

PYTHON = Path(sys.executable)
ROOT = Path(__file__).resolve().parents[1]
TEST = shlex.join([str(PYTHON), "-m", "unittest", "-q"])
BUDGET = 80.0
"""Seconds for the whole piece; ``--budget`` gives a busy machine more."""
ISSUES = (
    ("Add a discount", "## Acceptance criteria\n\n- [ ] `discount` lowers a price by a percentage\n"),
    ("Round prices to cents", "## Acceptance criteria\n\n- [ ] `rounded` rounds half up\n"),
    ("Add sales tax", "## Acceptance criteria\n\n- [ ] `with_tax` adds a tax rate\n"),
    (
        "Convert currencies",
        "## Acceptance criteria\n\n- [ ] `convert` multiplies by a rate\n- [ ] an unknown currency is refused\n",
    ),
)
EXPECTED = {
    1: ("approved", 0, None),
    2: ("approved", 0, None),
    3: ("approved", 1, None),
    4: ("review_pending", 3, "cycle_cap"),
}
PROJECT = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n\n[tool.ruff]\nline-length = 100\n',
    "shop.py": '"""Prices of a small shop."""\n\n\ndef total(prices):\n    """The sum of all prices."""\n'
    "    return sum(prices)\n",
    "test_shop.py": "import unittest\n\nimport shop\n\n\nclass ShopTest(unittest.TestCase):\n"
    "    def test_total_adds_up(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n",
}


def _function(name: str, body: str, words: str) -> str:
    return f'"""{words}"""\n\n\ndef {name}:\n    """{words}"""\n    {body}\n'


def _test(module: str, name: str, call: str, expected: str) -> str:
    title = "".join(part.title() for part in module.split("_"))
    return (
        f"import unittest\n\nimport {module}\n\n\nclass {title}Test(unittest.TestCase):\n"
        f"    def test_{name}(self):\n        self.assertEqual({module}.{call}, {expected})\n"
    )


def _body(issue: int, *claims: str) -> str:
    return f"Closes #{issue}\n\n## Acceptance criteria\n\n" + "\n".join(claims) + "\n"


def script() -> dict[str, Any]:
    """What the four workers do, by issue and task."""
    discount = _function("discount(price, percent)", "return price * (100 - percent) / 100", "A discount.")
    rounded = _function("rounded(price)", "return int(price * 100 + 0.5) / 100", "Prices in whole cents.")
    tax = _function("with_tax(price, rate)", "return price + price * rate", "Sales tax.")
    convert = _function("convert(price, rate)", "return price * rate", "Other currencies.")
    return {
        "turns": [
            {
                "issue": 1,
                "task": "first",
                "steps": [
                    {"say": "Writing discount and its test"},
                    {"write": {"path": "discount.py", "text": discount}},
                    {
                        "write": {
                            "path": "test_discount.py",
                            "text": _test("discount", "lowers", "discount(10, 50)", "5"),
                        }
                    },
                    {"git": ["add", "discount.py", "test_discount.py"]},
                    {
                        "ship": {
                            "title": "Add a discount",
                            "body": _body(1, "- [x] `discount` lowers a price by a percentage: test_discount.py"),
                        }
                    },
                ],
            },
            {
                "issue": 2,
                "task": "first",
                "steps": [
                    {"say": "In a hurry: pushing without running the checks"},
                    {"write": {"path": "rounded.py", "text": rounded.replace("+ 0.5", "- 0.5")}},
                    {
                        "write": {
                            "path": "test_rounded.py",
                            "text": _test("rounded", "half_up", "rounded(1.005)", "1.0"),
                        }
                    },
                    {"git": ["add", "rounded.py", "test_rounded.py"]},
                    {"git": ["commit", "-q", "-m", "Round prices"]},
                    {"git": ["push", "-q", "-u", "origin", "HEAD"]},
                    {
                        "run": [
                            *("taskmaestro", "pr", "create", "--title", "Round prices to cents"),
                            *("--body", _body(2, "- [x] `rounded` rounds half up: test_rounded.py")),
                        ]
                    },
                    {"report": {"kind": "success"}},
                ],
            },
            {
                "issue": 2,
                "task": "ci",
                "steps": [
                    {"say": "CI is right: mending the rounding"},
                    {"write": {"path": "rounded.py", "text": rounded}},
                    {"git": ["add", "rounded.py"]},
                    {"ship": {"amend": True}},
                ],
            },
            {
                "issue": 3,
                "task": "first",
                "steps": [
                    {"say": "Writing with_tax; tests can wait"},
                    {"write": {"path": "tax.py", "text": tax}},
                    {"git": ["add", "tax.py"]},
                    {
                        "ship": {
                            "title": "Add sales tax",
                            "body": _body(3, "- [x] `with_tax` adds a tax rate: tax.py"),
                        }
                    },
                ],
            },
            {
                "issue": 3,
                "task": "fix",
                "steps": [
                    {"say": "The review is right: adding the test"},
                    {"write": {"path": "test_tax.py", "text": _test("tax", "adds_tax", "with_tax(100, 0.5)", "150")}},
                    {"git": ["add", "test_tax.py"]},
                    {"ship": {"amend": True}},
                ],
            },
            {
                "issue": 4,
                "task": "first",
                "steps": [
                    {"say": "Writing convert"},
                    {"write": {"path": "convert.py", "text": convert}},
                    {"write": {"path": "test_convert.py", "text": _test("convert", "rate", "convert(2, 3)", "6")}},
                    {"git": ["add", "convert.py", "test_convert.py"]},
                    {
                        "ship": {
                            "title": "Convert currencies",
                            "body": _body(
                                4,
                                "- [x] `convert` multiplies by a rate: test_convert.py",
                                "- [ ] an unknown currency is refused",
                            ),
                        }
                    },
                ],
            },
            {
                "issue": 4,
                "task": "fix",
                "repeat": True,
                "steps": [
                    {"say": "Rewording a comment, and hoping"},
                    {"write": {"path": "convert.py", "text": convert + "# cycle {{cycle}}\n"}},
                    {"git": ["add", "convert.py"]},
                    {"ship": {"amend": True}},
                ],
            },
        ]
    }


class DemoError(Exception):
    """The demonstration did not go as it should."""


@dataclass
class Stage:
    """Where the demonstration plays: the repository, the tmux socket, and what it says to its watcher."""

    root: Path
    socket: Path
    say: Callable[[str], None]
    forge: str = "local"
    more: dict[str, str] = field(default_factory=dict)
    """Variables by which gh and git reach the stand-in for GitHub."""

    def run(self, *argv: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(argv, cwd=self.root, capture_output=True, text=True, input=text, env=self.environment())
        if check and done.returncode != 0:
            raise DemoError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def taskmaestro(self, *argv: str, check: bool = True) -> str:
        return self.run(str(PYTHON), "-m", "conductor", *argv, check=check).stdout

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.taskmaestro("status", "--json"))
        return answer

    def tmux(self, *argv: str) -> str:
        return self.run("tmux", "-S", str(self.socket), *argv, check=False).stdout

    @contextmanager
    def end_of_server(self) -> Iterator[None]:
        """Whatever is done inside, the tmux server and all that ran under it have ended afterwards."""
        server = self.tmux("display-message", "-p", "#{pid}").strip()
        family = tree(int(server)) if server.isdigit() else frozenset()
        yield
        self.tmux("kill-server")
        end(family, grace=5.0)

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "LC_ALL", "TERM", "TMPDIR") if name in os.environ}
        path = str(PYTHON.parent) + os.pathsep + os.environ.get("PATH", os.defpath)
        return {"TERM": "xterm-256color", **kept, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **self.more}


@contextmanager
def github(made: Stage, folder: Path, test: str = TEST, *, more_logins: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The stand-in for GitHub in a process of its own: the project is ``octo/shop``, its check is ``test``.

    Yields what the stand-in says of itself: its socket, and each login's environment for gh.
    """
    argv = [str(PYTHON), "-m", "tests.github", "--folder", str(folder), "--repository", f"octo/shop={made.root}"]
    argv += [part for login in ("maestro", *more_logins) for part in ("--login", login)]
    argv += ["--check", f"test={test}"]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    door, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
    try:
        first = answers.readline()
        if not first:
            raise DemoError("the stand-in for GitHub did not start (scripts/setup --with-github fetches what it needs)")
        told: dict[str, Any] = json.loads(first)
        made.more = told["environments"]["maestro"]
        made.more["PATH"] = str(PYTHON.parent) + os.pathsep + made.more["PATH"]
        yield told
    finally:
        door.close()
        answers.close()
        honest = process.wait(timeout=30) == 0
    if not honest:
        raise DemoError("the stand-in for GitHub was asked what it does not model; its lines above say what")


@contextmanager
def stage(say: Callable[[str], None], forge: str = "local") -> Iterator[Stage]:
    """A fresh project and a private tmux server, both gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tm-demo-"))
    made = Stage(folder / "shop", folder / "tmux", say, forge)
    try:
        made.root.mkdir()
        for name, text in PROJECT.items():
            (made.root / name).write_text(text, encoding="utf-8")
        made.run("git", "init", "-q", "-b", "main")
        made.run("git", "config", "user.name", "Demo")
        made.run("git", "config", "user.email", "demo@example.invalid")
        made.run("git", "add", "-A")
        made.run("git", "commit", "-q", "-m", "A small shop")
        with github(made, folder / "github") if forge == "github" else nullcontext():
            try:
                yield made
            finally:
                with made.end_of_server():
                    if (made.root / ".taskmaestro").exists():
                        made.taskmaestro("stop", "--panes", check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


UNITTEST = f'test = [{json.dumps(str(PYTHON))}, "-m", "unittest", "-q"]\n\n'
FORGES = {
    "local": f"[forge.local.checks]\n{UNITTEST}",
    # Nothing tells of a change on GitHub, so the demonstration asks more often than one should.
    "github": '[forge]\nkind = "github"\n\n[ci]\npoll = 1.0\n\n',
}


def configure(made: Stage) -> None:
    """``init`` as a user would, then the demonstration's own agent, socket and pace."""
    made.taskmaestro("init", "--forge", made.forge)
    path = made.root / ".taskmaestro" / "config.toml"
    (made.root.parent / "script.json").write_text(json.dumps(script()), encoding="utf-8")
    path.write_text(
        'agent = "scripted"\n\n'
        f"[tmux]\nsocket = {json.dumps(str(made.socket))}\n\n"
        f'[agents.scripted]\nargs = ["--script", {json.dumps(str(made.root.parent / "script.json"))}]\n\n'
        f"{FORGES[made.forge]}[battery]\n{UNITTEST}[review.verification]\n{UNITTEST}",
        encoding="utf-8",
    )


def wait_for(made: Stage, what: str, fits: Callable[[dict[int, dict[str, Any]]], bool], deadline: float) -> None:
    """Until the panes fit; raises ``DemoError`` with their states where they do not in time."""
    while True:
        panes = {pane["index"]: pane for pane in made.status()["panes"]}
        if fits(panes):
            return
        if time.monotonic() > deadline:
            shown = made.taskmaestro("status")
            raise DemoError(f"not in time: {what}\n{shown}")
        time.sleep(0.15)


def _ended(panes: dict[int, dict[str, Any]]) -> bool:
    return all(
        index in panes and (panes[index]["status"] == "approved" or panes[index]["attention"] is not None)
        for index in EXPECTED
    )


def play(made: Stage, budget: float = BUDGET) -> dict[str, Any]:
    """The whole piece; answers what came of it. Raises ``DemoError`` where it takes longer than ``budget`` seconds."""
    deadline = time.monotonic() + budget
    configure(made)
    for title, body in ISSUES:
        made.taskmaestro("issue", "create", "--title", title, "--body", body)
    made.say("$ taskmaestro up 4 --issues 1,2,3,4")
    made.say(made.taskmaestro("up", "4", "--issues", "1,2,3,4").rstrip())
    wait_for(
        made,
        "a fix task under way",
        lambda panes: any(pane["review_cycle"] == 1 and pane["status"] == "review_pending" for pane in panes.values()),
        deadline,
    )
    first = made.status()["conductor"]["pid"]
    made.say(f"\n$ kill -9 {first}      (the conductor, in the middle of its work)")
    os.kill(first, signal.SIGKILL)
    made.say("$ taskmaestro up")
    made.say(made.taskmaestro("up").rstrip())
    wait_for(made, "every pane at its end", _ended, deadline)
    second = made.status()["conductor"]["pid"]
    made.say("\n$ taskmaestro status\n" + made.taskmaestro("status"))
    made.say("$ taskmaestro replay")
    replay = made.run(str(PYTHON), "-m", "conductor", "replay", check=False)
    made.say(replay.stdout.rstrip())
    return result(made, recovered=second != first and replay.returncode == 0)


def result(made: Stage, *, recovered: bool) -> dict[str, Any]:
    """Counted from what is really there: the pull requests' reviews, and the journal's deliveries."""
    panes = [
        {
            "index": pane["index"],
            "status": pane["status"],
            "review_cycle": pane["review_cycle"],
            "attention": pane["attention"]["reason"] if pane["attention"] else None,
        }
        for pane in made.status()["panes"]
    ]
    posted: list[str] = []
    for pull in json.loads(made.taskmaestro("pr", "list", "--json")):
        shown = json.loads(made.taskmaestro("pr", "view", str(pull["number"]), "--comments", "--json"))
        posted += [one["id"] for one in shown["comments"] if "<!-- taskmaestro: review=" in one["body"]]
    delivered = [
        line["event"]["task_id"]
        for text in made.taskmaestro("journal", "--json").splitlines()
        if (line := json.loads(text)).get("event") and line["event"]["kind"] == "task_delivered"
    ]
    return {
        "panes": sorted(panes, key=lambda pane: pane["index"]),
        "reviews_posted": len(posted),
        "tasks_delivered": len(set(delivered)),
        "recovered": recovered and len(delivered) == len(set(delivered)),
    }


def as_it_should(value: dict[str, Any]) -> list[str]:
    """What came out otherwise than it should; empty where all is well."""
    wrong = []
    seen = {pane["index"]: (pane["status"], pane["review_cycle"], pane["attention"]) for pane in value["panes"]}
    for index, expected in EXPECTED.items():
        if seen.get(index) != expected:
            wrong.append(f"pane {index}: expected {expected}, found {seen.get(index)}")
    if value["reviews_posted"] != 7:
        wrong.append(f"expected 7 reviews (1 + 1 + 2 + 3), found {value['reviews_posted']}")
    if value["tasks_delivered"] != 8:
        wrong.append(f"expected 8 tasks (4 first, 1 CI, 3 fixes), found {value['tasks_delivered']}")
    if not value["recovered"]:
        wrong.append("the conductor did not recover as it should")
    return wrong


def show_panes(made: Stage) -> None:
    """What the panes show in the end, as they really are."""
    listed = made.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_title}").splitlines()
    for line in listed:
        pane_id, _, title = line.partition(" ")
        screen = [row for row in made.tmux("capture-pane", "-p", "-t", pane_id).splitlines() if row.strip()]
        made.say(f"--- pane {pane_id}: {title} ---\n" + "\n".join(screen[-12:]))


def attach_while(made: Stage, work: threading.Thread) -> None:
    """On a terminal, show the panes themselves while the piece plays."""
    while work.is_alive() and not made.tmux("list-sessions", "-F", "#{session_name}"):
        time.sleep(0.1)
    session = made.tmux("list-sessions", "-F", "#{session_name}").strip().splitlines()
    if session and work.is_alive():
        environment = {name: value for name, value in os.environ.items() if name != "TMUX"}
        subprocess.run(["tmux", "-u", "-S", str(made.socket), "attach", "-t", f"={session[0]}"], env=environment)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON object on stdout")
    parser.add_argument("--attach", action="store_true", help="show the panes themselves in this terminal meanwhile")
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS", help="give up after so long")
    parser.add_argument("--forge", choices=sorted(FORGES), default="local", help="where the pull requests are")
    options = parser.parse_args()
    said: list[str] = []
    quiet = options.json or options.attach

    def say(text: str) -> None:
        said.append(text)
        if options.json:
            print(text, file=sys.stderr, flush=True)
        elif not options.attach:
            print(text, flush=True)

    outcome: dict[str, Any] = {}

    def work(made: Stage) -> None:
        try:
            outcome["value"] = play(made, options.budget)
            show_panes(made)
        except DemoError as fault:
            outcome["fault"] = str(fault)
            show_panes(made)
        if options.attach:
            with made.end_of_server():
                time.sleep(5)

    try:
        with stage(say, options.forge) as made:
            thread = threading.Thread(target=work, args=(made,))
            thread.start()
            if options.attach:
                attach_while(made, thread)
            thread.join()
    except DemoError as fault:
        outcome["fault"] = str(fault)
    if quiet and options.attach:
        print("\n".join(said))
    wrong = [outcome["fault"]] if "fault" in outcome else as_it_should(outcome["value"])
    for text in wrong:
        print(f"demo: {text}", file=sys.stderr)
    if options.json and "value" in outcome:
        print(json.dumps(outcome["value"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
