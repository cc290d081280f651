"""Every command that the README shows is run here, in its order, in a real project with real panes.

A command that no step below knows fails the test: whoever adds one to the README says here what it must do.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.panes.agents import agent_kinds
from conductor.ports import Screen
from schemas.config import Config
from tests.support.sample_project import Sample, first_turn, fix_turn
from tests.support.tmux_server import private_server, tmux
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CHECKOUT = {"scripts/demo", "scripts/test", "uv tool install ."}
"""Run in a checkout, not in a user's project: by tests of their own (below, and tests/e2e)."""
WORKER = {
    'taskmaestro ship --title "Parse ISO weeks" --body-file pr.md',
    "taskmaestro ship --amend",
    "taskmaestro report addressed",
    'taskmaestro report failure --error "the data file is missing"',
}
"""Run in a worker's worktree, by a test of their own."""


def commands() -> list[str]:
    """Each line of a console block that begins with ``$``."""
    found = []
    for kind, text in _BLOCK.findall(README):
        if kind == "console":
            lines = text.splitlines()
            assert all(line.startswith("$ ") for line in lines), f"a line without a prompt in: {text}"
            found += [line.removeprefix("$ ") for line in lines]
    return found


@pytest.fixture
def sample(tmp_path: Path, private_tmux: Path) -> Iterator[Sample]:
    made = Sample(tmp_path / "dates", private_tmux)
    yield made
    if (made.root / ".taskmaestro").exists():
        made.run(["taskmaestro", "stop", "--panes"])


Step = tuple[str, Callable[[Sample, str], None]]


def says(*words: str, code: int = 0) -> Callable[[Sample, str], None]:
    """The command ends with this code and its answer has these words."""

    def check(sample: Sample, command: str) -> None:
        done = sample.run(shlex.split(command))
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        missing = [word for word in words if word not in done.stdout + done.stderr]
        assert not missing, f"{command}: {missing} not in\n{done.stdout}{done.stderr}"

    return check


def after(wait: Callable[[Sample], None], then: Callable[[Sample, str], None]) -> Callable[[Sample, str], None]:
    def check(sample: Sample, command: str) -> None:
        wait(sample)
        then(sample, command)

    return check


def at_the_cap(cycle: int) -> Callable[[Sample], None]:
    def wait(sample: Sample) -> None:
        def fits(pane: dict[str, object]) -> bool:
            attention = pane["attention"]
            reason = attention["reason"] if isinstance(attention, dict) else None
            return pane["review_cycle"] == cycle and reason == "cycle_cap"

        sample.wait_for(1, f"pane 1 at its cap in cycle {cycle}", fits)

    return wait


def second_asks(sample: Sample) -> None:
    sample.wait_for(2, "pane 2 needs a person", lambda pane: pane["attention"] is not None)


def has_task(sample: Sample) -> None:
    sample.wait_for(1, "pane 1 at its task", lambda pane: not str(pane["awaiting"]).startswith("delivery"))


def has_pull_request(sample: Sample) -> None:
    sample.wait_for(1, "pane 1 has a pull request", lambda pane: pane["pr_number"] == 2)


def doctor(sample: Sample, command: str) -> None:
    """Whether the default agent is there is this machine's matter; all else is."""
    done = sample.run(shlex.split(command))
    assert done.returncode in (0, 3), done.stderr
    missing = [line for line in done.stdout.splitlines() if line.startswith("missing")]
    assert all("agent claude" in line for line in missing), done.stdout
    assert "taskmaestro init" in done.stdout


def init(sample: Sample, command: str) -> None:
    says("wrote ", "default branch: main", "test: ", "forge: local, ready")(sample, command)
    assert sample.run(["git", "status", "--porcelain"]).stdout == ""
    asks = {"task": "first", "steps": [{"ask": "Delete everything?"}]}
    sample.use_script([first_turn(issue=1), fix_turn(), asks])
    says(code=0)(sample, "taskmaestro doctor --silent")


