"""``init`` writes what it found, can be repeated, and never loses what a person wrote."""

from __future__ import annotations

import json
import shutil
import types
import venv
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import conductor.forge
from conductor.cli.init import initialise
from conductor.cli.main import cli
from schemas.config import Config
from schemas.errors import BadInput
from tests.support.repos import git, make_repository
from worker.tools.config import load_config


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The forges that were opened; the real one has tests of its own."""
    roots: list[Path] = []

    def open_forge(config: Config, root: Path) -> None:
        roots.append(root)

    monkeypatch.setattr(conductor.forge, "open_forge", open_forge, raising=False)
    return roots


@pytest.fixture
def project(tmp_path: Path, opened: list[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_repository(tmp_path / "project")
    (root / "Makefile").write_text("lint:\n\ttrue\ntest:\n\ttrue\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("codex", "aider"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    git_folder = Path(next(p for p in ("/usr/bin/git", "/usr/local/bin/git", "/bin/git") if Path(p).exists())).parent
    monkeypatch.setenv("PATH", f"{tools}:{git_folder}")
    return root


def test_what_was_found_is_written_and_holds(project: Path, opened: list[Path]) -> None:
    answer = initialise(project)
    config = load_config(project)
    assert (config.agent, config.default_branch, config.forge.kind) == ("claude", "main", "local")
    assert any("codex, aider: installed, but" in line for line in answer["lines"])
    assert config.forge.local.checks == {"lint": ("make", "lint"), "test": ("make", "test")}
    assert config.battery == Config().battery
    assert answer["written"]
    assert answer["found"]["commands"]["lint"]["why"].startswith("Makefile:1")
    assert opened == [project]


def without_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *others: str) -> None:
    """A PATH with git, and with these programs."""
    tools = tmp_path / "few"
    tools.mkdir()
    (tools / "git").symlink_to(str(shutil.which("git")))
    for name in others:
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))


def test_where_no_agent_is_installed_the_notes_and_the_file_say_so_and_how_it_is_installed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_agents(tmp_path, monkeypatch, "npm")
    answer = initialise(project)
    said = "agent claude: its program claude is not on PATH"
    how = "npm install -g @anthropic-ai/claude-code, then run `claude` once to log in"
    assert f"note: {said} → {how}" in answer["lines"]
    assert any("none (looked on PATH for claude, codex," in line for line in answer["lines"])
    text = (project / ".taskmaestro" / "config.toml").read_text(encoding="utf-8")
    assert f"\n# {said}\n# → {how}\n" in text
    assert load_config(project).agent == "claude"
    assert f"note: {said} → {how}" in initialise(project)["lines"], "also where the file stays as it is"


def test_an_agent_that_is_asked_for_is_set_and_said_to_be_missing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_agents(tmp_path, monkeypatch)
    answer = initialise(project, agent="claude")
    assert any(line.startswith("note: agent claude: its program claude is not on PATH → ") for line in answer["lines"])


def test_an_agent_that_is_installed_needs_no_note(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_agents(tmp_path, monkeypatch, "claude")
    answer = initialise(project)
    assert not any("not on PATH" in line for line in answer["lines"])
    assert "not on PATH" not in (project / ".taskmaestro" / "config.toml").read_text(encoding="utf-8")


def test_private_files_are_excluded_and_the_users_lines_stay(project: Path) -> None:
    exclude = project / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_bytes(b"mine\xff\n*.log")
    initialise(project)
    once = exclude.read_bytes()
    assert once.startswith(b"mine\xff\n*.log\n# taskmaestro: ")
    assert b"\n/RESULT.json\n" in once
    initialise(project)
    assert exclude.read_bytes() == once
    (project / "RESULT.json").write_text("{}")
    (project / "TASK.md").write_text("x")
    assert git(project, "status", "--porcelain") == "?? Makefile"


def test_a_second_run_keeps_what_is_set_and_says_it(project: Path) -> None:
    path = project / ".taskmaestro" / "config.toml"
    path.parent.mkdir()
    path.write_text('agent = "mine"\n[review]\nmax_cycles = 2\n')
    answer = initialise(project)
    assert path.read_text() == 'agent = "mine"\n[review]\nmax_cycles = 2\n'
    assert answer["kept"] == ['agent = "mine"', "review.max_cycles = 2"]
    assert not answer["written"]


def test_force_writes_anew_and_keeps_a_copy(project: Path) -> None:
    path = project / ".taskmaestro" / "config.toml"
    path.parent.mkdir()
    path.write_text("this is not = = toml")
    with pytest.raises(BadInput, match="not valid TOML"):
        initialise(project)
    answer = initialise(project, force=True)
    assert Path(answer["backup"]).read_text() == "this is not = = toml"
    assert load_config(project).agent == "claude"
    again = initialise(project, force=True)
    assert again["backup"] != answer["backup"]


def test_a_repository_without_a_commit_is_refused_before_anything_is_written(
    tmp_path: Path, opened: list[Path]
) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    git(root, "init", "--quiet")
    exclude = root / ".git" / "info" / "exclude"
    before = exclude.read_bytes() if exclude.exists() else None
    with pytest.raises(BadInput, match="no commit yet"):
        initialise(root)
    assert not (root / ".taskmaestro").exists()
    assert (exclude.read_bytes() if exclude.exists() else None) == before
    assert opened == []


def test_it_works_from_a_subfolder_and_from_a_worktree(project: Path) -> None:
    (project / "sub").mkdir()
    assert initialise(project / "sub")["root"] == str(project)
    tree = project / ".taskmaestro" / "wt-1"
    git(project, "worktree", "add", "--quiet", "-b", "x", str(tree))
    assert initialise(tree)["root"] == str(project)


def test_an_origin_of_the_users_is_left_alone_and_that_is_said(project: Path) -> None:
    git(project, "remote", "add", "origin", "git@github.com:o/r.git")
    answer = initialise(project)
    assert answer["forge"] == "local"
    assert any("nothing is pushed to origin" in line for line in answer["lines"])
    assert git(project, "remote", "get-url", "origin") == "git@github.com:o/r.git"


def test_a_forge_that_nobody_provides_is_refused_with_the_known_ones(project: Path) -> None:
    with pytest.raises(BadInput, match=r"'nowhere' is not known\nKnown: .*local"):
        initialise(project, forge="nowhere")
    assert not (project / ".taskmaestro" / "config.toml").exists()


def test_checks_of_a_python_project_run_its_own_python_on_the_checkouts_code(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.mypy]\nfiles = ['x.py']\n")
    venv.create(project / ".venv", with_pip=False, symlinks=True)
    next((project / ".venv").glob("lib/python*/site-packages")).joinpath("mypy.py").write_text("")
    python = project / ".venv" / "bin" / "python"
    initialise(project)
    types_check = load_config(project).forge.local.checks["types"]
    assert types_check == ("env", "PYTHONPATH=src:.", str(python), "-m", "mypy")


def test_hostile_names_stay_inside_their_strings(project: Path) -> None:
    git(project, "branch", "-m", 'we"ird#\u00fcber')
    initialise(project)
    assert load_config(project).default_branch == 'we"ird#\u00fcber'


def test_outside_a_repository_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not in a git working tree"):
        initialise(tmp_path)


def test_the_verb_answers_for_programs_and_for_people(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    data: dict[str, Any] = json.loads(CliRunner().invoke(cli, ["init", "--json"], catch_exceptions=False).stdout)
    assert data["ok"] is True
    said = CliRunner().invoke(cli, ["init"], catch_exceptions=False).stdout
    assert "stays as it is" in said
    assert isinstance(conductor.forge, types.ModuleType)


def committed(project: Path, **files: str) -> None:
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(project, "add", "--", *files)
    git(project, "commit", "--quiet", "-m", "More")


def test_a_command_that_fails_on_the_newest_commit_is_left_out_with_its_reason(project: Path) -> None:
    (project.parent / "tools" / "make").symlink_to("/usr/bin/make")
    (project.parent / "tools" / "sh").symlink_to("/bin/sh")
    committed(project, Makefile="SHELL = /bin/sh\nlint:\n\t@echo no good; exit 3\ntest:\n\t@exit 0\n")
    told: list[str] = []
    answer = initialise(project, told=told.append)
    config = load_config(project)
    assert told == ["trying lint: make lint", "trying test: make test"]
    assert list(config.forge.local.checks) == ["test"]
    assert config.battery.skip == ("lint",)
    assert any(line.startswith("note: lint: left out, since it fails on the newest commit") for line in answer["lines"])
    assert list((project / ".taskmaestro" / "state" / "scratch").iterdir()) == []


def test_what_is_tried_is_the_commit_with_the_files_that_git_ignores_and_the_build_writes(project: Path) -> None:
    for name in ("make", "sh", "cat"):
        place = next(p for p in ("/bin", "/usr/bin") if Path(p, name).exists())
        (project.parent / "tools" / name).symlink_to(f"{place}/{name}")
    pyproject = '[tool.setuptools_scm]\nversion_file = "_version.py"\n'
    makefile = "SHELL = /bin/sh\ntest:\n\t@cat _version.py\n"
    committed(project, Makefile=makefile, **{"pyproject.toml": pyproject, ".gitignore": "_version.py\n"})
    (project / "_version.py").write_text("version = 1\n")
    answer = initialise(project, told=lambda _: None)
    assert answer["found"]["needed"] == ["_version.py"]
    assert answer["found"]["failing"] == {}
    assert load_config(project).needed == ("_version.py",)


def test_the_agent_can_be_named_and_must_be_known(project: Path) -> None:
    assert initialise(project, agent="scripted")["ok"]
    assert load_config(project).agent == "scripted"
    with pytest.raises(BadInput, match="'nobody' is not known"):
        initialise(project, force=True, agent="nobody")
