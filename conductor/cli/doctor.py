"""``taskmaestro doctor``: what is missing on this machine and in this repository, and the command that mends it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from conductor.cli.context import Context, find_context
from conductor.cli.output import answer, read_options
from conductor.layout import Layout
from schemas.errors import Fault, Unavailable
from schemas.text import one_line
from worker.tools.git import MERGING, OLDEST
from worker.tools.process import run

if TYPE_CHECKING:
    from conductor.ports import AgentKind
    from schemas.config import Config

TMUX, PYTHON = (3, 2), (3, 11)
LOW_DISK, NO_DISK = 1024**3, 100 * 1024**2
LEAST_WATCHES, LEAST_INSTANCES = 8192, 64
_IDENTITY = {"user.name": "Your Name", "user.email": "you@example.com"}
PANES_MEANT = 3
"""Worker panes that the memory is reckoned for where there are none yet."""

MANAGERS: dict[str, tuple[str, dict[str, str]]] = {
    "apt-get": ("apt-get install -y --no-install-recommends", {}),
    "dnf": ("dnf install -y", {}),
    "apk": ("apk add", {"gh": "github-cli"}),
    "pacman": ("pacman -S --needed", {"gh": "github-cli"}),
    "brew": ("brew install", {"npm": "node"}),
    "winget": ("winget install --exact --id", {"gh": "GitHub.cli"}),
}
"""Package managers in the order in which they are looked for: command, and packages with another name there."""
RECENT_GH = ("dnf", "apk", "pacman", "brew", "winget")
"""Those whose gh is new enough; the one of Debian and Ubuntu is not."""

_OF_THE_USER = ("brew", "winget")


class Check(NamedTuple):
    """One thing that was looked at. ``fix``: the command or the words that mend it."""

    name: str
    state: Literal["ok", "warn", "missing"]
    text: str
    fix: str = ""


@click.command(name="doctor")
@read_options
def command(*, as_json: bool, jq: str | None, silent: bool) -> int:
    """Say what is missing, and which command installs it here.

    Looks at Python, tmux, git, the forge's program, the configured agents, the limits of this machine and
    this repository. Nothing is changed.

    \b
    Example: taskmaestro doctor
             taskmaestro doctor --jq '.checks[] | select(.state != "ok") | .fix'

    Exit codes: 0 all that is needed is there (warnings may be); 3 something needed is missing.
    """
    checks = list(all_checks(Path.cwd()))
    good = not any(check.state == "missing" for check in checks)
    value = {"ok": good, "checks": [check._asdict() for check in checks]}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=lambda: _words(checks))
    return 0 if good else Unavailable.exit_code


def all_checks(cwd: Path) -> Iterator[Check]:
    """Every check, in the order of its use: programs, repository, configuration, machine."""
    yield _python()
    yield _program("tmux", ["-V"], TMUX)
    git = _git()
    yield git
    yield _own_command()
    try:
        context = find_context(cwd)
    except Fault as fault:
        fix = "Change to your repository, or make one here: git init && git add . && git commit -m 'First commit'"
        yield Check("repository", "missing", fault.what, fix)
        yield from _machine(cwd)
        return
    if git.state != "missing":
        yield _repository(context)
        yield _identity(context.root)
    yield from _configured(context)
    yield from _machine(context.root)


def install_command(program: str) -> str:
    """The command that installs this program on this system; words where no package manager is known."""
    managers = [name for name in MANAGERS if name != "winget"]  # of what is needed here it has gh alone
    return _by_manager(program, managers) or f"install {program} with this system's package manager"


def _by_manager(program: str, among: Iterable[str]) -> str | None:
    for manager in among:
        if shutil.which(manager):
            command_line, other_names = MANAGERS[manager]
            privilege = "" if manager in _OF_THE_USER or os.geteuid() == 0 else "sudo "
            return f"{privilege}{command_line} {other_names.get(program, program)}"
    return None


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= PYTHON:
        return Check("python", "ok", f"{version} ({sys.executable})")
    return Check("python", "missing", f"{version}; 3.11 or newer is needed", install_command("python3"))


def _program(name: str, arguments: list[str], oldest: tuple[int, int]) -> Check:
    needed = ".".join(map(str, oldest))
    if shutil.which(name) is None:
        return Check(name, "missing", f"not on PATH; {needed} or newer is needed", install_command(name))
    try:
        outcome = run([name, *arguments], cwd="/", timeout=10)
    except Fault as fault:
        return Check(name, "missing", fault.what, install_command(name))
    said = one_line(outcome.output, 60)
    found = re.search(r"(\d+)\.(\d+)", said)
    if not outcome.ok or found is None:
        return Check(
            name, "warn", f"its version is not known: {said or outcome.ending()}", f"Needed: {needed} or newer."
        )
    if (int(found[1]), int(found[2])) < oldest:
        return Check(name, "missing", f"{said}; {needed} or newer is needed", install_command(name))
    return Check(name, "ok", said)


def _git() -> Check:
    """Too old for the embedded forge's merges alone is a warning."""
    check = _program("git", ["--version"], OLDEST)
    found = re.search(r"(\d+)\.(\d+)", check.text)
    if check.state != "ok" or found is None or (int(found[1]), int(found[2])) >= MERGING:
        return check
    text = f"{check.text}; refs/pull/N/merge of the embedded forge needs {'.'.join(map(str, MERGING))} or newer"
    return Check("git", "warn", text, install_command("git"))