def attach(sample: Sample, command: str) -> None:
    """In a terminal of its own, which another tmux server plays; left as with Ctrl-b d."""
    (session,) = sample.sessions()
    name, *rest = shlex.split(command)
    argv = [shutil.which(name, path=sample.environment["PATH"]) or name, *rest]
    with private_server() as terminal:
        started = tmux(terminal, "new-session", "-d", "-x200", "-y50", f"-c{sample.root}", *argv)
        assert started.returncode == 0, started.stderr

        wait_until(lambda: "scripted" in tmux(terminal, "capture-pane", "-p").stdout, 30, "the panes to show")
        assert tmux(sample.socket, "detach-client", f"-s={session}").returncode == 0
        wait_until(lambda: tmux(terminal, "list-sessions").returncode != 0, 30, "the end of attach")
        assert sample.sessions() == [session]


def stop(sample: Sample, command: str) -> None:
    says("ended")(sample, command)
    assert sample.sessions(), "the agents go on"


def cleanup(sample: Sample, command: str) -> None:
    says("Removed 2 worktree(s)")(sample, command)
    assert list((sample.root / ".taskmaestro").glob("wt-*")) == []


def merged(sample: Sample, command: str) -> None:
    says()(sample, command)
    sample.wait_for(1, "pane 1 knows of the merge", lambda pane: pane["awaiting"] == "nothing")


STEPS: tuple[Step, ...] = (
    ("taskmaestro doctor", doctor),
    ("taskmaestro init", init),
    ('taskmaestro issue create --title "Parse ISO weeks" --body "- [ ] 2026-W05 is accepted"', says("#1")),
    ("taskmaestro up 2 --issues 1", says("2 worker pane(s)", "the conductor runs")),
    ("taskmaestro status", after(has_task, says("conductor: pid", "the pull request"))),
    ('taskmaestro assign 2 --title "Say hello in French"', after(has_pull_request, says("pane 2: task given"))),
    ("taskmaestro attach", attach),
    ("taskmaestro status", after(at_the_cap(3), says("review_pending", "3/3", "User decision required."))),
    ("taskmaestro explain 1", says("review asks for changes at the cap", "taskmaestro decide 1 approve")),
    ("taskmaestro journal --pane 1", says("task given: #1 Parse ISO weeks", "CI passed")),
    ("taskmaestro pr list", says("#2", "taskmaestro/issue-1-pane-1")),
    ("taskmaestro pr view 2 --comments", says("## Review: CHANGES_REQUESTED", "weeks.py")),
    ("taskmaestro pr checks 2", says("pass", "test")),
    ("taskmaestro pr diff 2", says("+def week(text):")),
    ('taskmaestro decide 1 another-cycle --why "the last finding is easy"', says("another review")),
    (
        'taskmaestro issue create --title "Tests for ISO weeks" --body "- [ ] a week with one digit is tested"',
        says("#3"),
    ),
    (
        'taskmaestro decide 1 approve --why "wanted for the release" --follow-up 3',
        after(at_the_cap(4), says("approved by a person")),
    ),
    ('taskmaestro decide 2 abandon --why "not needed any more"', after(second_asks, says("abandoned"))),
    ("git fetch origin", says()),
    ("git merge --no-ff origin/taskmaestro/issue-1-pane-1", says("weeks.py")),
    ("git push origin main", merged),
    ("taskmaestro replay", says("states and files agree")),
    ("taskmaestro stop", stop),
    ("taskmaestro cleanup", cleanup),
)


def test_every_command_of_the_readme_is_run_by_a_test() -> None:
    shown = [command for command in commands() if command not in CHECKOUT | WORKER]
    assert shown == [command for command, _ in STEPS]
    assert set(commands()) >= CHECKOUT | WORKER


@pytest.mark.timeout(900)
def test_the_readme_s_commands_work_in_their_order(sample: Sample) -> None:
    for command, check in STEPS:
        check(sample, command)


