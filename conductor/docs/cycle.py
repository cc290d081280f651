"""docs/review-cycle.md: the transition table and its diagram, from ``conductor.core.cycle.TABLE`` itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import get_args

from conductor.core.cycle import TABLE, agents, claims, decide, gate, people, reviews
from conductor.core.cycle.row import EVERY, LIVE, Row
from conductor.core.graph import Edge, Graph
from conductor.core.state import Pane
from conductor.dashboard.outlook import VerbName, samples
from schemas.config import CyclePolicy
from schemas.events import Event, UserDecided
from schemas.pane import Role, Status

GROUPS: dict[str, tuple[Row, ...]] = {
    "What workers report": claims.ROWS,
    "CI and the head of the pull request": gate.ROWS,
    "Reviews": reviews.ROWS,
    "People": people.ROWS,
    "Agents, deliveries and this machine": agents.ROWS,
}
_DRAWN = 4
"""A rule that holds in more states than this is not drawn: the diagram would be all arrows."""
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_POLICY = CyclePolicy(max_cycles=2, ci_returns_cap=1)
"""Small caps: the ways from state to state are the same, and sooner found."""

_HEAD = """\
# The review cycle

Generated from the table that the conductor runs (`conductor/core/cycle`) by `scripts/docs`.

A pane is in one of six states. The whole decision is a look-up: the first row whose states, event and guard fit an
event takes it, says what the pane is then, and which effects follow. The rows below stand in the order in which they
are tried. An event that no row takes is kept in the journal and changes nothing. Nothing in here looks at a clock, a
file or a network, so the same journal always gives the same states.

- CI comes first: no review, and no approval, without a green gate for exactly this head.
- At most three reviews ask for changes (`review.max_cycles`); then a person decides. The cap is never passed by
  approving.
- A CI failure goes back to the worker and is no review; it has a cap of its own (`ci.returns_cap`).
- A verdict belongs to a head: when the head moves, the gate opens again.
- An approval is withdrawn when a check of its head fails later. When the same head is green again it stands, without
  another review and without another post.
- *Attention* says that a person is wanted. It never changes the state.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## States\n", diagram(), "", _undrawn(), ""]
    for title, rows in GROUPS.items():
        parts += [f"## {title}\n", table(rows), ""]
    return "\n".join(parts).rstrip() + "\n"


@cache
def arrows() -> dict[tuple[Status, Status], list[str]]:
    """(from, to) -> the rules that lead there, found by following every sample event from a new pane on.

    A row lists all states that it may end in; which of them follows from which state is only seen by trying.
    """
    found: dict[tuple[Status, Status], set[str]] = {}
    first = Pane(index=1, role=Role.WORKER, updated_at=_AT, pane_id="%1", branch="b", run="abcdef")
    seen, waiting = {_essence(first)}, [first]
    while waiting:
        pane = waiting.pop()
        for event in _events(pane):
            decision = decide(pane, event, _POLICY)
            after = decision.pane
            if after.status is not pane.status:
                found.setdefault((pane.status, after.status), set()).add(decision.rule)
            if (key := _essence(after)) not in seen and after.extra_cycles + after.extra_ci_returns < 2:
                seen.add(key)
                waiting.append(after)
    order = [row.rule for row in TABLE]
    return {
        way: sorted(rules, key=order.index) for way, rules in sorted(found.items(), key=lambda item: _place(item[0]))
    }


def _events(pane: Pane) -> Iterator[Event]:
    for _, event in samples(pane):
        yield event
    for verb in get_args(VerbName):
        yield UserDecided(pane=1, at=_AT, verb=verb, why="-", who="-", request="-", follow_up_issue=1)


def _essence(pane: Pane) -> tuple[object, ...]:
    """What tells two states of a pane apart, without names and numbers that only grow."""
    gate, task = pane.gate, pane.task
    return (
        pane.status,
        pane.review_cycle,
        pane.ended,
        pane.ci_returns,
        pane.attention and pane.attention.reason,
        pane.claim and pane.claim.purpose,
        gate and (gate.state, gate.returned, gate.timed_out, gate.head == pane.green_head),
        pane.granted_head is not None and pane.granted_head == pane.head,
        task and (task.kind, task.about, task.open),
        pane.review is None,
        pane.pr_number is None,
        pane.extra_cycles,
        pane.extra_ci_returns,
    )


def _place(way: tuple[Status, Status]) -> tuple[int, int]:
    order = list(Status)
    return order.index(way[0]), order.index(way[1])


def _wide(rule: str) -> bool:
    return any(row.rule == rule and len(row.sources) > _DRAWN for row in TABLE)


def diagram() -> str:
    """The moves from state to state, as a mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> working: task given"]
    for (source, target), rules in arrows().items():
        drawn = [rule for rule in rules if not _wide(rule)]
        if drawn:
            lines.append(f"    {source} --> {target}: {', '.join(drawn)}")
    return "\n".join([*lines, "    done --> [*]", "```"])


def graph() -> Graph:
    """The same as data, for ``taskmaestro loop graph cycle``; rules that hold in nearly every state are faint."""
    edges = [
        Edge(source.value, target.value, rule, _wide(rule))
        for (source, target), rules in arrows().items()
        for rule in rules
    ]
    return Graph("cycle", tuple(status.value for status in Status), tuple(edges), "working", ("done",))


def graph_file() -> str:
    """``graph`` as JSON, one edge a line."""
    made = graph()
    edges = ",\n".join(f"    {json.dumps(edge._asdict())}" for edge in made.edges)
    head = json.dumps({**made._asdict(), "edges": []})
    return head.replace('"edges": []', f'"edges": [\n{edges}\n]') + "\n"


def _undrawn() -> str:
    rules = {rule: None for rules in arrows().values() for rule in rules if _wide(rule)}
    named = ", ".join(f"*{rule}*" for rule in rules)
    return f"Not drawn, because they hold in nearly every state: {named}."


def table(rows: tuple[Row, ...]) -> str:
    """Rows as a Markdown table."""
    lines = ["| event | in state | rule | then | what it means |", "|---|---|---|---|---|"]
    for row in rows:
        then = "stays" if row.to is None else " or ".join(f"`{status}`" for status in _ordered(row.to))
        lines.append(f"| `{row.kind}` | {_states(row.sources)} | {row.rule} | {then} | {row.doc} |")
    return "\n".join(lines)


def _ordered(states: frozenset[Status]) -> list[Status]:
    return [status for status in Status if status in states]


def _states(states: frozenset[Status]) -> str:
    if states == EVERY:
        return "any"
    if states == LIVE:
        return "any but `done`"
    missing = EVERY - states
    if len(missing) == 1:
        return f"any but `{next(iter(missing))}`"
    return ", ".join(f"`{status}`" for status in _ordered(states))
