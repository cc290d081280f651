"""Rust, Go and Make: tools that come with the toolchain, and targets of a Makefile."""

from __future__ import annotations

import re

from worker.detect.base import SLOTS, Command, Project, Slot

_TARGETS: dict[Slot, tuple[str, ...]] = {
    "format": ("format", "fmt"),
    "lint": ("lint", "check-lint"),
    "types": ("typecheck", "type-check", "types", "mypy"),
    "test": ("test", "tests", "check"),
}
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_GOLANGCI = (".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json")


def detect_cargo(project: Project) -> list[Command]:
    """``cargo fmt`` and ``clippy`` where they are installed, ``cargo check`` for types otherwise, ``cargo
    test``.
    """
    why = project.first_found((("Cargo.toml", r"^\[(package|workspace)\]"),))
    if why is None:
        return []
    found = []
    if project.on_path("cargo-fmt"):
        found.append(Command("format", ("cargo", "fmt", "--all"), why, ("cargo", "fmt", "--all", "--check")))
    if project.on_path("cargo-clippy"):
        found.append(Command("lint", ("cargo", "clippy", "--all-targets", "--", "-D", "warnings"), why))
    else:
        found.append(Command("types", ("cargo", "check", "--all-targets"), why))
    return [*found, Command("test", ("cargo", "test"), why)]


def detect_go(project: Project) -> list[Command]:
    """``go fmt``, golangci-lint where it is configured and installed (else ``go vet``), ``go build``,
    ``go test``.
    """
    why = project.found("go.mod", r"^module\s")
    if why is None:
        return []
    lint_file = next((name for name in _GOLANGCI if project.has(name)), None)
    if lint_file is not None and project.on_path("golangci-lint"):
        lint = Command("lint", ("golangci-lint", "run"), f"{lint_file}:1: golangci-lint is configured")
    else:
        lint = Command("lint", ("go", "vet", "./..."), why)
    return [
        Command("format", ("go", "fmt", "./..."), why),
        lint,
        Command("types", ("go", "build", "./..."), why),
        Command("test", ("go", "test", "./..."), why),
    ]


def detect_make(project: Project) -> list[Command]:
    """Targets of a Makefile with the usual names."""
    name = next((one for one in _MAKEFILES if project.has(one)), None)
    if name is None:
        return []
    found = []
    for slot in SLOTS:
        for target in _TARGETS[slot]:
            why = project.found(name, rf"^{re.escape(target)}\s*:(?![:=])")
            if why is not None:
                found.append(Command(slot, ("make", target), why))
                break
    return found
