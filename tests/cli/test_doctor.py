"""``doctor`` says what is missing and names the command that installs it on this system."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from conductor.cli import doctor
from conductor.cli.doctor import Check, all_checks, install_command
from conductor.cli.main import main
from conductor.lock import ConductorLock
from tests.github.fixtures import github  # noqa: F401  # a fixture
from tests.github.world import GithubWorld
from tests.support.repos import git
from tests.support.stories import Run

Out = pytest.CaptureFixture[str]
BASICS = ("git", "sh", "env", "cat")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of PATH: git, an agent, the command itself, a tmux that is new enough."""
    import shutil

    folder = tmp_path / "bin"
    folder.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name in ("claude", "taskmaestro"):
        program(folder, name, "exit 0")
    program(folder, "tmux", "echo tmux 3.3a")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def checks(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in all_checks(folder)}


def test_a_machine_with_everything_is_exit_0(repository: Path, programs: Path, capsys: Out) -> None:
    assert main(["doctor", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["ok"] is True
    names = [check["name"] for check in value["checks"]]
    assert names[:5] == ["python", "tmux", "git", "taskmaestro", "repository"]
    assert {"configuration", "checks", "agent claude", "memory", "conductor", "disk"} <= set(names)


@pytest.mark.parametrize(
    ("manager", "uid", "command"),
    [
        ("apt-get", 0, "apt-get install -y --no-install-recommends tmux"),
        ("apt-get", 1000, "sudo apt-get install -y --no-install-recommends tmux"),
        ("dnf", 1000, "sudo dnf install -y tmux"),
        ("apk", 0, "apk add tmux"),
        ("pacman", 1000, "sudo pacman -S --needed tmux"),
        ("brew", 1000, "brew install tmux"),
        (None, 1000, "install tmux with this system's package manager"),
    ],
)
def test_a_missing_tmux_is_exit_3_with_this_systems_command(
    repository: Path,
    programs: Path,
    manager: str | None,
    uid: int,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Out,
) -> None:
    (programs / "tmux").unlink()
    if manager:
        program(programs, manager, "exit 1")
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert main(["doctor"]) == 3
    shown = capsys.readouterr().out
    assert f"→ {command}\n" in shown
    assert "missing  tmux" in shown
    assert "1 missing" in shown


def test_packages_with_other_names(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs, "apk", "exit 1")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert install_command("gh") == "apk add github-cli"


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("echo tmux 3.1c", "missing"),
        ("echo tmux 3.2", "ok"),
        ("echo tmux next-3.6", "ok"),
        ("echo tmux master", "warn"),
        ("exit 1", "warn"),
    ],
)
def test_the_age_of_tmux_is_looked_at(repository: Path, programs: Path, said: str, state: str) -> None:
    program(programs, "tmux", said)
    assert checks(repository)["tmux"].state == state


@pytest.mark.parametrize(
    ("version", "state"), [("2.30.9", "missing"), ("2.31.0", "warn"), ("2.37.7", "warn"), ("2.38.0", "ok")]
)
def test_the_age_of_git_is_looked_at_and_that_of_merges_warns(
    repository: Path, programs: Path, version: str, state: str
) -> None:
    real = (programs / "git").resolve()
    (programs / "git").unlink()
    program(programs, "git", f'test "$1" != --version || {{ echo git version {version}; exit; }}\nexec {real} "$@"')
    found = checks(repository)
    assert found["git"].state == state
    assert ("2.38 or newer" in found["git"].text) == (state == "warn")
    assert ("repository" in found) == (state != "missing")


