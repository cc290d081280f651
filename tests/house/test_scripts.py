"""scripts/setup and scripts/test keep their promises: exit codes, advice, order, paths with spaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tree import ROOT

# What the scripts call that every system has.
BASICS = ("bash", "cat", "cp", "dirname", "env", "mkdir", "rm", "touch", "chmod")
# A python that is new enough, and whose fingerprint of the lock is always the same.
PYTHON = 'case "$1" in -) echo same ;; *) exit 0 ;; esac'


def write_program(path: Path, body: str) -> None:
    """Make an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the scripts, a space in its path, and a .venv that is already as it should be."""
    folder = tmp_path / "a check out"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    write_program(folder / ".venv/bin/taskmaestro", "exit 0")
    (folder / ".venv/setup.stamp").write_text("same\n", encoding="utf-8")
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is all of PATH: the basics, python3, git and tmux, and a user without privileges."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    write_program(folder / "python3", PYTHON)
    write_program(folder / "git", "exit 0")
    write_program(folder / "tmux", "exit 0")
    write_program(folder / "id", "echo 1000")
    return folder


def run(script: Path, *arguments: str, path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with ``path`` as all of PATH, from a folder that is not the checkout."""
    return subprocess.run(
        ["bash", str(script), *arguments],
        cwd=cwd,
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_setup_does_nothing_when_nothing_changed(checkout: Path, programs: Path, tmp_path: Path) -> None:
    done = run(checkout / "scripts/setup", path=programs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "packages: nothing to do" in done.stdout
    assert "ready" in done.stdout


def test_setup_refuses_an_unknown_argument(checkout: Path, programs: Path, tmp_path: Path) -> None:
    done = run(checkout / "scripts/setup", "--wiht-agents", path=programs, cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown argument --wiht-agents" in done.stderr
    assert "Usage: scripts/setup" in done.stderr


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "sudo apt-get install -y --no-install-recommends tmux"),
        ("dnf", "sudo dnf install -y tmux"),
        ("apk", "sudo apk add tmux"),
        ("pacman", "sudo pacman -S --noconfirm --needed tmux"),
    ],
)
def test_setup_without_privileges_says_which_command_installs_tmux(
    checkout: Path, programs: Path, tmp_path: Path, manager: str, command: str
) -> None:
    (programs / "tmux").unlink()
    write_program(programs / manager, "echo must not run >&2; exit 1")
    done = run(checkout / "scripts/setup", path=programs, cwd=tmp_path)
    assert done.returncode == 3
    assert command in done.stderr
    assert "must not run" not in done.stderr


