"""docs/loops.md: the review loops, with their states, rules and graphs taken from the tables that decide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from conductor.core.graph import Graph
from conductor.core.graph.text import mermaid
from conductor.core.loops import follow_up_loop, graphs, lenses, outer, reviewer_loop, routing
from conductor.core.loops.rules import State
from schemas.loops import fields, follow_up, reviewer
from schemas.loops import routing as words

_HEAD = """\
# The review loops

Generated from `conductor/core/loops` and `schemas/loops` by `scripts/docs`.

Two loops accompany a pull request: the *reviewer loop* makes a review and ends when it is submitted, the *follow-up
loop* is the author's side of a review by somebody outside. *Routing* says which of them acts next. Each is a pure
function from a snapshot to exactly one state; the first rule that holds decides, and the last one always does.

```console
$ echo '{"prExists": true, "reviewRequested": true}' | taskmaestro loop reviewer --input - --jq .state
review_requested
$ echo '{"prExists": true, "ciStatus": "pending"}' | taskmaestro loop follow-up --input - --jq .nextAction
Wait until CI of this head is decided, with a bounded watch.
$ taskmaestro loop graph outer --format svg > outer.svg
```

## Input and output

Every verb takes `--input FILE`, where `-` is standard input, and answers one line of JSON with `"ok": true`. `--jq
FILTER` and `--silent` work as everywhere. A fault is `{"ok": false, "error": "..."}` on standard error, with the exit
codes of [contracts.md](contracts.md#command-line); nothing is written to standard output then.

**JSON Lines**: an input of several lines, of which one is an object by itself, is answered line by line and at once, so
one process can answer for a long time. A bad line is answered `{"ok": false, "line": 3, "error": "..."}` in its place,
past the filter; the others go on, and the exit code is 1 at the end.

| verb | takes | answers |
|---|---|---|
| `loop reviewer` | a reviewer snapshot | `snapshot`, `state`, `allowedTransitions`, `nextAction` |
| `loop follow-up` | a follow-up snapshot; `--config` limits | the same, and the four below |
| `loop route` | the states of both loops | `routingOutcome`, `outerAction`, `stopReason`, `handoffEnvelope` |
| `loop plan` | `requestedAngles`, `maxParallel`, `lenses` | `maxParallel`, `angles`, `runs` |
| `loop merge` | `headSha`, `runResults`; `lenses`, `limitations` | a merged review |
| `loop draft` | a merged review | `commit_id`, `body`, `comments` of a pending review; nothing is sent |
| `loop graph` | the name of a graph | mermaid, dot or SVG; with `--json` the graph as data |

The follow-up loop also answers `autoRerequestEligible` (a review may be requested again without asking anybody),
`sameHeadCleanConverged` (this very head is reviewed and nothing is open), `disposition` and `terminal`.

## Normal form

A snapshot that is not an object is an error. Everything else is read: a field that is missing, unknown or of the wrong
type falls back to its default, fields that are not known are left out. Only `true` is true. Numbers must be numbers;
they are floored. Texts are trimmed, and empty ones are null. Reading the normal form again changes nothing.

Plans, run results and merged reviews are stricter in one way: the lists that hold runs and findings must be there. An
approval must not come from something that could not be read.
"""

_LENSES = """\
## Lenses

The approval gate looks through configured lenses. They do not replace the five angles: each lens is a run of the angle
that it maps to, by default {defaults}. `loop plan` with `lenses` gives every lens a run of its own, in batches where
they do not all fit side by side, and then says so in `limitations`. `loop merge` takes the `lenses` that had to be
covered and the `limitations`, and writes them into the merged review; a lens that no run covered rules an approval out.
"""

_RESUME = """\
## Checkpoint and re-attachment

The outer loop writes its checkpoint at each cycle (`taskmaestro schema checkpoint`). A fresh start reads it first.

| `outerAction` | what a start does |
|---|---|
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *_reviewer(), *_follow_up(), *_routing()]
    parts.append(_LENSES.format(defaults=", ".join(f"`{a}` onto {b}" for a, b in lenses.DEFAULT_LENSES.items())))
    rows = [f"| `{action}` | {_resumed(action)} |" for action in words.OUTER_ACTIONS]
    parts.append(_RESUME + "\n".join([*rows, "| no checkpoint | " + outer.RESUME_ACTIONS[outer.Resume.FRESH] + " |"]))
    return "\n".join(parts).rstrip() + "\n"


