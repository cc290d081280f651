"""``taskmaestro status``: the published state of every pane, read as plain JSON so that it answers at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from conductor.cli.context import find_context
from conductor.cli.output import answer, note, read_options
from conductor.dashboard.rows import MAX_CYCLES, UNLIMITED, Row, plain_table, row_of
from conductor.layout import Layout
from conductor.lock import holder
from schemas.errors import Fault, NeedsPerson, NotSo, Unavailable
from schemas.text import one_line


@click.command(name="status")
@click.option("--exit-code", is_flag=True, help="End with 4 where a pane needs a person.")
@read_options
def command(*, exit_code: bool, as_json: bool, jq: str | None, silent: bool) -> int:
    """Show every pane: status, cycle, pull request, what is awaited.

    A pane that needs a person is listed below the table with the whole message. JSON has the objects
    `conductor` (pid, host, since; null where none runs), `panes` (docs/contracts.md, "Pane state") and
    `forge_budget` (remaining, limit, reset_at; null where the forge has no rate limit).

    \b
    Example: taskmaestro status
             taskmaestro status --jq '.panes[] | select(.attention) | .index'
             taskmaestro status --silent --exit-code || echo "somebody is wanted"

    Exit codes: 0; 1 a state file cannot be read (the others are shown); 4 with --exit-code.
    """
    layout = Layout(find_context().root)
    held = holder(layout.lock)
    states, unreadable = read_states(layout)
    budget = read_budget(layout)
    answer(
        {"conductor": held, "panes": states, "forge_budget": budget},
        as_json=as_json,
        jq=jq,
        silent=silent or (_for_a_terminal() and not as_json and jq is None),
        text=lambda: _plain(layout, states, held, budget),
    )
    if _for_a_terminal() and not (as_json or jq is not None or silent):
        _draw(layout, states, held, budget)
    for fault in unreadable:
        note(f"taskmaestro: {fault}")
    if unreadable:
        return NotSo.exit_code
    wanted = any(state.get("attention") for state in states)
    return NeedsPerson.exit_code if exit_code and wanted else 0


def read_states(layout: Layout) -> tuple[list[dict[str, Any]], list[Fault]]:
    """The published states by pane, and a fault for each file that holds none."""
    states: list[dict[str, Any]] = []
    faults: list[Fault] = []
    try:
        files = [path for path in layout.panes.iterdir() if path.suffix == ".json" and path.stem.isdigit()]
    except FileNotFoundError:
        return states, faults
    except OSError as fault:
        raise Unavailable(f"{layout.panes}: {fault.strerror}", "Make the folder readable for this user.") from None
    for path in sorted(files, key=lambda path: int(path.stem)):
        try:
            states.append(read_state(path))
        except FileNotFoundError:
            continue  # the pane was removed in between
        except Fault as fault:
            faults.append(fault)
    return states, faults


def read_state(path: Path) -> dict[str, Any]:
    """One state file as plain JSON. Raises ``NotSo`` where it holds no state, ``FileNotFoundError``."""
    hint = "The conductor writes it anew when it starts; `taskmaestro replay` compares all of them."
    try:
        state = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise NotSo(f"{path}: {fault.strerror}", hint) from None
    except ValueError as fault:
        raise NotSo(f"{path} is not JSON: {one_line(str(fault))}", hint) from None
    if not isinstance(state, dict) or not isinstance(state.get("index"), int):
        raise NotSo(f"{path} is not a pane's state: expected an object with `index`", hint)
    return state


def read_budget(layout: Layout) -> dict[str, Any] | None:
    """What is left of the forge's rate limit; None where the forge has none or its window is over."""
    try:
        found = json.loads(layout.budget.read_bytes())
        over = datetime.fromisoformat(found["reset_at"]) <= datetime.now(UTC)
        told = {"remaining": int(found["remaining"]), "limit": int(found["limit"]), "reset_at": found["reset_at"]}
    except (OSError, ValueError, KeyError, TypeError):  # written by the conductor alone, and written anew soon
        return None
    return None if over else told


def rows_for(layout: Layout, states: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows, with ages as of now."""
    now = datetime.now(UTC)
    cap = _max_cycles(layout)
    return [row_of(state, max_cycles=cap, now=now) for state in states]


def _max_cycles(layout: Layout) -> int:
    """The cap that the configuration names, without loading the models; whether it is valid is doctor's matter."""
    import tomllib

    try:
        review = tomllib.loads(layout.config.read_text(encoding="utf-8")).get("review")
    except (OSError, ValueError):
        return MAX_CYCLES
    cap = review.get("max_cycles") if isinstance(review, dict) else None
    return cap if isinstance(cap, int) else MAX_CYCLES


def _for_a_terminal() -> bool:
    return sys.stdout.isatty()


def _plain(
    layout: Layout,
    states: Sequence[Mapping[str, Any]],
    held: Mapping[str, Any] | None,
    budget: Mapping[str, Any] | None,
) -> str:
    said = _who(held, budget)
    if not states:
        return f"{said}\nno panes yet: `taskmaestro up 3` makes some"
    return f"{said}\n{plain_table(rows_for(layout, states), UNLIMITED)}"


def _who(held: Mapping[str, Any] | None, budget: Mapping[str, Any] | None) -> str:
    if held is None:
        return "no conductor runs (`taskmaestro conduct` starts one)"
    said = f"conductor: pid {held.get('pid', '?')} on {one_line(str(held.get('host', '?')), 60)}"
    if budget is None:
        return said
    until = datetime.fromisoformat(budget["reset_at"]).astimezone().strftime("%H:%M")
    return f"{said}; forge: {budget['remaining']} of {budget['limit']} points left until {until}"


def _draw(
    layout: Layout,
    states: Sequence[Mapping[str, Any]],
    held: Mapping[str, Any] | None,
    budget: Mapping[str, Any] | None,
) -> None:
    from rich.console import Console
    from rich.text import Text

    from conductor.dashboard.table import rich_table

    console = Console()
    console.print(Text(_who(held, budget), style="dim"))
    if states:
        console.print(rich_table(rows_for(layout, states), console.width))
    else:
        console.print(Text("no panes yet: `taskmaestro up 3` makes some"))
