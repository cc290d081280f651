"""``taskmaestro up``: worktrees, panes, agents, tasks, and the conductor in its pane; safe to repeat."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from conductor.cli.context import find_context
from conductor.cli.named import issue_named
from conductor.cli.output import answer, note
from conductor.cli.turns import turn
from conductor.layout import Layout
from schemas.errors import BadInput, NoLeave, NotSo, Unavailable
from schemas.forge import TOKEN_VARIABLES
from schemas.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conductor.ports import AgentKind, Panes
    from schemas.config import Config

_START_WAIT = 15.0
_BEGIN_WAIT = 60.0
"""Seconds until a conductor that lives is at its work: a long journal takes a while to read."""
_LOOK = 0.2
_SHOWN = 8
"""At most so many lines of its pane are told."""


def _numbers(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[int]:
    if value is None:
        return []
    if not value.strip():
        raise click.BadParameter("it names no issue; leave the option out to give no tasks")
    numbers: list[int] = []
    for part in value.split(","):
        digits = part.strip().removeprefix("#")
        if not digits:
            raise click.BadParameter(f"an empty place in {one_line(value, 60)!r}; expected numbers such as 12,13,14")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits)):
            raise click.BadParameter(f"{one_line(part.strip(), 60)!r} is no issue number; expected such as 12,13,14")
        if int(digits) in numbers:
            raise click.BadParameter(f"issue {int(digits)} is named twice; one issue is one pane's task")
        numbers.append(int(digits))
    return numbers


@click.command(
    "up",
    short_help="Make worktrees and panes, start the agents and the conductor",
    epilog="Example: taskmaestro up 3 --issues 12,13,14 --agent claude",
)
@click.argument("count", type=click.IntRange(1, 100), required=False)
@click.option("--issues", callback=_numbers, metavar="N,N,...", help="One issue a free pane, in this order.")
@click.option("--agent", metavar="NAME", help="Agent of new panes; default: `agent` in config.toml.")
@click.option("--review-pane", is_flag=True, help="A dedicated review pane beside the workers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(count: int | None, issues: list[int], agent: str | None, review_pane: bool, as_json: bool) -> None:
    """Bring COUNT worker panes about, each with a worktree and an agent, and the conductor below them.

    What is there already is kept, so the same command brings everything back after tmux or the machine died:
    panes, agents and unfinished tasks. Without COUNT: the panes that there were.

    Exit codes: 0; 2 no such issue or agent, more issues than free panes, or a journal that cannot be read; 3 a program,
    tmux or the forge is missing, or the conductor does not start.
    """
    from conductor.panes.agents import agent_kinds

    context = find_context()
    layout, config = Layout(context.root), context.config
    kinds = agent_kinds(config)
    if agent is not None and agent not in kinds:
        raise BadInput(
            f"--agent {one_line(agent, 60)}: no such agent is known",
            f"Known: {', '.join(sorted(kinds))}; [agents] in config.toml adds more.",
        )
    with turn(layout, "up"):
        value, workers = _brought_up(layout, config, kinds, count, issues, agent, review_pane)
    answer(value, as_json=as_json, text=lambda: _text(value, workers))


def _brought_up(
    layout: Layout,
    config: Config,
    kinds: Mapping[str, AgentKind],
    count: int | None,
    issues: list[int],
    agent: str | None,
    review_pane: bool,
) -> tuple[dict[str, object], int]:
    """All of it; the answer, and how many worker panes there are."""
    from conductor.forge import open_forge
    from conductor.loop.adapters import panes_of, worktrees_of
    from conductor.loop.bring_up import CONDUCTOR_PANE, bring_up, check_kind, chosen, make_plan
    from conductor.panes.programs import find_program
    from conductor.panes.whereabouts import remember

    _check_journal(layout)
    forge = open_forge(config, layout.root)
    listed = [issue_named(forge, number, "--issues") for number in issues]
    plan = make_plan(layout, config, count=count, issues=listed, agent=agent, review_pane=review_pane)
    needed: tuple[str, ...] = ()
    for name in sorted({plan.agent_of(index) for index in plan.workers()}):
        kind = check_kind(kinds, name)
        find_program([kind.program], os.environ, install_hint=kind.install_hint)
        needed += kind.pass_env
    if config.forge.kind == "local" and not config.forge.local.checks and not config.ci.allow_no_checks:
        note(
            "no checks are configured ([forge.local.checks] in config.toml): nothing can turn green."
            " `taskmaestro init` detects some; else name them there, or set allow_no_checks under [ci]."
        )
    if config.forge.kind == "github":
        _look_at_token(config, layout)
    panes = panes_of(layout, config)
    done = bring_up(
        layout,
        plan,
        panes=panes,
        worktrees=worktrees_of(layout, config, forge),
        variables=chosen(os.environ, needed),
    )
    remember(layout.tmux_socket, panes.socket_path())
    for text in done.notes:
        note(text)
    held = _wait_for_conductor(layout, panes, done.panes.get(CONDUCTOR_PANE))
    value: dict[str, object] = {
        "session": panes.session,
        "panes": {str(index): pane_id for index, pane_id in sorted(done.panes.items())},
        "new": list(done.fresh),
        "conductor": held,
    }
    return value, plan.count


def _look_at_token(config: Config, layout: Layout) -> None:
    """A login by a variable alone would end at the panes. Raises ``NoLeave`` where it is so."""
    told = [name for name in TOKEN_VARIABLES if os.environ.get(name)]
    if not told:
        return
    from conductor.forge.github.access import access

    found = access(config, layout.root)
    if found.wrong is not None:
        raise NoLeave(found.wrong, f"{found.fix}, then try again.")
    note(f"{told[0]} is not handed to the panes: what runs there acts as {found.login}, as `gh auth status` says")


def _check_journal(layout: Layout) -> None:
    """A conductor that is to be started has to be able to read it; asked before anything is made.

    Raises what the conductor would.
    """
    from conductor.journal import holder, read

    held = holder(layout.lock)
    if held is None or held.get("ending"):
        for _ in read(layout.journal):
            pass


def _wait_for_conductor(layout: Layout, panes: Panes, pane_id: str | None) -> dict[str, object]:
    """Until it is at its work. Raises ``Unavailable`` with what its pane shows where it ended instead.

    ``pane_id``: the pane in which it was started; None where one lived already.
    """
    from conductor.journal import holder

    began = looked = time.monotonic()
    while True:
        now, ended = time.monotonic(), False
        if pane_id is not None and now - looked >= _LOOK:
            looked = now
            info = panes.info(pane_id)
            ended = info is None or info.dead
        held = holder(layout.lock)  # after the pane: another one may have been first, and then that one conducts
        if held and held.get("begun") and not held.get("ending"):
            return held
        if ended and held is None and pane_id is not None:
            raise _ended(panes, pane_id)
        if now - began > (_BEGIN_WAIT if held else _START_WAIT):
            break
        time.sleep(0.02)
    did = f"(pid {held.get('pid')}) was not at work" if held else "did not start"
    raise Unavailable(
        f"the conductor {did} within {now - began:.0f} s",
        "`taskmaestro attach` shows its pane; `taskmaestro conduct` runs it here, with its messages.",
    )


def _ended(panes: Panes, pane_id: str) -> Unavailable:
    try:
        lines = panes.screen(pane_id, history=_SHOWN).tail(_SHOWN)
    except NotSo:
        lines = ()
    shown = "".join(f"\n  {one_line(line, 500)}" for line in lines)
    return Unavailable(
        "the conductor ended as soon as it was started" + (f"; its pane shows:{shown}" if shown else ""),
        "Mend that and try again; `taskmaestro conduct` runs it here, with its messages.",
    )


def _text(value: dict[str, object], count: int) -> str:
    held = value["conductor"]
    if not isinstance(held, dict):
        raise BadInput("the conductor's lock has no content", "Run `taskmaestro doctor`.")
    return (
        f"{count} worker pane(s) in the tmux session {value['session']}; the conductor runs (pid {held.get('pid')}).\n"
        "taskmaestro attach   look at them\n"
        "taskmaestro status   what each one does"
    )
