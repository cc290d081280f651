"""The battery: format, lint, types, test, before every push (review protocol, "Commit Hygiene").

Commands come from ``[battery]``; a slot that is not configured is detected from the project's files. The
first stage that fails ends the battery, and with it the push.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.config import BatteryConfig
from schemas.errors import NotSo, Unavailable
from worker.detect import native, node, python
from worker.detect.base import SLOTS, Command, Project, Slot
from worker.tools.process import Outcome, run

_DETECTORS: tuple[Callable[[Project], list[Command]], ...] = (
    node.detect,
    python.detect,
    native.detect_cargo,
    native.detect_go,
    native.detect_make,
)
_NO_TESTS_COLLECTED = 5


@dataclass(frozen=True)
class Detected:
    """The commands by slot, each with why. ``passed_over`` are those that another one came before; ``missing`` those
    whose program is not installed, for slots that nothing else was found for.
    """

    commands: dict[Slot, Command]
    passed_over: tuple[Command, ...] = ()
    missing: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Stage:
    """How one stage ended. ``note`` says what a person should know of a stage that passed."""

    slot: Slot
    command: Command
    outcome: Outcome
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome.ok or bool(self.note)

    def line(self) -> str:
        """``test passed in 2.1 s: npm run test``"""
        verb = "passed" if self.ok else "failed"
        shown = shlex.join(self.command.argv)
        note = f" ({self.note})" if self.note else ""
        return f"{self.slot} {verb} in {self.outcome.seconds:.1f} s: {shown}{note}"


def detect(root: Path, main: Path | None = None) -> Detected:
    """The commands of the project at ``root``; ``main`` is the main checkout of a worktree.

    A slot gets the first command found, in the order package.json, Python, Cargo, Go, Make.
    """
    project = Project(root, main or root)
    commands: dict[Slot, Command] = {}
    passed_over: list[Command] = []
    missing: list[Command] = []
    for detector in _DETECTORS:
        for command in detector(project):
            if command.missing:
                missing.append(command)
            elif command.slot in commands:
                passed_over.append(command)
            else:
                commands[command.slot] = command
    ordered = {slot: commands[slot] for slot in SLOTS if slot in commands}
    return Detected(ordered, tuple(passed_over), tuple(one for one in missing if one.slot not in ordered))


def plan(root: Path, config: BatteryConfig, main: Path | None = None) -> list[Command]:
    """The commands that the battery will run, in order: the configured ones, and detected ones for the
    other slots.
    """
    configured: dict[Slot, tuple[str, ...] | None] = {
        "format": config.format,
        "lint": config.lint,
        "types": config.types,
        "test": config.test,
    }
    found = detect(root, main).commands if None in configured.values() else {}
    commands = []
    for slot in SLOTS:
        argv = configured[slot]
        if slot in config.skip:
            continue
        if argv is not None:
            commands.append(Command(slot, argv, f".taskmaestro/config.toml: battery.{slot}"))
        elif slot in found:
            commands.append(found[slot])
    return commands


def left_out(root: Path, config: BatteryConfig, main: Path | None = None) -> list[str]:
    """What the battery does not do although the project is set up for it, a line each with the reason."""
    lines = [f"{slot}: left out ([battery] skip in .taskmaestro/config.toml)" for slot in config.skip]
    for one in detect(root, main).missing:
        if one.slot not in config.skip and getattr(config, one.slot) is None:
            lines.append(f"{one.slot}: left out: {one.missing} ({one.why})")
    return lines


def run_battery(
    root: Path,
    config: BatteryConfig,
    main: Path | None = None,
    *,
    told: Callable[[str], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[Stage]:
    """Run the battery in ``root`` and answer the stages that ran; the last one may have failed.

    ``told`` gets a line before and after each stage. Raises ``Unavailable`` where a program is missing.
    """
    say = told or (lambda _: None)
    stages: list[Stage] = []
    for line in left_out(root, config, main):
        say(line)
    for command in plan(root, config, main):
        say(f"{command.slot}: {shlex.join(command.argv)}")
        stage = _run_stage(root, main or root, command, config.timeout, cancelled)
        stages.append(stage)
        say(stage.line())
        if not stage.ok:
            break
    return stages


def _run_stage(root: Path, main: Path, command: Command, timeout: float, cancelled: Callable[[], bool] | None) -> Stage:
    env = environment(root, main, dict(command.env))
    try:
        outcome = run(command.argv, cwd=root, timeout=timeout, env=env, cancelled=cancelled)
    except Unavailable as fault:
        raise Unavailable(
            f"the {command.slot} stage cannot run: {fault.what}",
            f"Install it, or set another command (it comes from {command.why}).",
        ) from fault
    pytest = "pytest" in command.argv
    note = "no tests were found" if pytest and outcome.returncode == _NO_TESTS_COLLECTED else ""
    return Stage(command.slot, command, outcome, note)


def environment(root: Path, main: Path, more: dict[str, str]) -> dict[str, str]:
    """Ours, with the programs that the project and its main checkout have installed first on PATH."""
    env = {**os.environ, **more}
    folders = [folder for place in dict.fromkeys((root, main)) for folder in _program_folders(place)]
    env["PATH"] = os.pathsep.join([*map(str, folders), env.get("PATH", os.defpath)])
    if "PYTHONPATH" in more and os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.pathsep.join([more["PYTHONPATH"], os.environ["PYTHONPATH"]])
    return env


def _program_folders(place: Path) -> list[Path]:
    modules = place / "node_modules" / ".bin"
    return [*([modules] if modules.is_dir() else []), *python.site_folders(place)]


def failure(stages: list[Stage]) -> NotSo | None:
    """The fault that stops a push, with the command and its last lines; None where all stages passed."""
    if not stages or stages[-1].ok:
        return None
    stage = stages[-1]
    tail = stage.outcome.tail(30)
    return NotSo(
        f"the {stage.slot} stage failed ({stage.outcome.ending()}): {shlex.join(stage.command.argv)}\n"
        f"{tail or '(it said nothing)'}",
        f"Nothing was pushed. Mend it and run this again; the command comes from {stage.command.why}.",
    )
