"""Commits that only a worktree knows: left behind by a reset, an amend, or a detached HEAD.

git forgets a worktree's HEAD and its reflog together with the worktree, so the newest of these commits get
recovery refs first: ``refs/taskmaestro/recovery/wt-N/<UTC time>-dropped-K``. That is no reason to refuse a
clean-up: amending is the normal way of working.

The way back: ``git branch rescued <ref>``.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from conductor.git.dirt import PSEUDO_REFS
from conductor.git.repository import RECOVERY, Repository
from conductor.git.run import is_sha
from schemas.errors import NotSo

LIMIT = 200
"""At most so many refs at once; what is beyond is kept by the last one, as its parents."""
SLOW = 300.0
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "taskmaestro"), ("EMAIL", "taskmaestro@example.invalid"))
}


def recovery_refs(repository: Repository, index: int) -> tuple[str, ...]:
    """Everything that is kept of this worktree, whenever it was, oldest first."""
    rows = repository.git.ask("for-each-ref", "--format=%(refname)", f"{RECOVERY}/wt-{index}/").splitlines()
    return tuple(rows)


def keep_dropped(repository: Repository, index: int, path: Path) -> tuple[str, ...]:
    """Keep the commits that git's record of this worktree names and no ref holds; answers the new refs.

    ``path`` is the worktree's folder, which may be gone. Raises ``NotSo`` where a ref does not stay.
    """
    admin = admin_folder(repository, path)
    named = _named(repository, admin) if admin else []
    tips = _tips(repository, _commits(repository, list(dict.fromkeys(named))))
    if len(tips) > LIMIT:
        tips = [*tips[: LIMIT - 1], _bundle(repository, index, tips[LIMIT - 1 :])]
    if not tips:
        return ()
    wanted = dict(zip(_names(repository, index, len(tips)), tips, strict=True))
    lines = "".join(f"create {ref} {sha}\n" for ref, sha in wanted.items())
    repository.git.must("update-ref", "--create-reflog", "--stdin", data=lines.encode(), timeout=SLOW)
    rows = repository.git.ask("for-each-ref", "--format=%(refname) %(objectname)", f"{RECOVERY}/wt-{index}/")
    there = dict(row.split(" ", 1) for row in rows.splitlines())
    lost = [ref for ref, sha in wanted.items() if there.get(ref) != sha]
    if lost:
        raise NotSo(f"{lost[0]} was written and is not there", "Look at the repository's disk; nothing was removed.")
    return tuple(wanted)


def admin_folder(repository: Repository, path: Path) -> Path | None:
    """git's own folder for the worktree at ``path``: ``.git/worktrees/<id>``."""
    wanted = os.path.realpath(path / ".git")
    for entry in (repository.common_dir / "worktrees").glob("*/gitdir"):
        try:
            # Relative to the record's own folder, where worktree.useRelativePaths is set.
            told = entry.parent / entry.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
        except OSError:  # another worktree, forgotten in this moment
            continue
        if os.path.realpath(told) == wanted:
            return entry.parent
    return None


def _named(repository: Repository, admin: Path) -> list[str]:
    """Every commit that the record names, newest first: HEAD, refs of its own, and HEAD's reflog."""
    git, own = repository.git, f"--git-dir={admin}"
    found = []
    for name in ("HEAD", *PSEUDO_REFS):
        done = git.run(own, "rev-parse", "--verify", "--quiet", name)
        found += [done.text.strip()] if done.code == 0 else []
    refs = git.run(own, "for-each-ref", "--format=%(objectname)", "refs/worktree/", "refs/bisect/")
    found += refs.text.split() if refs.code == 0 else []
    try:
        log = (admin / "logs" / "HEAD").read_bytes().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:  # no reflog, or kept in another storage: git reads it
        done = git.run(own, "log", "--walk-reflogs", "--format=%H", "HEAD", "--", timeout=SLOW)
        return found + (done.text.split() if done.code == 0 else [])
    return found + [name for line in reversed(log) for name in reversed(line.split(" ", 2)[:2])]


def _commits(repository: Repository, names: list[str]) -> list[str]:
    """Those that are commits and still here: a reflog may name what was pruned."""
    wanted = [name for name in names if is_sha(name) and name.strip("0")]
    if not wanted:
        return []
    data = "".join(f"{name}\n" for name in wanted).encode()
    rows = repository.git.must("cat-file", "--batch-check", data=data, timeout=SLOW).text.splitlines()
    return [row.split(" ")[0] for row in rows if row.split(" ")[1:2] == ["commit"]]


def _tips(repository: Repository, commits: list[str]) -> list[str]:
    """The commits among them that no ref reaches, without those that another one of them reaches."""
    if not commits:
        return []
    data = "".join(f"{sha}\n" for sha in commits).encode()
    # Not --all: that counts the HEAD of every worktree, also of the one that goes away.
    done = repository.git.must("rev-list", "--parents", "--stdin", "--not", "--glob=refs/*", data=data, timeout=SLOW)
    rows = [row.split(" ") for row in done.text.splitlines()]
    lone = {row[0] for row in rows}
    below = {parent for row in rows for parent in row[1:]}
    return [sha for sha in commits if sha in lone - below]


def _names(repository: Repository, index: int, count: int) -> list[str]:
    taken = set(recovery_refs(repository, index))
    stem = f"{RECOVERY}/wt-{index}/{datetime.now(UTC):%Y%m%dT%H%M%SZ}-dropped-"
    free = (f"{stem}{number}" for number in range(1, count + len(taken) + 1))
    return [name for name in free if name not in taken][:count]


def _bundle(repository: Repository, index: int, tips: list[str]) -> str:
    """One commit whose parents are all of these."""
    parents = [part for tip in tips for part in ("-p", tip)]
    done = repository.git.must(
        "commit-tree",
        f"{tips[0]}^{{tree}}",
        *parents,
        env=IDENTITY,
        data=f"{len(tips)} dropped commits of wt-{index}: the parents of this one\n".encode(),
        timeout=SLOW,
    )
    return done.text.strip()
