"""docs/loops.md: the review loops, with their states, rules and graphs taken from the tables that decide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from conductor.core.graph import Graph
from conductor.core.graph.text import mermaid
from conductor.core.loops import follow_up_loop, graphs, lenses, outer, reviewer_loop, routing
from conductor.core.loops.rules import State
from schemas.loops import fields, follow_up, local_state, reviewer
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

[tutorial-reviewer-pass.md](tutorial-reviewer-pass.md) walks through a whole pass on a live pull request.

## Input and output

The pure verbs take `--input FILE`, where `-` is standard input; every verb answers JSON with `"ok": true`. `--jq
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

Of a live pull request (`--pr N`, and `--repo owner/name` where you want it checked):

| verb | reads | answers, and writes |
|---|---|---|
| `loop reviewer` | the pull request, requested reviewers, reviews, your pending review, a local state | as above |
| `loop follow-up` | the pull request, checks, reviews, threads | as above |
| `loop outer` | both | the checkpoint, written to `state/checkpoints/`; both answers; the hand-over |
| `loop stage` | a merged review of this head | a pending review on the forge, and a local state file; submits nothing |
| `loop notify` | your pending review | where it is; the local state says that this was passed on |
| `loop watch` | as `loop outer`, again and again | ends when there is something to do; exit 4 after the budget |
| `loop watch-ci` | the checks of one head | exit 0 green, 1 failed, 2 timed out or another head |
| `loop startup` | the issue's pull request, the checkpoint | what a fresh start resumes |

The follow-up loop also answers `autoRerequestEligible` (a review may be requested again without asking anybody),
`sameHeadCleanConverged` (this very head is reviewed and nothing is open), `disposition` and `terminal`.

## Normal form

A snapshot that is not an object is an error. Everything else is read: a field that is missing, unknown or of the wrong
type falls back to its default, fields that are not known are left out. Only `true` is true. Numbers must be numbers;
they are floored. Texts are trimmed, and empty ones are null. Reading the normal form again changes nothing.

Plans, run results and merged reviews are stricter: an approval must not come from something that could not be read.
The lists that hold runs and findings must be there, except the findings of a run that failed; no `runId` comes twice.
A merged review must have its `verdict`, `totalFindings` and `runsMerged`, and must fit together: `loop draft` and
`loop stage` hold the verdict against the findings by the rules of `loop merge`, and refuse it with exit code 2
otherwise. `loop stage` also refuses an approval that no run came to.

A target's `repo` is `owner/name` of letters, digits, `.`, `_` and `-`; everything else is a malformed target.
"""

_LIVE = """\
## A live pull request

`--repo` is the repository that the current folder belongs to, and may be left out. It is checked: the forge's own
name (`local/<folder>` for the local forge) and the `owner/name` of each git remote are taken, everything else is
refused. The checkpoint has the forge's own name.

Everything is read around one head; where that moves meanwhile, it is read again. What cannot be read is an error with
exit code 3, never a zero.

**Whose reviewer loop**: `--reviewer-login`, else the one requested reviewer, else all of them together. A pending
review is seen by its author alone, so the forge's word about it counts for your own loop; about another reviewer's
the local state is believed. An author's own comments are no review.

**Local state** is what a pass writes down of itself (schema `local-state`): `--local-state FILE`, else
`state/reviews/pr-N.json`, which the conductor derives from its journal at each step of its own review. The latter is
left aside where another reviewer is asked about. One whose `passStartedAt` is more than five minutes ahead of the clock
is refused. A file that names another `headSha` than the head says nothing: that
pass is over. While a pass of this head is known, reviews of older heads, and those from before it began, count as
earlier passes.

**External reviews** are those by the logins of `[loops] external_reviewers`. Each one submitted is a round. A thread
*asks for something* while it is open and somebody other than the author had the last word in it. The signal of a
round is the weightiest severity that one of its threads begins with (`critical`, `high` -> `high`; `medium` or none
-> `mid`; `low`, `note`, `nit` -> `low`), and `high` where it asks for changes.

**CI** is that of exactly this head. `--local-validation-head-sha SHA` makes a head without any check `crediblyGreen`
where SHA is that head and the head before was green.

**Ownership**: while a live conductor has the pull request in a pane, a hand-over to a loop becomes
`stay_with_current_live_owner`.

**Watching**: between two looks `[loops] poll` seconds pass, less where the forge's own folders change; at most
`[loops] budget` seconds in all (`--interval`, `--budget`), then one last look and `watch timeout — PR #N needs manual
attention`. `--budget` may be 1800 at most, or `[loops] budget` where a person set that higher. A pull request is
watched by one process at a time; the lock names its pid and host and goes with the process.

**Heads**: `watch-ci --head` takes an abbreviation of at least 7 digits of a head that the pull request has or had.

**Drafts**: each login has at most one pending review of a pull request. Staging the same review again changes nothing,
and keeps that its link was passed on. `loop notify` does not pass on a draft of another commit than the head, or of a
pull request that is not open: exit code 1, and `taskmaestro pr discard N` is next. `draftReviewId` is a number
everywhere; null where the forge's ids are none.

**Files**: where a file is read, a FIFO, folder or device is refused and never waited for; what the shell hands over
(`<(...)`, `/dev/stdin`) is read. Where one is written, there must be a plain file or nothing: no link, no `-`.

**Re-attachment**: `loop startup` reads the checkpoint of the last cycle: `resume_follow_up` for `continue_wait` and
`reenter_copilot_loop`, `enter_reviewer_loop`, `ask_for_direction` with the `reason`, or `fresh_start` where there is
none, or the last one said `done`. On a pull request that is merged or closed, and on a closed issue, it is `done`,
whatever the checkpoint says; on a closed issue with an open pull request without a checkpoint it is
`ask_for_direction`. `issueState` and `prState` say why. A checkpoint of another pull request, or with a state that does
not exist, is refused with exit code 2. A number that is no pull request gets none: exit code 1.
"""

_LENSES = """\
## Lenses

The approval gate looks through configured lenses. They do not replace the five angles: each lens is a run of the angle
that it maps to, by default {defaults}. `loop plan` with `lenses` gives every lens a run of its own, in batches where
they do not all fit side by side, and then says so in `limitations`. `loop merge` takes the `lenses` that had to be
covered and the `limitations`, and writes them into the merged review; a lens that no run covered rules an approval out,
and so does a run that failed (`status` other than `completed`, `ok` false, or an `error`). A run covers a lens where
its angle is the one that the lens maps to: by the `lenses` of the input, else by default.

The conductor's own review gives the lenses of `[review] lenses` to each judging reviewer with its packet, and records
the angles and lenses that were covered and its limitations: lenses without a judging reviewer, several lenses in one
run, runs that did not fit side by side. These it tells in the posted review; they do not bar an approval there.
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
    parts += ["", _LIVE, "### Local state\n", _fields(local_state.FIELDS)]
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