def _own_command() -> Check:
    """Workers call ``taskmaestro``; panes get the folder of this interpreter on their PATH."""
    beside = Path(sys.executable).parent / "taskmaestro"
    found = str(beside) if beside.exists() else shutil.which("taskmaestro")
    if found:
        return Check("taskmaestro", "ok", found)
    text = f"the command is neither in {beside.parent} nor on PATH: workers cannot report"
    return Check("taskmaestro", "missing", text, "uv tool install taskmaestro-conductor")


def _repository(context: Context) -> Check:
    from worker.tools.git import head, root_and_common_dir

    try:
        root_and_common_dir(context.root)  # git may refuse the folder, as one of somebody else
        commit = head(context.root)
    except Fault as fault:
        return Check("repository", "missing", fault.what, fault.hint)
    if commit is None:
        text = f"{context.root} has no commit yet: worktrees need one"
        return Check("repository", "missing", text, "git add . && git commit -m 'First commit'")
    return Check("repository", "ok", f"{context.root} at {commit[:7]}")


def _identity(root: Path) -> Check:
    """Who commits: workers cannot without it, and the local forge acts under the address."""
    from worker.tools.git import git

    found = {key: one_line(git(["config", "--get", key], root, check=False).output, 80) for key in _IDENTITY}
    unset = [key for key, value in found.items() if not value]
    if not unset:
        return Check("identity", "ok", f"{found['user.name']} <{found['user.email']}>")
    fix = " && ".join(f'git config --global {key} "{_IDENTITY[key]}"' for key in unset)
    return Check("identity", "missing", f"git does not know {' and '.join(unset)}: nobody can commit", fix)


def _configured(context: Context) -> Iterator[Check]:
    layout = Layout(context.root)
    try:
        config = context.config
    except Fault as fault:
        yield Check("configuration", "missing", fault.what, fault.hint)
        return
    if layout.config.exists():
        yield Check("configuration", "ok", str(layout.config))
    else:
        yield Check("configuration", "warn", "there is none: the defaults count", "taskmaestro init")
    yield from _forge(config, context.root, written=layout.config.exists())
    yield from _agents(layout, config)
    yield _lock(layout)


def _forge(config: Config, root: Path, *, written: bool) -> Iterator[Check]:
    if config.forge.kind == "github":
        gh = _gh(config)
        yield gh
        if gh.state == "ok":
            yield _github(config, root)
        return
    if config.forge.kind != "local":
        return
    if config.forge.local.checks or config.ci.allow_no_checks:
        names = ", ".join(one_line(name, 40) for name in config.forge.local.checks) or "none, and none are needed"
        yield Check("checks", "ok", names)
    else:
        text = "no checks are configured ([forge.local.checks]): nothing can turn green"
        fix = "In .taskmaestro/config.toml name them under [forge.local.checks], or set allow_no_checks under [ci]."
        yield Check("checks", "warn", text, fix if written else "taskmaestro init")


def _gh(config: Config) -> Check:
    from conductor.forge.github.program import NoProgram, find_gh, version_of

    try:
        found = find_gh(config.forge.github.program)
    except Fault as fault:
        packaged = _by_manager("gh", RECENT_GH) if isinstance(fault, NoProgram) else None
        return Check("gh", "missing", fault.what, "\n".join(filter(None, (fault.hint, packaged))))
    version = ".".join(map(str, version_of(found)))
    return Check("gh", "ok", f"{found} {version}")


def _github(config: Config, root: Path) -> Check:
    from conductor.forge.github.access import access

    try:
        found = access(config, root)
    except Fault as fault:
        return Check("github", "missing", fault.what, fault.hint)
    if found.wrong is not None:
        return Check("github", "warn", found.wrong, found.fix)
    return Check("github", "ok", f"{found.repository}, as {found.login}")


