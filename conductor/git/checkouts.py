"""Scratch worktrees: a commit of somebody's branch, checked out to be looked at.

No hook of the repository runs and no content filter: the files are the commit's own, LFS files stay pointers.
"""

from __future__ import annotations

import os
from pathlib import Path

from conductor.git import places
from conductor.git.repository import Repository
from schemas.errors import BadInput, NotSo

_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


def folder(repository: Repository) -> Path:
    return places.state_folder(repository) / "scratch"


def make(repository: Repository, sha: str, path: Path) -> None:
    """Check ``sha`` out in ``path``; what lay there is taken away first."""
    drop(repository, path)
    env = _no_filters(repository)
    places.check_out(repository, path, "--detach", "--", str(path), sha, env=env, options=_NO_HOOKS)


def drop(repository: Repository, path: Path) -> None:
    """Take a scratch worktree away. Raises ``BadInput`` for any other folder."""
    home = folder(repository)
    if Path(os.path.abspath(path)).parent != home:  # noqa: PTH100  (a link is not followed)
        raise BadInput(f"{path} is no scratch worktree", f"Scratch worktrees lie in {home}.")
    try:
        places.take_away(repository, path)
    except NotSo:
        entry = places.entry_at(repository, path)
        if entry is None or not entry.held:
            raise
        repository.git.must("worktree", "unlock", "--", str(path))
        places.take_away(repository, path)


def _no_filters(repository: Repository) -> dict[str, str]:
    """Environment that empties every content filter that is configured, whoever configured it."""
    done = repository.git.run("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(smudge|process|required)$")
    names = sorted(set(done.fields))
    before = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(before) if before.isdigit() else 0
    env = {"GIT_CONFIG_COUNT": str(first + len(names)), "GIT_LFS_SKIP_SMUDGE": "1"}
    for number, name in enumerate(names, start=first):
        env[f"GIT_CONFIG_KEY_{number}"] = name
        env[f"GIT_CONFIG_VALUE_{number}"] = "false" if name.endswith(".required") else ""
    return env