def test_no_repository_and_no_commit_are_told_with_the_command(tmp_path: Path, programs: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    assert checks(bare)["repository"].state == "missing"
    git(bare, "init", "--quiet")
    found = checks(bare)["repository"]
    assert found.state == "missing"
    assert "has no commit yet" in found.text
    assert "git commit" in found.fix


def test_a_repository_that_git_refuses_is_told_in_gits_words(
    repository: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch for this
    check = checks(repository)["repository"]
    assert check.state == "missing"
    assert "dubious ownership" in check.text


def test_an_unknown_committer_is_told_with_the_commands_that_mend_it(
    repository: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks(repository)["identity"] == Check("identity", "ok", "Tester <tester@example.invalid>")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    found = checks(repository)["identity"]
    assert found.state == "missing"
    assert 'git config --global user.email "you@example.com"' in found.fix


def test_a_broken_configuration_is_named_with_its_line(repository: Path, programs: Path) -> None:
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir()
    config.write_text('agent = "claude"\n[review]\nmax_cylces = 3\n')
    found = checks(repository)["configuration"]
    assert found.state == "missing"
    assert f"{config}:3: review.max_cylces: is not a known key" in found.text


def test_the_local_forge_without_checks_is_a_warning(repository: Path, programs: Path) -> None:
    assert checks(repository)["checks"].state == "warn"
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir()
    config.write_text('[forge.local.checks]\ntests = "true"\n')
    assert checks(repository)["checks"] == Check("checks", "ok", "tests")


def test_gh_is_needed_for_the_github_forge_only(
    repository: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(programs / "python"))  # the test set-up has a gh beside its own
    assert "gh" not in checks(repository)
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir()
    config.write_text('[forge]\nkind = "github"\n')
    assert checks(repository)["gh"].state == "missing"
    program(programs, "gh", "echo gh version 2.45.0")
    old = checks(repository)["gh"]
    assert (old.state, "2.82.1 or newer" in old.text) == ("missing", True)
    program(programs, "gh", "echo gh version 2.103.3")
    assert checks(repository)["gh"].state == "ok"


@pytest.mark.parametrize(
    ("managers", "command"),
    [
        (["apt-get"], None),
        (["apt-get", "brew"], "brew install gh"),
        (["dnf"], "dnf install -y gh"),
        (["apk"], "apk add github-cli"),
        (["pacman"], "pacman -S --needed github-cli"),
        (["winget"], "winget install --exact --id GitHub.cli"),
        ([], None),
    ],
)
def test_where_gh_comes_from_is_told_first_and_a_manager_only_where_its_gh_is_recent(
    repository: Path, programs: Path, managers: list[str], command: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(programs / "python"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for manager in managers:
        program(programs, manager, "exit 1")
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir()
    config.write_text('[forge]\nkind = "github"\n')
    first, *rest = checks(repository)["gh"].fix.splitlines()
    assert "taskmaestro-conductor[gh]" in first
    assert "cli.github.com" in first
    assert rest == ([command] if command else [])
    for body in ("echo gh version 2.45.0", "echo hello"):
        program(programs, "gh", body)
        (only,) = checks(repository)["gh"].fix.splitlines()
        assert only.startswith("Install it with `pip install")
    config.write_text('[forge]\nkind = "github"\n[forge.github]\nprogram = "/nowhere/gh"\n')
    (only,) = checks(repository)["gh"].fix.splitlines()
    assert only.startswith("Name the path of gh")


@pytest.fixture
def on_github(repository: Path, github: GithubWorld, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """The repository on the stand-in, gh logged in as ``maestro``."""
    github.adopt(repository, "octo/shop", login="maestro")
    for name, value in github.environment("maestro").items():
        monkeypatch.setenv(name, value)
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir()
    config.write_text('[forge]\nkind = "github"\n')
    return repository


def test_it_says_as_whom_and_on_which_repository_it_works(on_github: Path, github: GithubWorld) -> None:  # noqa: F811
    assert checks(on_github)["github"] == Check("github", "ok", "octo/shop, as maestro")
    github.repository("octo/shop").archived = True
    found = checks(on_github)["github"]
    assert (found.state, "archived" in found.text) == ("warn", True)


def test_a_login_that_is_missing_or_in_a_variable_alone_is_told_with_its_remedy(
    on_github: Path,
    github: GithubWorld,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = Path(os.environ["GH_CONFIG_DIR"]) / "hosts.yml"
    hosts.write_text("{}\n")
    found = checks(on_github)["github"]
    assert (found.state, "gh auth login" in found.fix) == ("missing", True)
    monkeypatch.setenv("GH_TOKEN", github.user("maestro").token)
    found = checks(on_github)["github"]
    assert (found.state, found.text) == ("warn", "gh is logged in by GH_TOKEN alone, which no pane gets")


def test_a_missing_agent_is_told_with_npm_where_that_is_missing_too(repository: Path, programs: Path) -> None:
    (programs / "claude").unlink()
    program(programs, "brew", "exit 1")
    found = checks(repository)["agent claude"]
    assert found.state == "missing"
    assert found.fix.startswith("brew install node && npm install -g @anthropic-ai/claude-code")
    program(programs, "npm", "exit 0")
    assert checks(repository)["agent claude"].fix.startswith("npm install")


def test_an_agent_that_no_pane_uses_is_a_warning_only(run: Run, programs: Path) -> None:
    (programs / "claude").unlink()
    found = checks(run.layout.root)
    assert found["agent claude"].state == "warn"
    assert found["agent scripted"] == Check("agent scripted", "ok", sys.executable)


def test_an_unknown_agent_names_the_known_ones(repository: Path, programs: Path) -> None:
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir()
    config.write_text('agent = "nobody"\n')
    found = checks(repository)["agent nobody"]
    assert found.state == "missing"
    assert "claude" in found.fix


def test_a_lock_that_was_left_behind_is_told_and_a_held_one_names_its_holder(run: Run, programs: Path) -> None:
    assert checks(run.layout.root)["conductor"].text == "none runs"
    lock = ConductorLock(run.layout.lock)
    lock.acquire()
    left = run.layout.lock.read_text()
    assert "runs: pid" in checks(run.layout.root)["conductor"].text
    lock.release()
    run.layout.lock.write_text(left)
    assert checks(run.layout.root)["conductor"].state == "warn"


def test_little_memory_and_few_watches_are_warnings(
    repository: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_meminfo", lambda field: 100)
    monkeypatch.setattr(doctor, "LEAST_WATCHES", 10**12)
    monkeypatch.setattr(doctor, "LOW_DISK", 10**18)
    found = checks(repository)
    assert found["memory"].state == "warn"
    assert found["disk"].state == "warn"
    assert found["inotify max_user_watches"].fix.startswith("sudo sysctl fs.inotify.max_user_watches=")
    assert main(["doctor", "--silent"]) == 0
    monkeypatch.setattr(doctor, "NO_DISK", 10**18)
    assert main(["doctor", "--silent"]) == 3


def test_a_project_without_checks_is_pointed_to_where_they_go(repository: Path, programs: Path) -> None:
    assert checks(repository)["checks"].fix == "taskmaestro init"
    config = repository / ".taskmaestro" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text('agent = "claude"\n')
    fix = checks(repository)["checks"].fix
    assert "[forge.local.checks]" in fix
    assert "allow_no_checks" in fix


def test_outside_of_a_repository_the_first_advice_is_to_change_to_it(tmp_path: Path, programs: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert checks(outside)["repository"].fix.startswith("Change to your repository")


def test_a_conductor_that_was_told_to_stop_left_nothing_to_tell(repository: Path, programs: Path) -> None:
    path = repository / ".taskmaestro" / "state" / "conductor.lock"
    path.parent.mkdir(parents=True)
    path.write_text('{"pid": 1, "host": "h", "since": "2026-01-01T00:00:00+00:00"}')
    assert "without a word" in checks(repository)["conductor"].text
    path.write_text('{"pid": 1, "host": "h", "since": "2026-01-01T00:00:00+00:00", "ending": true}')
    assert checks(repository)["conductor"] == Check("conductor", "ok", "none runs")
