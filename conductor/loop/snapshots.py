"""What the conductor publishes, derived from its memory, replaced whole, never read back by it.

``state/panes/N.json`` is a pane, ``state/reviews/pr-N.json`` how far the review of a pull request has come,
``state/forge-budget.json`` what is left of the forge's rate limit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from conductor.core.cycle.passes import local_state
from conductor.core.state import Fleet
from conductor.core.watches import awaited
from conductor.layout import Layout
from schemas.forge import ApiBudget
from schemas.journal import JournalLine
from schemas.loops.local_state import LocalState, write_local_state
from worker.tools.files import replace_file


def published(fleet: Fleet, index: int) -> str:
    """The state file's text."""
    pane = fleet.panes[index]
    return pane.published(awaited(pane)).model_dump_json(indent=2) + "\n"


def write_changed(layout: Layout, before: Fleet, after: Fleet) -> None:
    """Write the files of panes that changed, remove those of gone ones. Raises ``Fault``."""
    layout.panes.mkdir(parents=True, exist_ok=True)
    for index, pane in after.panes.items():
        if before.panes.get(index) is not pane:
            replace_file(layout.pane_file(index), published(after, index))
    for index in set(before.panes) - set(after.panes):
        layout.pane_file(index).unlink(missing_ok=True)
    _write_reviews(layout, before, after)


def reviews_of(fleet: Fleet) -> dict[int, LocalState]:
    """Pull request -> how far its review has come; the pane that was heard of last speaks for it."""
    states = [local_state(pane) for _, pane in sorted(fleet.panes.items(), key=lambda item: item[1].updated_at)]
    return {state.pr_number: state for state in states if state is not None and state.pr_number is not None}


def _write_reviews(layout: Layout, before: Fleet, after: Fleet) -> None:
    old, new = reviews_of(before), reviews_of(after)
    for number, state in new.items():
        if old.get(number) != state:
            layout.reviews.mkdir(parents=True, exist_ok=True)
            replace_file(layout.review_file(number), json.dumps(write_local_state(state), indent=2) + "\n")
    for number in set(old) - set(new):
        layout.review_file(number).unlink(missing_ok=True)


def write_all(layout: Layout, fleet: Fleet) -> None:
    """Write every file anew and remove those of unknown panes."""
    layout.budget.unlink(missing_ok=True)
    write_changed(layout, Fleet(), fleet)
    for path in layout.panes.glob("*.json"):
        if not path.stem.isdigit() or int(path.stem) not in fleet.panes:
            path.unlink(missing_ok=True)
    known = reviews_of(fleet)
    for path in layout.reviews.glob("pr-*.json"):
        digits = path.stem.removeprefix("pr-")
        if not digits.isdecimal() or int(digits) not in known:
            path.unlink(missing_ok=True)


def write_budget(layout: Layout, budget: ApiBudget) -> None:
    """Publish what the last question left. Raises ``Fault``."""
    replace_file(layout.budget, budget.model_dump_json(indent=2) + "\n")


def concerns(lines: Sequence[tuple[JournalLine, str]]) -> bool:
    """Whether these lines can have changed a state."""
    return any(line.line in ("event", "result") for line, _ in lines)
