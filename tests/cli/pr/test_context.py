"""Which repository a command means, and what it says about a configuration that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.cli.context import find_context
from schemas.config import Config
from schemas.errors import BadInput, Unavailable
from tests.support.repos import git, make_repository
from worker.tools.config import line_of, load_config


def configured(root: Path, text: str | bytes) -> Path:
    path = root / ".taskmaestro" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_from_a_folder_deep_inside_the_repository(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed é")
    (root / "a" / "b").mkdir(parents=True)
    found = find_context(root / "a" / "b", {})
    assert (found.root, found.worktree, found.current_branch()) == (root, root, "main")


def test_from_a_worktree_the_main_repository_is_found_and_the_worktrees_branch(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    worktree = root / ".taskmaestro" / "wt-2"
    git(root, "worktree", "add", "--quiet", "-b", "feature/x", str(worktree))
    found = find_context(worktree, {})
    assert (found.root, found.worktree, found.current_branch()) == (root, worktree, "feature/x")
    git(worktree, "checkout", "--quiet", "--detach")
    assert find_context(worktree, {}).current_branch() is None


def test_from_a_worktree_of_a_repository_whose_git_directory_lies_elsewhere(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--separate-git-dir=store", "managed")
    root = tmp_path / "managed"
    git(root, "commit", "--quiet", "--allow-empty", "-m", "first")
    worktree = root / ".taskmaestro" / "wt-1"
    git(root, "worktree", "add", "--quiet", "-b", "feature", str(worktree))
    assert find_context(worktree, {}).root == root
    assert find_context(root, {}).root == root


def test_the_environment_names_the_repository_outright(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    worktree = root / ".taskmaestro" / "wt-1"
    git(root, "worktree", "add", "--quiet", "-b", "feature", str(worktree))
    told = {"TASKMAESTRO_ROOT": str(root)}
    assert find_context(tmp_path, told).root == root
    assert find_context(worktree, told).worktree == worktree
    other = make_repository(tmp_path / "other")
    assert find_context(other, told).worktree == root
    with pytest.raises(BadInput, match="TASKMAESTRO_ROOT"):
        find_context(root, {"TASKMAESTRO_ROOT": str(tmp_path)})


def test_a_broken_pointer_says_how_to_repair_it(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n", encoding="utf-8")
    with pytest.raises(Unavailable, match="cannot be read"):
        find_context(tmp_path, {}).current_branch()
    (tmp_path / ".git").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(BadInput, match="no git pointer"):
        find_context(tmp_path, {})


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_config(tmp_path) == Config()


def test_a_file_is_read(tmp_path: Path) -> None:
    configured(tmp_path, '[forge.local.checks]\nunit = "pytest -q"\n')
    assert load_config(tmp_path).forge.local.checks == {"unit": ("pytest", "-q")}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a = [\n1,\n", None, "not valid TOML"),
        ("[review]\n# how often\nmax_cycles = 40\n", 3, "review.max_cycles"),
        ("remote = 'x'\n\n[forge.local]\nchek_timeout = 3\n", 4, "is not a known key"),
        ("[forge.local.checks]\nunit = []\n", 2, "forge.local.checks.unit"),
        ("forge.kind = 3\n", 1, "valid string"),
        ("[ci]\n", None, ""),
    ],
)
def test_a_fault_names_file_line_key_and_what_was_expected(
    tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    path = configured(tmp_path, text)
    if not said:
        load_config(tmp_path)
        return
    with pytest.raises(BadInput) as caught:
        load_config(tmp_path)
    assert str(path) + (f":{line}:" if line else "") in caught.value.what
    assert said in caught.value.what
    assert caught.value.exit_code == 2


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    configured(tmp_path, "agent = 3\n[ci]\npoll = -1\n")
    with pytest.raises(BadInput) as caught:
        load_config(tmp_path)
    assert [part.split(": ")[1] for part in caught.value.what.splitlines()] == ["agent", "ci.poll"]


def test_a_file_that_is_not_utf8_or_not_a_file(tmp_path: Path) -> None:
    path = configured(tmp_path, b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        load_config(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadInput, match=r"config\.toml is a folder"):
        load_config(tmp_path)


def test_the_line_of_a_key_that_is_missing_is_its_tables() -> None:
    assert line_of("x = 1\n[a.b]\ny = 2\n", ["a", "b", "z"]) == 2
    assert line_of("x = 1\n", ["q"]) is None
