"""What a step is made from, and how its programs are run: bounded, in the scratch checkout, with a fitting
environment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from conductor.ports import Cancelled, ReviewStep
from schemas.config import Config
from schemas.errors import Unavailable
from schemas.finding import Finding
from schemas.review import StepReport
from worker.tools.process import Outcome, run


@dataclass(frozen=True)
class ProjectCommand:
    """A project's own command. ``changes_files``: it mends what it finds, so its exit code alone verifies
    little.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    changes_files: bool = False


@dataclass(frozen=True)
class DetectedCommand:
    """A command found in the project's files; ``check`` is its form that changes no file, where it has
    one.
    """

    argv: tuple[str, ...]
    check: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)


Detect = Callable[[Path, Path], Mapping[str, DetectedCommand]]
"""(checkout, managed repository) -> the project's commands by slot: ``format``, ``lint``, ``types``,
``test``.
"""

KEEP_MACHINE_OUTPUT = 64 * 1024 * 1024
"""Bytes kept of output that a program writes for us to parse; more than that is refused, not cut."""

_BORROWED_PROGRAMS = ("node_modules/.bin", ".venv/bin", "venv/bin")
FOREIGN_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_FORGE_SECRETS = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


class Run(Protocol):
    """``worker.tools.process.run`` or what stands for it."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        timeout: float,
        env: Mapping[str, str] | None = None,
        input: bytes | str | None = None,
        keep: int = ...,
        cancelled: Callable[[], bool] | None = None,
        merge: bool = True,
    ) -> Outcome: ...


@dataclass(frozen=True)
class StepContext:
    """Given to every step's factory. ``root`` is the managed repository, where installed dependencies lie."""

    config: Config
    root: Path
    detect: Detect
    run: Run = run


Factory = Callable[[StepContext], Iterable[ReviewStep]]
"""What an entry point of the group ``taskmaestro.review_steps`` names: answers the steps it stands for."""


class Budget:
    """The time that one step has: each of its programs gets what is left of it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self.seconds = seconds

    @property
    def left(self) -> float:
        """Seconds left, never less than a tenth, so that a program can say that it timed out."""
        return max(0.1, self.seconds - self.used)

    @property
    def used(self) -> float:
        return self._clock() - self._began

    def report(
        self, step: str, *, problems: Sequence[str] = (), findings: Sequence[Finding] = (), detail: str = ""
    ) -> StepReport:
        """The report of a step that ends now. Any problem makes it ``could_not_run``; its findings stay."""
        return StepReport(
            step=step,
            outcome="could_not_run" if problems else "ran",
            detail="\n".join([*problems, *([detail] if detail else [])]),
            findings=tuple(findings),
            seconds=self.used,
        )


def tool_environment(checkout: Path, root: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a project's own commands in a fresh checkout.

    Installed dependencies of the repository come first on PATH, the checkout's own modules first on
    PYTHONPATH: an editable install in the repository's virtual environment would otherwise test the
    repository's files instead of the checkout's. The forge's tokens are left out: code under review has no
    use for them.
    """
    env = {**os.environ, **(more or {})}
    for name in (*FOREIGN_GIT, *_FORGE_SECRETS):
        env.pop(name, None)
    places = [str(root / folder) for folder in _BORROWED_PROGRAMS if (root / folder).is_dir()]
    env["PATH"] = os.pathsep.join([*places, env.get("PATH", os.defpath)])
    modules = [str(folder) for folder in (checkout / "src", checkout) if folder.is_dir()]
    given = env.get("PYTHONPATH", "").split(os.pathsep)
    env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*modules, *filter(None, given)]))
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env.setdefault("CI", "true")
    return env


def run_tool(
    context: StepContext,
    argv: Sequence[str],
    checkout: Path,
    budget: Budget,
    cancelled: Callable[[], bool],
    *,
    input: str | None = None,
) -> Outcome:
    """Run a program whose stdout is for a machine. Raises ``Unavailable`` where it says nothing that can be
    used.

    That is: not found, timed out, or more than ``KEEP_MACHINE_OUTPUT`` bytes. Raises ``Cancelled`` when
    cancelled.
    """
    outcome = context.run(
        argv,
        cwd=checkout,
        timeout=budget.left,
        env=tool_environment(checkout, context.root),
        input=input,
        keep=KEEP_MACHINE_OUTPUT,
        cancelled=cancelled,
        merge=False,
    )
    if outcome.cancelled:
        raise Cancelled
    if outcome.timed_out:
        raise Unavailable(
            f"{argv[0]} did not end within {budget.seconds:.0f} s",
            "Make it quicker, or raise review.step_timeout in .taskmaestro/config.toml.",
        )
    if outcome.truncated:
        raise Unavailable(
            f"{argv[0]} printed more than {KEEP_MACHINE_OUTPUT // (1024 * 1024)} MiB",
            "Have it look at the changed files only.",
        )
    return outcome
