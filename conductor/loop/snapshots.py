"""Each pane's published state (``state/panes/N.json``): derived from the memory, replaced whole, never read back."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.state import Fleet
from conductor.core.watches import awaited
from conductor.layout import Layout
from schemas.journal import JournalLine
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


def write_all(layout: Layout, fleet: Fleet) -> None:
    """Write every file anew and remove those of unknown panes."""
    write_changed(layout, Fleet(), fleet)
    for path in layout.panes.glob("*.json"):
        if not path.stem.isdigit() or int(path.stem) not in fleet.panes:
            path.unlink(missing_ok=True)


def concerns(lines: Sequence[tuple[JournalLine, str]]) -> bool:
    """Whether these lines can have changed a state."""
    return any(line.line in ("event", "result") for line, _ in lines)
