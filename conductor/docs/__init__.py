"""The pages and files that are generated from the code: ``scripts/docs`` writes them, a test holds them to it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from conductor.docs import commands, configuration, cycle, loops, published

ROOT = Path(__file__).resolve().parents[2]


@cache
def everything() -> dict[str, str]:
    """Path, relative to the checkout, and text of everything that is generated."""
    return {
        "docs/commands.md": commands.page(),
        "docs/configuration.md": configuration.page(),
        "docs/loops.md": loops.page(),
        "docs/review-cycle.md": cycle.page(),
        "conductor/cli/loops/cycle.json": cycle.graph_file(),
        **{f"schemas/json/{name}.schema.json": text for name, text in published.files().items()},
    }


def stale(root: Path = ROOT) -> list[str]:
    """What differs from its source, is missing, or has no source any more."""
    wanted = everything()
    there = {path.relative_to(root).as_posix() for path in (root / "schemas/json").glob("*.schema.json")}
    differs = [
        name
        for name, text in wanted.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]
    return sorted([*differs, *(there - set(wanted))])


def write(root: Path = ROOT) -> list[str]:
    """Write what is stale, remove what has no source any more, and answer the paths."""
    wanted, changed = everything(), stale(root)
    for name in changed:
        path = root / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], encoding="utf-8")
        else:
            path.unlink()
    return changed
