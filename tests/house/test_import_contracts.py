"""The import contracts hold, and each one is seen to fail when an offending import is planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.tree import PACKAGES, ROOT

CONTRACTS = {
    contract["id"]: contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
}

# Contract, the module in which the import is planted, and what it imports there.
OFFENCES = [
    ("layers", "conductor.core.planted", "conductor.ports"),
    ("layers", "conductor.core.planted", "conductor.forge"),
    ("layers", "conductor.ports", "conductor.git"),
    ("layers", "conductor.ports", "conductor.journal"),
    ("layers", "conductor.journal", "conductor.loop"),
    ("layers", "conductor.forge.planted", "conductor.panes"),
    ("layers", "conductor.git.planted", "conductor.review"),
    ("layers", "conductor.review.planted", "conductor.loop"),
    ("layers", "conductor.loop.planted", "conductor.cli"),
    ("worker-alone", "worker.planted", "conductor.core"),
    ("worker-alone", "worker.tools.planted", "conductor"),
    ("schemas-alone", "schemas.planted", "worker"),
    ("schemas-alone", "schemas.planted", "subprocess"),
    ("worker-tools-only", "conductor.loop.planted", "worker.report"),
    ("pure-core", "conductor.core.planted", "worker.tools"),
    ("pure-core", "conductor.core.planted", "time"),
    ("pure-core", "conductor.core.planted", "os.path"),
    ("pure-core", "conductor.core.planted", "git"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages and of the contracts, to plant imports in."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter on the copy, which must come before the installed packages."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ensure_module(tree: Path, module: str) -> Path:
    """The file of ``module`` in the copy; an empty one is made where the tree has none."""
    place = tree.joinpath(*module.split("."))
    if place.is_dir():
        return place / "__init__.py"
    file = place.with_suffix(".py")
    file.touch()
    return file


def test_the_tree_keeps_every_contract(tree: Path) -> None:
    done = lint(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout


def test_each_contract_has_an_offence_planted() -> None:
    assert {contract for contract, _, _ in OFFENCES} == set(CONTRACTS)


@pytest.mark.parametrize(("contract", "importer", "imported"), OFFENCES)
def test_the_contract_fails_on_a_planted_import(tree: Path, contract: str, importer: str, imported: str) -> None:
    if imported.startswith(PACKAGES):
        ensure_module(tree, imported)
    with ensure_module(tree, importer).open("a", encoding="utf-8") as file:
        file.write(f"\nimport {imported}\n")
    done = lint(tree)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{CONTRACTS[contract]} BROKEN" in done.stdout
    assert f"{importer} -> {imported.removesuffix('.path')}" in done.stdout


def test_the_conductor_may_use_the_workers_tools(tree: Path) -> None:
    ensure_module(tree, "worker.tools.planted")
    ensure_module(tree, "conductor.git.planted").write_text("import worker.tools.planted\nimport worker.tools\n")
    done = lint(tree)
    assert done.returncode == 0, done.stdout + done.stderr
