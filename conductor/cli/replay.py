"""``taskmaestro replay``: the states rebuilt from the journal alone, held against the state files."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import click

from conductor import inbox
from conductor.cli.context import find_context
from conductor.cli.output import answer, note, read_options
from conductor.cli.reading import Tail
from conductor.cli.status import read_state
from conductor.core.memory import Memory
from conductor.core.watches import awaited
from conductor.layout import Layout
from conductor.lock import holder
from schemas.errors import BadInput, Fault, NotSo
from schemas.events import PaneAdded, PaneRemoved
from schemas.text import one_line

PATIENCE = 5.0
"""Seconds for which differences are looked at again while a conductor is at work."""
SETTLED = 1.0
"""Seconds for which the same differences have to stay until they count."""
_WHOLE, _NO_FILE = "(whole file)", "no file"


class Difference(NamedTuple):
    """One field of one pane: what the journal makes of it, and what the file says."""

    pane: int
    field: str
    journal: Any
    file: Any


class Waiting(NamedTuple):
    """One event of a request that no conductor took yet; pane and event are None where it cannot be read."""

    request: str
    pane: int | None
    event: str | None


class Comparison(NamedTuple):
    """The rebuilt memory, the published states that follow from it, where the files differ, and what waits to be
    taken.
    """

    memory: Memory
    states: dict[int, dict[str, Any]]
    differences: list[Difference]
    waiting: list[Waiting]


@click.command(name="replay")
@read_options
def command(*, as_json: bool, jq: str | None, silent: bool) -> int:
    """Rebuild the states from the journal and compare them.

    The journal is the only memory; the state files are written from it. Where they differ, each field is
    named. While a conductor is at work, what is just being written is waited for. Requests that no conductor
    took yet are not in the journal: they are listed, and a pane that `cleanup` removed that way does not differ.

    \b
    Example: taskmaestro replay
             taskmaestro replay --jq '.differences[] | .field'

    Exit codes: 0 they agree; 1 they differ.
    """
    layout = Layout(find_context().root)
    if not layout.journal.exists():
        raise NotSo(f"there is no journal: {layout.journal}", "`taskmaestro up 3` begins one.")
    found = settled(layout)
    value = {
        "agree": not found.differences,
        "lines": found.memory.last_seq,
        "outstanding": list(found.memory.outstanding),
        "panes": [found.states[index] for index in sorted(found.states)],
        "differences": [difference._asdict() for difference in found.differences],
        "waiting": [one._asdict() for one in found.waiting],
    }
    answer(value, as_json=as_json, jq=jq, silent=silent, text=lambda: _words(found))
    if not found.differences:
        return 0
    if holder(layout.lock) is None:
        note("The journal is what counts: the conductor writes the files anew when it starts.")
    return NotSo.exit_code


def settled(layout: Layout) -> Comparison:
    """The comparison; while a conductor works, differences count only once nothing is written any more."""
    tail, memory = Tail(layout.journal), Memory()
    began = since = time.monotonic()
    before: list[Difference] = []
    while True:
        for _, line in tail.parsed():
            memory.take(line)
        found, now = compare(layout, memory), time.monotonic()
        if found.differences != before or tail.behind():
            before, since = found.differences, now
        if not found.differences or holder(layout.lock) is None or now - since >= SETTLED or now - began >= PATIENCE:
            return found
        time.sleep(0.1)


def compare(layout: Layout, memory: Memory) -> Comparison:
    """The files as they are now against this memory, field by field."""
    states = {
        index: json.loads(pane.published(awaited(pane)).model_dump_json()) for index, pane in memory.fleet.panes.items()
    }
    files = {int(path.stem) for path in layout.panes.glob("*.json") if path.stem.isdigit()}
    differences: list[Difference] = []
    for index in sorted(files | set(states)):
        differences += _fields(layout, index, states.get(index))
    # After the files: `cleanup` leaves its request first and then removes the file.
    waiting, let_go = _waiting(layout)
    differences = [one for one in differences if not (one.pane in let_go and one.file == _NO_FILE)]
    return Comparison(memory, states, differences, waiting)


def _waiting(layout: Layout) -> tuple[list[Waiting], set[int]]:
    """What the inbox holds, and the panes that are gone once it is taken."""
    found: list[Waiting] = []
    let_go: set[int] = set()
    for path in inbox.waiting(layout.inbox):
        try:
            events = inbox.events_of(path)
        except FileNotFoundError:
            continue
        except BadInput:
            found.append(Waiting(path.stem, None, None))
            continue
        for event in events:
            found.append(Waiting(path.stem, event.pane, event.kind))
            if isinstance(event, PaneRemoved):
                let_go.add(event.pane)
            elif isinstance(event, PaneAdded):
                let_go.discard(event.pane)
    return found, let_go


def _fields(layout: Layout, index: int, expected: dict[str, Any] | None) -> list[Difference]:
    try:
        found: dict[str, Any] | None = read_state(layout.pane_file(index))
    except FileNotFoundError:
        found = None
    except Fault as fault:
        return [Difference(index, _WHOLE, "a pane's state", fault.what)]
    if expected is None or found is None:
        if expected is found:
            return []
        return [Difference(index, _WHOLE, "a pane" if expected else "no such pane", "a file" if found else _NO_FILE)]
    names = [*expected, *(name for name in found if name not in expected)]
    return [
        Difference(index, name, expected.get(name), found.get(name))
        for name in names
        if (name in expected) != (name in found) or expected.get(name) != found.get(name)
    ]


def _words(found: Comparison) -> str:
    head = f"{found.memory.last_seq} journal lines, {len(found.states)} panes"
    if not found.differences:
        undone = len(found.memory.outstanding)
        lines = [f"{head}: states and files agree" + (f"; {undone} effects are not done yet" if undone else "")]
    else:
        lines = [f"{head}: {len(found.differences)} fields differ"]
    for one in found.differences:
        lines.append(
            f"  pane {one.pane}, {one_line(one.field)}: journal {_shown(one.journal)}, file {_shown(one.file)}"
        )
    if found.waiting:
        requests = len({one.request for one in found.waiting})
        wait = "1 request waits" if requests == 1 else f"{requests} requests wait"
        lines.append(f"{wait} for a conductor (`taskmaestro conduct`), not in the journal yet:")
    for request in found.waiting:
        what = "cannot be read" if request.event is None else f"pane {request.pane}, {request.event}"
        lines.append(f"  {one_line(request.request)}: {what}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 120)
