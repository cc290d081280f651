"""The picture in the README: the turning points of a real run, above the table as ``conduct`` shows it in the end.

A run differs from the next one in its times, its commits, its numbers, and in which pane was quicker. So that the
picture changes only when what happens changes, these are put in order: each pane's own lines stay in their order,
the panes take turns by how far they are, and clock, commits and pull requests are counted anew.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conductor.core.memory import remember
from conductor.core.state import Fleet, Pane
from conductor.dashboard.live import event_line, svg
from conductor.dashboard.narrate import Narrator, Said
from conductor.journal import read
from schemas.journal import JournalLine
from scripts import demo

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "run.svg"
WIDTH = 118
BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
STEP = timedelta(seconds=2)
BUDGET = 600.0
"""Seconds for the run: a busy machine may take its time here."""

STAGES = {
    "task given": 0,
    "success claimed": 1,
    "addressed": 1,
    "CI failed": 2,
    "CI passed": 2,
    "review approves": 3,
    "review asks for changes": 3,
    "review asks for changes at the cap": 3,
    "task delivered": 4,
}
"""The turning points by their rule, and where they stand in the first round; a round is ``ROUND`` stages long."""
ROUND = 10
KILL = 5
"""Where the conductor's second start stands: after the first fix tasks, as the demonstration has it."""
_TASK = re.compile(r"\b[0-9a-f]{4}-(\d+-\d+)\b")
_SHA = re.compile(r"\b[0-9a-f]{7}\b")
_NUMBER = re.compile(r"#(\d+)")
_DETAIL = re.compile(r": [^→—]*(?= [→—])")
_FONT = "font-family: Fira Code"
_OWN_FONT = "font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono"
_MADE_BY = re.compile(r"\s*<!-- Generated with Rich .*? -->")


class Names:
    """Counts anew what a run names by chance: commits, tasks and pull requests."""

    def __init__(self, pulls: dict[int, int]) -> None:
        self._shas: dict[str, str] = {}
        self._pulls = pulls

    def sha(self, sha: str) -> str:
        """Another name for this commit, by when it was first named."""
        count = len(self._shas)
        return self._shas.setdefault(sha[:7], hashlib.sha256(str(count).encode()).hexdigest()[:7])

    def pull(self, number: int) -> int:
        return self._pulls.get(number, number)

    def text(self, text: str) -> str:
        text = _TASK.sub(r"a1b2-\1", text)
        text = _SHA.sub(lambda found: self.sha(found[0]), text)
        return _NUMBER.sub(lambda found: f"#{self.pull(int(found[1]))}", text)


class Told(NamedTuple):
    """A line, where it stands in the order of all, and the pane's own order."""

    place: int
    pane: int
    said: Said


def turning_points(lines: Iterable[JournalLine]) -> Iterator[Told]:
    """The lines that are shown: by rounds of each pane, and the two starts of the conductor."""
    narrator, rounds, starts = Narrator(), dict.fromkeys(demo.EXPECTED, 0), 0
    for line in lines:
        said = narrator.tell(line)
        if said.rule == "note" and said.text.startswith("conductor started"):
            yield Told(KILL if starts else -1, 0, said._replace(text=_start(starts)))
            starts += 1
        # The first task of a pane comes with its agent's start, and is told as given.
        if said.pane is None or said.rule not in STAGES or said.minor or "on the command line" in said.text:
            continue
        yield Told(rounds[said.pane] * ROUND + STAGES[said.rule], said.pane, said)
        rounds[said.pane] += said.rule == "task delivered"


def _start(number: int) -> str:
    return "conductor started" if number == 0 else "conductor started again after kill -9: it goes on from the journal"


def shortened(text: str) -> str:
    """A line that fits; where it does not, without what stands between the rule and the new state."""
    fits = len(event_line(text, BEGIN, 1)) <= WIDTH
    return text if fits else _DETAIL.sub("", text, count=1)


def ordered(lines: Sequence[JournalLine], names: Names) -> list[Said]:
    """The turning points in an order that is the same in every run, on a clock of their own."""
    shown = sorted(turning_points(lines), key=lambda told: (told.place, told.pane))
    found = []
    for number, told in enumerate(shown):
        text = shortened(names.text(told.said.text))
        found.append(told.said._replace(at=BEGIN + number * STEP, text=text))
    return found


def settled(fleet: Fleet, names: Names, at: dict[int, datetime]) -> Fleet:
    """The panes as they ended, with the names and times of the picture."""

    def pane(one: Pane) -> Pane:
        when = at[one.index]
        attention = one.attention
        if attention is not None:
            message = names.text(attention.message)
            attention = attention.model_copy(update={"message": message, "since": when})
        return one.model_copy(
            update={
                "updated_at": when,
                "attention": attention,
                "head": names.sha(one.head or ""),
                "pr_number": names.pull(one.pr_number or 0),
                # A living pane that was seen again after the restart is no turning point.
                "last_rule": "review approves" if one.last_rule == "pane bound" else one.last_rule,
            }
        )

    return fleet.model_copy(update={"panes": {index: pane(one) for index, one in sorted(fleet.panes.items())}})


def picture(lines: Sequence[JournalLine]) -> str:
    """The SVG of a run's journal."""
    fleet = remember(lines).fleet
    first = 1 + len(fleet.panes)
    names = Names({one.pr_number or 0: first + place for place, (_, one) in enumerate(sorted(fleet.panes.items()))})
    said = ordered(lines, names)
    at = {one.pane: one.at for one in said if one.pane is not None}
    drawn = svg(settled(fleet, names, at), said, {"pid": 4711, "host": "here"}, width=WIDTH)
    return _MADE_BY.sub("", drawn.replace(_FONT, _OWN_FONT))


def play() -> list[JournalLine]:
    """A run of the demonstration, and its journal."""
    with demo.stage(lambda text: print(text, file=sys.stderr)) as made:
        wrong = demo.as_it_should(demo.play(made, BUDGET))
        if wrong:
            raise SystemExit("picture: the run did not go as it should: " + "; ".join(wrong))
        return list(read(made.root / ".taskmaestro" / "state" / "journal.jsonl"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/picture", description=__doc__)
    parser.add_argument("--journal", type=Path, help="take this journal of a demonstration instead of a new run")
    parser.add_argument("--to", type=Path, default=TARGET, help="the file to write")
    options = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    lines = list(read(options.journal)) if options.journal else play()
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_text(picture(lines), encoding="utf-8")
    print(f"wrote {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