@pytest.mark.timeout(600)
def test_the_worker_s_commands_work_in_a_worktree(sample: Sample) -> None:
    sample.taskmaestro("init")
    sample.use_script([{"repeat": True, "steps": [{"say": "Left to a person"}]}])
    sample.taskmaestro("issue", "create", "--title", "Parse ISO weeks", "--body", "- [ ] 2026-W05 is accepted")
    sample.taskmaestro("up", "1", "--issues", "1")
    folder = sample.root / ".taskmaestro" / "wt-1"

    def task(cycle: int) -> Callable[[], bool]:
        return lambda: f'"cycle": {cycle}' in (folder / "TASK.md").read_text(encoding="utf-8").split("\n")[0]

    def run(command: str) -> None:
        done = sample.run(shlex.split(command), folder)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def write(text: str) -> None:
        (folder / "weeks.py").write_text(text, encoding="utf-8")
        run("git add weeks.py")

    wait_until((folder / "TASK.md").exists, 60, "the first task")
    write("def week(text):\n    return int(text[-2:])\n")
    (folder / "pr.md").write_text("Closes #1\n\n- [x] 2026-W05 is accepted: weeks.py\n", encoding="utf-8")
    ship, amend, addressed, failure = [command for command in commands() if command in WORKER]
    run(ship)
    wait_until(task(1), 240, "the fix task")
    write("def week(text):\n    return int(text[-2:])  # the last two\n")
    run(amend)
    wait_until(task(2), 240, "the second fix task")
    run('taskmaestro pr comment 2 --body "Resolved: there is nothing to test"')
    run(addressed)
    sample.wait_for(1, "the answer is looked at", lambda pane: pane["status"] != "review_pending")
    run(failure)
    assert '"failure"' in (folder / "RESULT.json").read_text(encoding="utf-8")


def test_the_scripts_of_the_readme_are_there_and_say_their_stages() -> None:
    for name in ("demo", "test", "picture"):
        assert os.access(ROOT / "scripts" / name, os.X_OK)
    text = (ROOT / "scripts" / "test").read_text(encoding="utf-8")
    stages = re.findall(r"^stage ['\"]([\w -]+)", text, re.MULTILINE)
    assert stages[:5] == ["set-up", "ruff check", "ruff format", "mypy", "import contracts"]
    assert stages[-1] == "pytest"


def uv_program(folder: Path) -> str | None:
    """uv from PATH, from where scripts/lock keeps it, or fetched as it does; None where it cannot be had."""
    found = shutil.which("uv")
    kept = ROOT / ".cache" / "lock-tool" / "bin" / "uv"
    if found or kept.exists():
        return found or str(kept)
    pinned = re.search(r"^uv_version=(\S+)$", (ROOT / "scripts/lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    got = subprocess.run([*pip, f"uv=={pinned[1]}"], capture_output=True, timeout=300, check=False)
    return str(folder / "bin" / "uv") if got.returncode == 0 else None


@pytest.mark.timeout(600)
def test_the_tool_installs_into_an_environment_of_its_own(tmp_path: Path) -> None:
    assert "uv tool install ." in commands()
    uv = uv_program(tmp_path / "uv")
    if uv is None:
        pytest.skip("uv is not on PATH and could not be fetched from the package index (no network?)")
    checkout = tmp_path / "checkout"
    left_out = shutil.ignore_patterns(".git", ".venv", ".cache", "__pycache__", "*.egg-info", "build", "tests")
    shutil.copytree(ROOT, checkout, ignore=left_out)
    environment = {
        **os.environ,
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": sys.executable,
        "UV_SYSTEM_CERTS": "true",
    }
    done = subprocess.run(
        [uv, "tool", "install", "."], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(checkout)
    said = subprocess.run(
        [tmp_path / "bin" / "taskmaestro", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert said.strip() == f"taskmaestro {version}"


def test_the_agent_of_the_readme_s_example_works() -> None:
    (example,) = [text for kind, text in _BLOCK.findall(README) if kind == "toml"]
    config = Config.model_validate(tomllib.loads(example))
    kind = agent_kinds(config)[config.agent]
    assert kind.program == "my-agent"
    assert kind.classify(Screen(("hello", "> "))).name == "idle"
    assert kind.classify(Screen(("Working (3 s)",))).name == "busy"
    assert kind.classify(Screen(("Delete it? (y/n)",))).name == "permission"
    assert kind.composer(Screen(("> half a thought",))) == "half a thought"