def _resumed(action: str) -> str:
    return outer.RESUME_ACTIONS[outer.RESUMES[action]]


def _reviewer() -> list[str]:
    return [
        "## Reviewer loop\n",
        _states(reviewer_loop.NEXT_ACTIONS, reviewer_loop.FOLLOWERS),
        "### Rules\n",
        _rules((rule.name, rule.state) for rule in reviewer_loop.RULES),
        "The two legacy waits are never the answer; older records may hold them, and routing knows them.\n",
        "### Graph\n",
        _graph(graphs.reviewer()),
        "### Snapshot\n",
        _fields(reviewer.FIELDS),
    ]


def _follow_up() -> list[str]:
    return [
        "## Follow-up loop\n",
        "`copilot` in the names stands for the external reviewer, whoever it is.\n",
        _states(follow_up_loop.NEXT_ACTIONS, follow_up_loop.FOLLOWERS),
        "### Rules\n",
        _rules((rule.name, rule.state) for rule in follow_up_loop.RULES),
        "### Graph\n",
        _graph(graphs.follow_up()),
        "### Snapshot\n",
        _fields(follow_up.FIELDS),
        "### Limits (`--config`)\n",
        _fields(follow_up.LIMIT_FIELDS),
    ]


def _routing() -> list[str]:
    rows = ["| when | outcome | stop reason |", "|---|---|---|"]
    rows += [f"| {rule.name} | `{rule.outcome}` | {_code(rule.stop_reason)} |" for rule in routing.RULES]
    outcomes = ["| outcome | outer action | loop | verb | what to do |", "|---|---|---|---|---|"]
    for outcome, after in routing.CONSEQUENCES.items():
        cells = (f"`{outcome}`", f"`{after.outer_action}`", _code(after.loop_family), _code(after.entrypoint))
        outcomes.append(f"| {' | '.join(cells)} | {routing.NEXT_ACTIONS[outcome]} |")
    return [
        "## Routing and the outer loop\n",
        "\n".join(outcomes) + "\n",
        "### Rules\n",
        "\n".join(rows) + "\n",
        "Where a rule hands over to a loop and `ownershipState` is `live_owner`, the outcome is"
        " `stay_with_current_live_owner`.\n",
        "### Graph\n",
        _graph(graphs.outer()),
        "### Input\n",
        _fields(words.FIELDS),
    ]


def _states(actions: Mapping[State, str], followers: Mapping[State, tuple[State, ...]]) -> str:
    lines = ["| state | what to do | what may follow |", "|---|---|---|"]
    for state, action in actions.items():
        after = ", ".join(f"`{other}`" for other in followers[state]) or "-"
        lines.append(f"| `{state}` | {action} | {after} |")
    return "\n".join(lines) + "\n"


def _rules(rules: Iterable[tuple[str, str]]) -> str:
    lines = ["| | when | state |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {at} | {name} | `{state}` |" for at, (name, state) in enumerate(rules, 1))]) + "\n"


def _fields(table: Iterable[fields.Field]) -> str:
    lines = ["| field | what it is | values | default |", "|---|---|---|---|"]
    for field in table:
        schema = field.schema
        default = _value(schema.get("default"))
        lines.append(f"| `{field.name}` | {schema['description']} | {_values(schema)} | {default} |")
    return "\n".join(lines) + "\n"


def _values(schema: Mapping[str, object]) -> str:
    enum = schema.get("enum")
    if isinstance(enum, list):
        return ", ".join(map(_value, enum))
    kind = schema.get("type")
    names = kind if isinstance(kind, list) else [kind]
    least = schema.get("minimum")
    return " or ".join(map(str, names)) + (f", at least {least}" if least is not None else "")


def _value(value: object) -> str:
    return "null" if value is None else f"`{json.dumps(value)}`"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else "-"


def _graph(graph: Graph) -> str:
    return f"```mermaid\n{mermaid(graph)}```\n"
