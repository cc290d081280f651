"""``taskmaestro init``: make a repository ready, by writing what was found and explaining every setting.

Safe to repeat: a configuration that is there stays as it is unless ``--force`` asks for a new one, and
even then a copy is kept.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from conductor.cli.output import note
from schemas.config import Config
from schemas.errors import BadInput, Fault
from schemas.text import one_line
from worker.battery import detect, environment
from worker.detect.base import SLOTS, Command, Project
from worker.detect.python import find_python, generated
from worker.tools import git as g
from worker.tools.config import CONFIG, load_config, parse_config
from worker.tools.files import read_regular, replace_file
from worker.tools.process import run

TRIAL = 300.0
"""Seconds for each command that is tried."""
NO_TESTS_COLLECTED = 5
"""pytest's exit code."""
AGENTS = ("claude", "codex", "gemini", "opencode", "qwen", "pi", "aider")
"""In the order in which one is chosen where several are installed."""


@dataclass
class Found:
    """What the repository and this machine have."""

    root: Path
    default_branch: str | None
    agents: list[str]
    forge: str
    commands: dict[str, Command]
    agent: str = "claude"
    generated: list[str] = field(default_factory=list)
    """Ignored files that the package's build writes, and that each checkout needs."""
    failing: dict[str, str] = field(default_factory=dict)
    """Slots whose command fails on the present code, with its last line."""
    notes: list[str] = field(default_factory=list)


@click.command(name="init")
@click.option("--force", is_flag=True, help="Write the configuration anew; the old file is kept as a copy.")
@click.option("--forge", metavar="KIND", help="Where pull requests are kept; default: local, on this machine.")
@click.option("--agent", metavar="NAME", help="The agent of new panes; default: the first that is installed.")
@click.option("--no-try", "untried", is_flag=True, help="Do not try the commands that were found.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found and done as JSON.")
def command(force: bool, forge: str | None, agent: str | None, untried: bool, as_json: bool) -> None:
    """Write .taskmaestro/config.toml from what the repository has.

    Finds the commands for format, lint, types and test, the default branch and an installed agent, keeps
    taskmaestro's own files out of every commit (in .git/info/exclude; no .gitignore changes), and makes
    the local forge where that is the kind. May be repeated: what is there stays. A repository without a commit
    is refused.

    Each command is tried once on a checkout of the newest commit. One that fails there already is left out,
    since no worker could ever get it green.

    \b
    taskmaestro init
    taskmaestro init --agent claude
    taskmaestro init --force --no-try
    """
    answer = initialise(Path.cwd(), force=force, forge=forge, agent=agent, told=None if untried else note)
    if as_json:
        click.echo(json.dumps(answer))
        return
    for line in answer["lines"]:
        click.echo(line)


