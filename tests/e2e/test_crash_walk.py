"""kill -9 of the conductor at every boundary of a whole run: nothing is lost, and nothing happens twice.

The run: a task, a pull request, CI that fails once and is mended, a review that asks for changes, a fix, another such
review, another fix, and a third review. Its boundaries are counted in a run that nobody disturbs; then the conductor
is killed at each of them, three times in a run at places far from each other, and in two runs at many of them in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.crash import Outcome, Runner, ended_at, ended_at_each, undisturbed

CHUNKS = 8
AT_ONCE = 4
"""Runs beside each other: much of a run is waiting for the agent's screen to be still."""


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """One process that has the conductor loaded, for the tests of this module."""
    made = Runner()
    yield made
    made.close()


@pytest.fixture(scope="module")
def to_the_cap(runner: Runner) -> tuple[Outcome, list[str]]:
    """The undisturbed run that ends at the cap, and its boundaries."""
    return undisturbed(runner, "cap")


@pytest.fixture(scope="module")
def to_approval(runner: Runner) -> tuple[Outcome, list[str]]:
    """The undisturbed run that is approved at its third review, and its boundaries."""
    return undisturbed(runner, "approved")


def expected_boundaries() -> set[str]:
    """What the scenario must pass, said independently of what a run happens to report."""
    effects = {"send_task": 4, "inspect_pr": 4, "run_review": 3, "post_review": 3, "write_result": 3, "report": 1}
    steps = {"send_task": ("text written",)}
    names = {
        f"{kind} {number}: {boundary}"
        for kind, count in effects.items()
        for number in range(1, count + 1)
        for boundary in ("intended", *steps.get(kind, ()), "performed", "recorded")
    }
    names |= {f"send_task {number}: {step}" for number in (2, 3, 4) for step in ("pasted", "entered")}
    observed = {"task_given": 1, "result_seen": 4, "ci_read": 4}
    seen = {
        f"{kind} {number}: {boundary}"
        for kind, count in observed.items()
        for number in range(1, count + 1)
        for boundary in ("unwritten", "written")
    }
    return names | seen | {"send_task 1: started"}


def test_the_undisturbed_run_ends_at_the_cap(to_the_cap: tuple[Outcome, list[str]]) -> None:
    outcome, boundaries = to_the_cap
    assert set(boundaries) == expected_boundaries()
    assert (outcome.status, outcome.review_cycle, outcome.attention) == ("review_pending", 3, "cycle_cap")
    assert outcome.ci_returns == 1
    assert outcome.tasks == ("first", "ci", "fix", "fix")
    assert [state for _, state, _ in outcome.reviews] == ["changes_requested"] * 3
    assert outcome.result == "review_pending 3 conductor"


def kills(boundaries: list[str], chunk: int) -> list[list[str]]:
    """Three kills in one run, a third of a run apart: what came of one has long ended when the next one comes."""
    third = -(-len(boundaries) // 3)
    return [boundaries[number::third] for number in range(chunk, third, CHUNKS)]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_kill_at_any_boundary_changes_nothing(
    runner: Runner, to_the_cap: tuple[Outcome, list[str]], chunk: int
) -> None:
    expected, boundaries = to_the_cap
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [(three, pool.submit(ended_at, runner, "cap", three)) for three in kills(boundaries, chunk)]
    for three, run in runs:
        assert run.result() == expected, f"after kills at {three}"


def test_no_boundary_is_left_out(to_the_cap: tuple[Outcome, list[str]]) -> None:
    boundaries = to_the_cap[1]
    chosen = [name for chunk in range(CHUNKS) for three in kills(boundaries, chunk) for name in three]
    assert sorted(chosen) == sorted(boundaries)


# A kill after a write leaves no "intended" to be passed: that intent is on the disk already, in the same write.
BEFORE = {"intended", "performed", "entered", "unwritten"}


@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after the write"])
def test_kills_at_one_boundary_after_the_other_in_one_run_change_nothing(
    runner: Runner, to_approval: tuple[Outcome, list[str]], before: bool
) -> None:
    expected, boundaries = to_approval
    chosen = [name for name in boundaries if (name.rpartition(": ")[2] in BEFORE) is before]
    outcome, ended = ended_at_each(runner, "approved", chosen)
    # While no conductor lives the worker goes on: where its report is read first, the delivery needs no second look;
    # of two intents in one write only the first can be passed; and a kill in one thread may come just when another has
    # done what its boundary tells of (written a line, pasted a prompt), which is then not passed either.
    missed = {name.rpartition(": ")[2] for name in set(chosen) - set(ended)}
    assert missed <= {"performed", "intended", "written", "pasted"}
    assert len(ended) == len(set(ended)) > 0.9 * len(chosen)
    assert outcome == expected
    assert (outcome.status, outcome.review_cycle, outcome.attention) == ("approved", 2, None)
    assert [state for _, state, _ in outcome.reviews][-1] == "approved"
