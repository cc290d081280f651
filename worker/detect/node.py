"""JavaScript and TypeScript: scripts of package.json with the package manager that the project uses.

The manager comes from ``packageManager`` or the lock file. Where its program is not on PATH (corepack is
not assumed), ``npm run`` runs the same scripts. A worktree without node_modules finds the main
checkout's: node looks upwards, and ``.taskmaestro/wt-N`` lies below it; the programs are put on PATH by
the battery.
"""

from __future__ import annotations

import json
import re
from typing import Any

from worker.detect.base import SLOTS, Command, Project, Slot

_LOCKS = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
)
_SCRIPTS: dict[Slot, tuple[str, ...]] = {
    "format": ("format", "fmt", "format:write", "prettier", "format:fix"),
    "lint": ("lint", "eslint", "lint:js", "lint:ts"),
    "types": ("type-check", "typecheck", "types", "check-types", "check:types", "tsc"),
    "test": ("test", "test:unit", "tests", "unit"),
}
_NO_TEST = "no test specified"
_ONE_ESLINT = re.compile(r"^(npx )?(eslint|next lint)\b[^&|;]*$")


def detect(project: Project) -> list[Command]:
    """The commands of package.json; empty where there is none or it is not to be read."""
    try:
        package = json.loads(project.text("package.json"))
    except (ValueError, RecursionError):
        return []
    if not isinstance(package, dict):
        return []
    manager = _manager(project, package)
    scripts = {name: text for name, text in _table(package, "scripts").items() if isinstance(text, str)}
    found = []
    for slot in SLOTS:
        command = _script(project, slot, scripts, manager) or _tool(project, slot, package)
        if command is not None:
            found.append(command)
    return found


def _table(package: dict[str, Any], name: str) -> dict[str, Any]:
    value = package.get(name)
    return value if isinstance(value, dict) else {}


def _manager(project: Project, package: dict[str, Any]) -> str:
    named = package.get("packageManager")
    wanted = named.partition("@")[0] if isinstance(named, str) else ""
    if wanted not in ("npm", "yarn", "pnpm", "bun"):
        wanted = next((manager for lock, manager in _LOCKS if project.has(lock)), "npm")
    return wanted if project.on_path(wanted) else "npm"


def _script(project: Project, slot: Slot, scripts: dict[str, str], manager: str) -> Command | None:
    for name in _SCRIPTS[slot]:
        text = scripts.get(name, "")
        if not text.strip() or _NO_TEST in text:
            continue
        plain = (manager, "run", name)
        fix = slot == "lint" and _ONE_ESLINT.match(text.strip()) and "--fix" not in text
        dashes = () if manager in ("yarn", "bun") else ("--",)
        argv = (*plain, *dashes, "--fix") if fix else plain
        why = project.found("package.json", rf'"{re.escape(name)}"\s*:\s*"') or f"package.json: script {name}"
        return Command(slot, argv, why, check=plain, env=(("CI", "1"),) if slot == "test" else ())
    return None


def _tool(project: Project, slot: Slot, package: dict[str, Any]) -> Command | None:
    """A tool that is a dependency and has no script."""
    named = {**_table(package, "dependencies"), **_table(package, "devDependencies")}
    tools: dict[Slot, list[tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
        "format": [("prettier", ("prettier", "--write", "."), ("prettier", "--check", "."))],
        "lint": [("eslint", ("eslint", "--fix", "."), ("eslint", "."))],
        "types": [("typescript", ("tsc", "--noEmit"), ("tsc", "--noEmit"))],
        "test": [("vitest", ("vitest", "run"), ("vitest", "run")), ("jest", ("jest",), ("jest",))],
    }
    for package_name, argv, check in tools[slot]:
        if package_name not in named or (package_name == "typescript" and not project.has("tsconfig.json")):
            continue
        why = project.found("package.json", rf'"{package_name}"\s*:') or f"package.json: {package_name}"
        return Command(slot, argv, why, check=check, env=(("CI", "1"),) if slot == "test" else ())
    return None