def _agents(layout: Layout, config: Config) -> Iterator[Check]:
    """The agents that panes use or would use; others that are configured are left alone."""
    from conductor.panes.agents import agent_kinds

    try:
        kinds = agent_kinds(config)
    except Fault as fault:
        yield Check("agents", "missing", fault.what, fault.hint)
        return
    used = _agents_in_use(layout) or {config.agent: PANES_MEANT}
    for name in sorted({config.agent, *used}):
        check = agent_check(name, kinds)
        yield check._replace(state="warn") if check.state == "missing" and name not in used else check
    known = set(kinds)
    try:
        need = sum(kinds[name].idle_memory_mb * count for name, count in used.items() if name in known)
    except Fault:
        return  # told above, as an agent that cannot be loaded
    yield _memory(need, sum(used.values()))


def _agents_in_use(layout: Layout) -> dict[str, int]:
    from conductor.cli.status import read_states

    used: dict[str, int] = {}
    for state in read_states(layout)[0]:
        if state.get("role") != "conductor" and isinstance(state.get("agent"), str):
            used[state["agent"]] = used.get(state["agent"], 0) + 1
    return used


def agent_check(name: str, kinds: Mapping[str, AgentKind]) -> Check:
    """Whether this agent's program is there, and how it is installed."""
    shown = f"agent {one_line(name, 40)}"
    names = set(kinds)  # asking the mapping itself would load the plug-in
    if name not in names:
        known = ", ".join(sorted(names))
        return Check(shown, "missing", "no such kind of agent is known", f"Set `agent` to one of: {known}")
    try:
        kind = kinds[name]
    except Fault as fault:
        return Check(shown, "missing", fault.what, fault.hint)
    found = kind.program if Path(kind.program).is_file() else shutil.which(kind.program)
    if found:
        return Check(shown, "ok", found)
    fix = kind.install_hint
    if "npm" in fix.split() and shutil.which("npm") is None:
        fix = f"{install_command('npm')} && {fix}"
    return Check(shown, "missing", f"its program {one_line(kind.program, 80)} is not on PATH", fix)


def _memory(need_mb: int, panes: int) -> Check:
    free = _meminfo("MemAvailable")
    if free is None:
        return Check("memory", "ok", f"about {need_mb} MB for {panes} panes; what is free is not known here")
    text = f"{free} MB free; {panes} idle agents take about {need_mb} MB"
    if free >= need_mb:
        return Check("memory", "ok", text)
    return Check("memory", "warn", text, "Use fewer panes, or end other programs.")


def _meminfo(field: str) -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) // 1024 if found else None


def _lock(layout: Layout) -> Check:
    from conductor.lock import ended_without_a_word, holder

    try:
        held, left = holder(layout.lock), ended_without_a_word(layout.lock)
    except Fault as fault:
        return Check("conductor", "warn", fault.what, fault.hint)
    if held is not None:
        return Check(
            "conductor", "ok", f"runs: pid {held.get('pid', '?')} on {one_line(str(held.get('host', '?')), 60)}"
        )
    if left:
        return Check("conductor", "warn", "the last one ended without a word; nothing is lost", "taskmaestro conduct")
    return Check("conductor", "ok", "none runs")


def _machine(place: Path) -> Iterator[Check]:
    yield from _watch_limits()
    free = shutil.disk_usage(place).free
    text = f"{free // 1024**2} MB free at {place}"
    if free < NO_DISK:
        yield Check("disk", "missing", text, "Free some space: the journal must be written.")
    elif free < LOW_DISK:
        yield Check("disk", "warn", text, "Each worktree is a checkout of its own: free some space.")
    else:
        yield Check("disk", "ok", text)


def _watch_limits() -> Iterator[Check]:
    for name, least, wanted in (
        ("max_user_watches", LEAST_WATCHES, 524_288),
        ("max_user_instances", LEAST_INSTANCES, 512),
    ):
        try:
            limit = int(Path("/proc/sys/fs/inotify", name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue  # not Linux: there is no such limit
        if limit >= least:
            yield Check(f"inotify {name}", "ok", str(limit))
        else:
            fix = f"sudo sysctl fs.inotify.{name}={wanted}"
            yield Check(f"inotify {name}", "warn", f"{limit}; other programs may leave too few", fix)


def _words(checks: list[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        first, *rest = check.text.splitlines() or [""]
        lines.append(f"{check.state:<7}  {check.name:<{width}}  {first}")
        indent = " " * (width + 11)
        lines += [f"{indent}{line}" for line in rest]
        if check.fix:
            lines += [
                f"{indent}{'→ ' if number == 0 else '  '}{line}" for number, line in enumerate(check.fix.splitlines())
            ]
    missing = sum(check.state == "missing" for check in checks)
    warned = sum(check.state == "warn" for check in checks)
    lines.append(f"{missing} missing, {warned} to look at" if missing or warned else "all is there")
    return "\n".join(lines)