def initialise(
    cwd: Path,
    *,
    force: bool = False,
    forge: str | None = None,
    agent: str | None = None,
    told: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Do it and answer ``{ok, root, config, written, backup, excluded, kept, found, lines}``.

    The commands are tried where ``told`` is given, which gets a line before each.
    """
    top, common = g.root_and_common_dir(cwd)
    root = g.main_root(top, common)
    _must_have_commit(root)
    found = find(root, forge, agent)
    path = root / CONFIG
    there = path.exists() or path.is_symlink()
    backup: Path | None = None
    text: str | None = None
    if there and not force:
        config = load_config(root)
        excluded = g.exclude_private(root)
    else:
        excluded = g.exclude_private(root)
        if told is not None:
            try_out(found, told)
        text = config_text(found)
        config = parse_config(text.encode(), path)
    missing = _agent_missing(config)
    if missing is not None:
        found.notes.insert(0, " → ".join(missing))
    made = _open_forge(config, root)
    if text is not None:
        path.parent.mkdir(exist_ok=True)
        backup = _keep_copy(path) if there else None
        replace_file(path, text)
    kept = _set_values(root) if there and not force else []
    return {
        "ok": True,
        "root": str(root),
        "config": str(path),
        "written": not there or force,
        "backup": str(backup) if backup else None,
        "excluded": excluded,
        "kept": kept,
        "forge": config.forge.kind,
        "found": {
            "default_branch": found.default_branch,
            "agents": found.agents,
            "needed": found.generated,
            "failing": found.failing,
            "commands": {slot: {"argv": list(one.argv), "why": one.why} for slot, one in found.commands.items()},
        },
        "lines": _lines(found, config, path, there and not force, backup, excluded, kept, made),
    }


def _must_have_commit(root: Path) -> None:
    """Worktrees and the local forge start from a commit: refused before anything is written."""
    if g.head(root) is None:
        raise BadInput(
            f"{root} has no commit yet: worktrees need one; nothing was written",
            "Commit something first: git add . && git commit -m 'First commit'",
        )


def find(root: Path, forge: str | None = None, agent: str | None = None) -> Found:
    """Look around in the repository and on PATH; changes nothing. Raises ``BadInput`` for an unknown agent."""
    notes: list[str] = []
    agents = [name for name in AGENTS if shutil.which(name)]
    agent = _agent(agents, agent, notes)
    branch = g.default_branch(root) or g.current_branch(root)
    url = g.git(["config", "--get", "remote.origin.url"], root, check=False).output.strip()
    kind = _forge(forge)
    if url and kind == "local" and not Path(url).is_relative_to(root / ".taskmaestro"):
        notes.append(
            "there is an origin already: the embedded forge gets a remote of its own, and nothing is pushed to origin"
        )
    detected = detect(root)
    commands = {str(slot): one for slot, one in detected.commands.items()}
    notes += [f"{one.slot}: left out, since {one.missing} ({one.why})" for one in detected.missing]
    if not commands:
        notes.append(
            "no commands for format, lint, types or test were found, so there are no checks and nothing can turn green:"
            " name them under [forge.local.checks], or set allow_no_checks = true under [ci]"
        )
    needed = [name for name in generated(Project(root, root)) if g.is_ignored(root, name)]
    return Found(root, branch, agents, kind, commands, agent, needed, {}, notes)


def _forge(wanted: str | None) -> str:
    """The forge to be set: the one that is asked for, where this version or a plug-in has it, else the embedded one."""
    from conductor.forge import known_forges

    if wanted is not None and wanted not in known_forges():
        names = ", ".join(sorted(known_forges()))
        raise BadInput(f"forge {one_line(repr(wanted))} is not known", f"Known: {names}.")
    return wanted or "local"


def _agent(installed: list[str], wanted: str | None, notes: list[str]) -> str:
    """The agent to be set: the one that is asked for, else the first one that is installed and known here."""
    from conductor.panes.agents import doors

    known = doors()
    if wanted is not None:
        if wanted not in known:
            raise BadInput(f"agent {one_line(repr(wanted))} is not known", f"Known: {', '.join(sorted(known))}.")
        return wanted
    found = [name for name in installed if name in known]
    if installed and not found:
        notes.append(
            f"{', '.join(installed)}: installed, but this version drives none of them; see [agents] for any program"
        )
    return found[0] if found else "claude"


def _agent_missing(config: Config) -> tuple[str, str] | None:
    """Why the configured agent cannot be started here, and what mends that; None where it can. In doctor's words."""
    from conductor.cli.doctor import agent_check
    from conductor.panes.agents import agent_kinds

    try:
        check = agent_check(config.agent, agent_kinds(config))
    except Fault as fault:
        return one_line(fault.what), one_line(fault.hint)
    return (one_line(f"{check.name}: {check.text}"), one_line(check.fix)) if check.state == "missing" else None


def try_out(found: Found, told: Callable[[str], object]) -> None:
    """Run each command as a check on a checkout of the newest commit; those that fail go into ``failing``."""
    from conductor.git.worktrees import GitWorktrees

    worktrees = GitWorktrees(found.root, Config(needed=tuple(found.generated)))
    checkout = worktrees.scratch(g.head(found.root) or "HEAD", "init")
    try:
        for slot, one in found.commands.items():
            if one.check is None and slot == "format":
                continue  # it would change files instead of telling
            argv = check_argv(found.root, one)
            told(f"trying {slot}: {shlex.join(argv)}")
            fault = _trial(argv, one, checkout, found)
            if fault:
                found.failing[slot] = fault
                found.notes.append(f"{slot}: left out, since it fails on the newest commit already: {fault}")
    finally:
        worktrees.drop_scratch(checkout)


def _trial(argv: list[str], one: Command, checkout: Path, found: Found) -> str:
    """Why the command fails, "" where it does not."""
    try:
        outcome = run(argv, cwd=checkout, timeout=TRIAL, env=environment(checkout, found.root, dict(one.env)))
    except Fault as fault:
        return one_line(fault.what, 200)
    if outcome.timed_out:
        found.notes.append(f"{one.slot}: not known whether it passes, it did not end within {TRIAL:.0f} s")
    if outcome.ok or outcome.timed_out or ("pytest" in argv and outcome.returncode == NO_TESTS_COLLECTED):
        return ""
    last = next((line for line in reversed(outcome.tail(20).splitlines()) if line.strip()), "it says nothing")
    return one_line(f"{outcome.ending()}: {last}", 200)


def check_argv(root: Path, one: Command) -> list[str]:
    """The command as a check, runnable from any checkout of the repository.

    A check runs in a scratch checkout, so programs of this checkout's own environment are named by full
    path, and Python gets the scratch checkout's code first (an editable install would test this
    checkout's instead).
    """
    argv = list(one.check_argv)
    python = find_python_of(root)
    if python is not None and argv[0] == python:
        return ["env", "PYTHONPATH=src:.", str(root / python), *argv[1:]]
    if any(name == "PYTHONPATH" for name, _ in one.env):
        return ["env", "PYTHONPATH=src:.", *argv]
    local = root / "node_modules" / ".bin" / argv[0]
    return [str(local), *argv[1:]] if local.is_file() else argv


def find_python_of(root: Path) -> str | None:
    """The python of the checkout's own virtual environment, relative to it, None where it has none."""
    python = find_python(Project(root, root))[0]
    return python if "/" in python else None


def config_text(found: Found) -> str:
    """The file: found values set, everything else as a comment with its default."""
    branch = f"default_branch = {_toml(found.default_branch)}" if found.default_branch else '# default_branch = "main"'
    battery = [
        f"# {slot} = {_toml(list(found.commands[slot].argv))}   # found: {_comment(found.commands[slot].why)}"
        if slot in found.commands
        else f"# {slot} = [...]   # nothing was found"
        for slot in SLOTS
    ]
    skipped = [slot for slot in SLOTS if slot in found.failing]
    for slot in skipped:
        battery.append(f"# left out: {slot} fails on the newest commit already: {_comment(found.failing[slot])}")
    battery.append(f"skip = {_toml(skipped)}" if skipped else '# skip = ["types"]')
    checks = [
        f"{slot} = {_toml(check_argv(found.root, found.commands[slot]))}"
        for slot in ("lint", "types", "test")
        if slot in found.commands and slot not in found.failing
    ]
    missing = _agent_missing(Config(agent=found.agent))
    needed = f"needed = {_toml(found.generated)}" if found.generated else '# needed = ["version.py"]'
    return _TEMPLATE.format(
        agent=_toml(found.agent),
        missing="" if missing is None else f"# {missing[0]}\n# → {missing[1]}\n",
        needed=f"{needed:<33} # ignored files that each new checkout gets a copy of",
        agents=", ".join(found.agents) or "none on PATH",
        branch=branch,
        battery="\n".join(battery),
        forge=_toml(found.forge),
        checks="\n".join(checks) or '# test = ["make", "test"]',
    )


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return one_line(text, 100)


_TEMPLATE = """\
# Settings of taskmaestro. Every line may go: the defaults work. Times are in seconds; commands are lists
# of arguments, or one line split as a shell would split it, but no shell runs them.

agent = {agent}                # the agent of new panes; installed here: {agents}
{missing}{branch}
# remote = "origin"               # where branches are pushed
{needed}
# precious = [".env*"]            # ignored files that a clean-up must not lose
# silent_after = 900              # a busy agent without output for so long is reported

[battery]
# Runs before every push, in this order; a failure stops the push. Commands that are not set here are
# found in the project at each push; set one to pin it.
{battery}
# timeout = 900

[review]
# max_cycles = 3                  # reviews that may ask for changes; then a person decides
# parallel = 3
# step_timeout = 600
# verification = {{ lint = ["..."] }} # more commands; any failure is a finding

[ci]
# returns_cap = 3                 # how often failed CI goes back to the worker; then a person decides
# budget = 1800                   # how long a check may be pending
# grace = 90                      # after a push, no checks means not yet
# allow_no_checks = false

[forge]
kind = {forge}                    # local: a bare repository and a database on this machine
# draft_first = false             # open pull requests as drafts

[forge.local.checks]
# What the local forge runs on every pushed head; name = command.
{checks}
"""


def _keep_copy(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = path.with_name(f"{path.name}.{stamp}.bak")
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.{stamp}-{number}.bak")
    try:
        replace_file(copy, read_regular(path, 1 << 20))
    except BadInput as fault:
        raise BadInput(f"{path} was not replaced, because no copy could be kept: {fault.what}", fault.hint) from None
    return copy


def _set_values(root: Path) -> list[str]:
    """``name = value`` of what the file that is there sets."""
    import tomllib

    data = tomllib.loads(read_regular(root / CONFIG, 1 << 20).decode("utf-8-sig"))
    rows: list[str] = []

    def walk(table: dict[str, Any], prefix: str) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                walk(value, f"{prefix}{name}.")
            else:
                rows.append(f"{prefix}{name} = {json.dumps(value, default=str)}")

    walk(data, "")
    return rows


def _open_forge(config: Config, root: Path) -> bool:
    """Make the local forge's repository and database; another kind has nothing to make."""
    if config.forge.kind != "local":
        return False
    import_module("conductor.forge").open_forge(config, root)
    return True


def _lines(
    found: Found,
    config: Config,
    path: Path,
    kept_file: bool,
    backup: Path | None,
    excluded: list[str],
    kept: list[str],
    made: bool,
) -> list[str]:
    lines = []
    if kept_file:
        lines.append(f"{path} is there already and stays as it is (--force writes a new one):")
        lines += [f"  {row}" for row in kept] or ["  nothing is set, the defaults hold"]
    else:
        lines.append(f"wrote {path}" + (f", the old one is kept as {backup.name}" if backup else ""))
    installed = ", ".join(found.agents) or f"none (looked on PATH for {', '.join(AGENTS)})"
    lines.append(f"agent: {config.agent}; installed: {installed}")
    lines.append(f"default branch: {config.default_branch or found.default_branch or 'not known'}")
    for slot, one in found.commands.items():
        if slot in found.failing:
            continue
        lines.append(f"{slot}: {' '.join(one.argv)}   ({_comment(one.why)})")
    if found.generated:
        lines.append(f"copied into each new checkout, since git ignores them: {', '.join(found.generated)}")
    lines.append(f"kept out of commits: {', '.join(excluded) if excluded else 'as before'}")
    lines.append(f"forge: {config.forge.kind}" + (", ready" if made else ""))
    return lines + [f"note: {note}" for note in found.notes]
