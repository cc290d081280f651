"""What a detector sees of a project, and what it answers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from schemas.errors import Fault
from worker.tools.files import read_regular
from worker.tools.process import find_program

Slot = Literal["format", "lint", "types", "test"]
SLOTS: tuple[Slot, ...] = ("format", "lint", "types", "test")
MAX_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True)
class Command:
    """A command for one slot. ``why`` is ``file:line: what stands there``; ``check`` the form that
    changes no file.
    """

    slot: Slot
    argv: tuple[str, ...]
    why: str
    check: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    missing: str = ""
    """Why it cannot run here: the project is set up for the tool, and the tool is not installed."""

    @property
    def check_argv(self) -> tuple[str, ...]:
        return self.check or self.argv


@dataclass(frozen=True)
class Project:
    """A project at ``root``; ``main`` is the main checkout, whose installed tools serve a bare worktree
    too.
    """

    root: Path
    main: Path
    path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))

    def text(self, name: str) -> str:
        """The file's text, empty where it is not there or not to be read as text."""
        try:
            return read_regular(self.root / name, MAX_BYTES).decode("utf-8", "replace")
        except Fault:
            return ""

    def has(self, name: str) -> bool:
        return (self.root / name).is_file()

    def line_of(self, name: str, pattern: str) -> int | None:
        """The number of the first line that the pattern is found in."""
        wanted = re.compile(pattern)
        for number, line in enumerate(self.text(name).splitlines(), 1):
            if wanted.search(line):
                return number
        return None

    def found(self, name: str, pattern: str) -> str | None:
        """``name:line: the line`` of the first line that the pattern is found in."""
        number = self.line_of(name, pattern)
        if number is None:
            return None
        return f"{name}:{number}: {self.text(name).splitlines()[number - 1].strip()[:100]}"

    def first_found(self, places: Iterable[tuple[str, str]]) -> str | None:
        return next((why for name, pattern in places if (why := self.found(name, pattern))), None)

    def on_path(self, program: str) -> bool:
        return find_program(program, self.root, {"PATH": self.path}) is not None

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """Where installed tools are looked for: the project itself, then the main checkout."""
        return (self.root,) if self.root == self.main else (self.root, self.main)
