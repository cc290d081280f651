"""What gets installed is pinned and hashed, and the locks name no index: each person uses their own."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.tree import ROOT

PINNED = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)( ; [^\\]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+")
CLAUDE = "node_modules/@anthropic-ai/claude-code"


def pins(lock: str) -> dict[str, str]:
    """Package names and versions of a lock; raises ValueError on anything that is not pinned and hashed."""
    found = {}
    position = 0
    while position < len(lock):
        entry = PINNED.match(lock, position)
        if entry is None:
            raise ValueError(f"not pinned and hashed: {lock[position:].splitlines()[0]}")
        found[canonicalize_name(entry["name"])] = entry["version"]
        position = entry.end()
    return found


def test_every_package_is_pinned_and_hashed() -> None:
    assert len(pins((ROOT / "requirements.lock").read_text(encoding="utf-8"))) > 30


HASH = f"    --hash=sha256:{'0' * 64}\n"


@pytest.mark.parametrize(
    "line",
    ["click==8.1.7\n", f"click>=8 \\\n{HASH}", "--some-option value\n", f"click @ file:///x \\\n{HASH}"],
)
def test_a_line_without_pin_or_hash_is_found(line: str) -> None:
    sound = f"rich==1.0 \\\n{HASH}"
    assert pins(sound) == {"rich": "1.0"}
    with pytest.raises(ValueError, match="not pinned and hashed"):
        pins(sound + line)


def test_the_lock_satisfies_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = pins((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    extras = project["optional-dependencies"]
    wanted = [Requirement(line) for line in project["dependencies"] + extras["dev"] + extras["test"]]
    unmet = [
        str(requirement)
        for requirement in wanted
        if requirement.name != project["name"]
        and not requirement.specifier.contains(locked.get(canonicalize_name(requirement.name), "0"))
    ]
    assert unmet == [], "run scripts/lock"


def test_the_agents_lock_has_integrity_and_no_addresses() -> None:
    folder = ROOT / "scripts" / "agents" / "claude"
    manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    version = manifest["dependencies"]["@anthropic-ai/claude-code"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert packages[CLAUDE]["version"] == version
    del packages[""]
    assert [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []
