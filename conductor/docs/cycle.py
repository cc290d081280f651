"""docs/review-cycle.md: the transition table and its diagram, from ``conductor.core.cycle.TABLE`` itself."""

from __future__ import annotations

from conductor.core.cycle import TABLE, agents, claims, gate, people, reviews
from conductor.core.cycle.row import EVERY, LIVE, Row
from schemas.pane import Status

GROUPS: dict[str, tuple[Row, ...]] = {
    "What workers report": claims.ROWS,
    "CI and the head of the pull request": gate.ROWS,
    "Reviews": reviews.ROWS,
    "People": people.ROWS,
    "Agents, deliveries and this machine": agents.ROWS,
}
_DRAWN = 4
"""A rule that holds in more states than this is not drawn: the diagram would be all arrows."""

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
- *Attention* says that a person is wanted. It never changes the state.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## States\n", diagram(), "", _undrawn(), ""]
    for title, rows in GROUPS.items():
        parts += [f"## {title}\n", table(rows), ""]
    return "\n".join(parts).rstrip() + "\n"


def drawn(row: Row) -> bool:
    """Whether the diagram shows the row: it can change the state, and does so from few enough states."""
    return row.to is not None and len(row.sources) <= _DRAWN and any(row.to - {source} for source in row.sources)


def diagram() -> str:
    """The rows that change the state, as a mermaid state diagram."""
    arrows: dict[tuple[Status, Status], list[str]] = {}
    for row in TABLE:
        if row.to is None or not drawn(row):
            continue
        for source in sorted(row.sources):
            for target in sorted(row.to - {source}):
                arrows.setdefault((source, target), []).append(row.rule)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> working: task given"]
    lines += [f"    {source} --> {target}: {', '.join(rules)}" for (source, target), rules in arrows.items()]
    return "\n".join([*lines, "    done --> [*]", "```"])


def _undrawn() -> str:
    rules = [
        f"*{row.rule}*" for row in TABLE if row.to is not None and not drawn(row) and row.to - row.sources != set()
    ]
    wide = [f"*{row.rule}*" for row in TABLE if row.to is not None and len(row.sources) > _DRAWN]
    named = ", ".join(dict.fromkeys([*wide, *rules]))
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