def test_setup_as_root_installs_what_is_missing(checkout: Path, programs: Path, tmp_path: Path) -> None:
    (programs / "tmux").unlink()
    write_program(programs / "id", "echo 0")
    asked = tmp_path / "asked"
    write_program(
        programs / "apt-get",
        f'echo "$@" >>"{asked}"\n'
        f'[ "$1" = update ] || {{ printf "#!/bin/sh\\n" >"{programs}/tmux"; chmod +x "{programs}/tmux"; }}',
    )
    done = run(checkout / "scripts/setup", path=programs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert asked.read_text(encoding="utf-8").splitlines() == [
        "update -qq",
        "install -y --no-install-recommends tmux",
    ]


def test_setup_tells_when_the_installation_fails(checkout: Path, programs: Path, tmp_path: Path) -> None:
    (programs / "git").unlink()
    write_program(programs / "id", "echo 0")
    write_program(programs / "apk", "exit 7")
    done = run(checkout / "scripts/setup", path=programs, cwd=tmp_path)
    assert done.returncode == 3
    assert "this failed: apk add git" in done.stderr


def test_setup_passes_over_a_python_that_is_too_old(checkout: Path, programs: Path, tmp_path: Path) -> None:
    write_program(programs / "python3", "exit 1")
    done = run(checkout / "scripts/setup", path=programs, cwd=tmp_path)
    assert done.returncode == 3
    assert "missing: python3" in done.stderr
    write_program(programs / "python3.12", PYTHON)
    assert run(checkout / "scripts/setup", path=programs, cwd=tmp_path).returncode == 0


def test_setup_says_why_it_leaves_claude_out(checkout: Path, programs: Path, tmp_path: Path) -> None:
    done = run(checkout / "scripts/setup", "--with-agents", path=programs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "claude: left out, because npm is not on PATH" in done.stdout
    assert not (checkout / ".cache").exists()


def test_setup_says_why_it_leaves_githubs_descriptions_out(checkout: Path, programs: Path, tmp_path: Path) -> None:
    done = run(checkout / "scripts/setup", "--with-github", path=programs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "github: left out, because npm is not on PATH" in done.stdout
    assert not (checkout / ".cache").exists()


@pytest.fixture
def stages(checkout: Path) -> Path:
    """The checkout with stand-ins for every stage; each writes its name and arguments to ``ran``."""
    write_program(checkout / "scripts/setup", 'echo "setup $*" >>ran')
    for name in ("ruff", "mypy", "lint-imports"):
        write_program(checkout / ".venv/bin" / name, f'echo "{name} $1" >>ran')
    write_program(
        checkout / ".venv/bin/python",
        '[ "$1" = -c ] && { echo 2; exit 0; }\necho "$*" >>ran\nexit ${PYTEST_CODE:-0}',
    )
    return checkout


def ran(checkout: Path) -> list[str]:
    """What the stand-ins were called with, in order."""
    return (checkout / "ran").read_text(encoding="utf-8").splitlines()


def test_the_stages_run_in_order_and_pytest_gets_the_arguments(stages: Path, programs: Path, tmp_path: Path) -> None:
    done = run(stages / "scripts/test", "tests/core", "-k", "a b", path=programs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ran(stages) == [
        "setup --with-agents --with-github",
        "ruff check",
        "ruff format",
        "mypy ",
        "lint-imports ",
        "-m pytest -n 2 --dist worksteal tests/core -k a b",
    ]
    assert "-- mypy: passed in 0 s" in done.stdout


def test_all_quick_stages_run_and_the_first_failure_decides(stages: Path, programs: Path, tmp_path: Path) -> None:
    write_program(stages / ".venv/bin/ruff", 'echo "ruff $1" >>ran; [ "$1" != check ] || exit 4')
    write_program(stages / ".venv/bin/mypy", "echo mypy >>ran; exit 5")
    done = run(stages / "scripts/test", path=programs, cwd=tmp_path)
    assert done.returncode == 4
    assert ran(stages) == ["setup --with-agents --with-github", "ruff check", "ruff format", "mypy", "lint-imports "]
    assert "-- mypy: FAILED with exit code 5" in done.stdout


def test_nothing_runs_after_a_failed_set_up(stages: Path, programs: Path, tmp_path: Path) -> None:
    write_program(stages / "scripts/setup", "echo setup >>ran; exit 3")
    assert run(stages / "scripts/test", path=programs, cwd=tmp_path).returncode == 3
    assert ran(stages) == ["setup"]


def test_the_exit_code_is_pytests(
    stages: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_CODE", "5")
    assert run(stages / "scripts/test", path=programs, cwd=tmp_path).returncode == 5


def test_ci_runs_the_test_script() -> None:
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert lines == ["#!/usr/bin/env bash", 'exec bash "$(dirname "$0")/../scripts/test"']


def test_setup_fails_where_one_part_does_and_the_others_are_done(
    checkout: Path, programs: Path, tmp_path: Path
) -> None:
    write_program(programs / "node", "case $1 in -p) echo 1.2.3 ;; esac")
    write_program(programs / "npm", "echo npm is out of order >&2; exit 1")
    done = run(checkout / "scripts/setup", "--with-agents", "--with-github", path=programs, cwd=tmp_path)
    assert done.returncode == 3
    assert "packages: nothing to do" in done.stdout
    assert "claude 1.2.3 could not be installed from npm" in done.stderr
    assert "GitHub's API descriptions could not be fetched from npm" in done.stderr
    assert "ready" not in done.stdout
