"""The plan of a review: which angles are looked at, in how many runs at the same time.

Review protocol, reviewer loop: "Deterministic Review Plan Contract", and its gate-angle mapping for lenses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from conductor.core.loops.lenses import serial_limitation
from schemas.loops.review import ANGLES, PlanOptions, read_plan_options

DEFAULT_PARALLEL = 3
MOST_PARALLEL = 4


class Run(NamedTuple):
    """One run of the plan; ``lens`` where a configured lens asked for it."""

    run_id: str
    angle: str
    lens: str | None = None


class Plan(NamedTuple):
    """``batches``: the runs in groups that fit side by side, one group after another."""

    max_parallel: int
    runs: tuple[Run, ...]
    limitations: tuple[str, ...] = ()

    @property
    def angles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.angle for run in self.runs))

    @property
    def batches(self) -> tuple[tuple[Run, ...], ...]:
        step = self.max_parallel
        return tuple(self.runs[at : at + step] for at in range(0, len(self.runs), step))


def make_plan(options: PlanOptions) -> Plan:
    """The plan for these options. Pure and total.

    Lenses come first, each in a run of its own, and all of them even where they do not fit side by side. Angles fill
    what is left of one batch: those asked for, or the canonical ones where neither angle nor lens is asked for.
    """
    most = min(MOST_PARALLEL, options.max_parallel or DEFAULT_PARALLEL)
    wanted: list[tuple[str, str | None]] = [(angle, lens) for lens, angle in options.lenses]
    covered = {angle for angle, _ in wanted}
    for angle in options.angles or (() if options.lenses else ANGLES):
        if angle not in covered and len(wanted) < most:
            wanted.append((angle, None))
            covered.add(angle)
    runs = tuple(Run(f"review-angle-{number:02d}", *one) for number, one in enumerate(wanted, 1))
    limitation = serial_limitation(len(options.lenses), most)
    return Plan(most, runs, (limitation,) if limitation else ())


def write_plan(plan: Plan) -> dict[str, Any]:
    """The plan as a JSON object; lenses, batches and limitations only where there are any."""
    value: dict[str, Any] = {
        "maxParallel": plan.max_parallel,
        "angles": list(plan.angles),
        "runs": [
            {"runId": run.run_id, "angle": run.angle, **({"lens": run.lens} if run.lens else {})} for run in plan.runs
        ],
    }
    if any(run.lens for run in plan.runs):
        value["batches"] = [[run.run_id for run in batch] for batch in plan.batches]
        value["limitations"] = list(plan.limitations)
    return value


def detect(raw: object) -> dict[str, Any]:
    """The plan for options of any shape. Raises ``BadInput`` where they cannot be read."""
    return {"ok": True, **write_plan(make_plan(read_plan_options(raw)))}
