"""Recovery refs: a worktree's work as commits, before anything of it is removed.

``refs/taskmaestro/recovery/wt-N/<UTC time>`` is a commit of the files as they lay there, byte for byte:
no filter runs. A file without a change stands there as HEAD has it (line ends as the attributes made them
when it was committed). Its parents are HEAD, a commit of the index, and what an unfinished merge, rebase or stash
points to.

The way back: ``git worktree add --detach ../rescued <ref>`` for a folder with all of it, or
``git checkout <ref> -- .`` in a worktree; single files by ``git show <ref>:<path>``; the index is ``<ref>^2``
(``<ref>^1`` on a branch without commits).
"""

from __future__ import annotations

import os
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from conductor.git.dirt import PSEUDO_REFS, Dirt, look, private_index, shown
from conductor.git.dropped import IDENTITY
from conductor.git.repository import RECOVERY, Repository
from schemas.errors import Fault, NotSo

SLOW = 600.0
# The files go away right after: what was written has to be on the disk, not only on its way.
DURABLE = ("-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync")
BACK = "The way back: git worktree add --detach ../rescued <this commit>\n"
Row = tuple[str, str]
"""(mode, object) of a path in a tree."""


def keep_all(repository: Repository, index: int, dirt: Dirt, scratch: Path) -> str:
    """Keep everything of a worktree under a new recovery ref, check it, and answer the ref.

    Raises ``NotSo`` where something cannot be kept (a nested repository, an unreadable file, one that changes
    meanwhile); then nothing was removed and the worktree is as it was.
    """
    refuse_what_cannot_be_kept(dirt)
    rows = _store(repository, dirt)
    head = repository.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", folder=dirt.folder).text.strip()
    index_tree = _index_tree(repository, dirt, scratch)
    tree = _tree(repository, dirt, head, rows)
    parents = [head] if head else []
    parents.append(_commit(repository, dirt, index_tree, parents, f"Index of wt-{index}"))
    parents += [sha for sha in _others(repository, dirt) if sha not in parents]
    listing = "\n".join(f"{'-' if row is None else '+'} {shown(path)}" for path, row in sorted(rows.items()))
    commit = _commit(repository, dirt, tree, parents, f"Work of wt-{index} before its removal\n\n{BACK}\n{listing}")
    _verify(repository, dirt, commit, rows, scratch)
    ref = _name(repository, index)
    repository.git.must(*DURABLE, "update-ref", "--create-reflog", ref, commit, "0" * len(commit))
    if repository.git.commit(ref) != commit:
        raise NotSo(f"{ref} was written and is not there", "Look at the repository's disk; nothing was removed.")
    return ref


def refuse_what_cannot_be_kept(dirt: Dirt) -> None:
    """Raises ``NotSo`` where something in the worktree is known to fit into no commit."""
    if dirt.kept_out:
        raise _cannot(dirt, list(dirt.kept_out))


def _cannot(dirt: Dirt, reasons: list[str]) -> Fault:
    return NotSo(
        f"{shown(str(dirt.folder))} was not removed, because this cannot be kept:\n"
        + "\n".join(f"  {line}" for line in reasons),
        "Move it elsewhere (or commit and push it there), then try again.",
    )


def _name(repository: Repository, index: int) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    ref = f"{RECOVERY}/wt-{index}/{stamp}"
    number = 2
    while repository.git.commit(ref) is not None:
        ref = f"{RECOVERY}/wt-{index}/{stamp}-{number}"
        number += 1
    return ref


# --- files ---


def _store(repository: Repository, dirt: Dirt, *, write: bool = True) -> dict[str, Row | None]:
    """Put every file into the object store as it is (``write``), or only name it; None: not there."""
    rows: dict[str, Row | None] = {}
    plain: list[tuple[str, str]] = []
    for path in dirt.files:
        try:
            info = (dirt.folder / path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            rows[path] = None
            continue
        except OSError as error:
            raise _cannot(dirt, [f"{shown(path)}: {error.strerror}"]) from error
        if stat.S_ISREG(info.st_mode):
            plain.append((path, "100755" if info.st_mode & 0o100 else "100644"))
        elif stat.S_ISLNK(info.st_mode):
            rows[path] = ("120000", _link(repository, dirt.folder / path, write))
        elif stat.S_ISDIR(info.st_mode):
            rows[path] = _folder(repository, dirt, path)
        else:
            raise _cannot(dirt, [f"{shown(path)} is neither a file nor a link"])
    rows.update(_hash(repository, dirt, plain, write))
    return rows


def _hash(repository: Repository, dirt: Dirt, plain: list[tuple[str, str]], write: bool) -> dict[str, Row | None]:
    if not plain:
        return {}
    options = [*DURABLE, "hash-object", *(["-w"] if write else []), "--no-filters", "--stdin-paths"]
    data = "".join(f"{_quoted(path)}\n" for path, _ in plain).encode()
    done = repository.git.run(*options, folder=dirt.folder, data=data, timeout=SLOW)
    names = done.text.split()
    if done.code != 0 or len(names) != len(plain):
        raise _cannot(dirt, [done.reason])
    return {path: (mode, name) for (path, mode), name in zip(plain, names, strict=True)}


def _link(repository: Repository, path: Path, write: bool) -> str:
    options = ["hash-object", *(["-w"] if write else []), "--stdin"]
    return repository.git.must(*DURABLE, *options, data=os.fsencode(path.readlink())).text.strip()


def _folder(repository: Repository, dirt: Dirt, path: str) -> Row | None:
    """A tracked path that is a folder now: a submodule's commit, or a file that made way for files."""
    if not (dirt.folder / path / ".git").exists():
        return None
    sha = repository.git.ask("rev-parse", "--verify", "HEAD^{commit}", folder=dirt.folder / path)
    return ("160000", sha)


def _quoted(path: str) -> str:
    """The path as git reads it between double quotes: any byte as an octal escape but the plain ones."""
    data = path.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 < b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in data) + '"'


# --- trees and commits ---


def _tree(repository: Repository, dirt: Dirt, head: str, rows: dict[str, Row | None]) -> str:
    """HEAD's tree with these rows in place of what it has there."""
    git = repository.git
    with tempfile.TemporaryDirectory(prefix="taskmaestro-index-") as holder:
        env = {"GIT_INDEX_FILE": str(Path(holder) / "index")}
        git.must("read-tree", head or "--empty", folder=dirt.folder, env=env)
        none = "0" * len(git.ask("hash-object", "--stdin"))
        # Removals first: a folder may have taken a file's place, or a file a folder's.
        gone = [f"0 {none}\t{path}" for path in rows]
        there = [f"{row[0]} {row[1]}\t{path}" for path, row in rows.items() if row]
        data = "".join(f"{line}\0" for line in [*gone, *there]).encode("utf-8", "surrogateescape")
        if data:
            git.must("update-index", "-z", "--index-info", folder=dirt.folder, env=env, data=data, timeout=SLOW)
        return git.must(*DURABLE, "write-tree", folder=dirt.folder, env=env).text.strip()


def _index_tree(repository: Repository, dirt: Dirt, scratch: Path) -> str:
    """The index as a tree; the sides of a conflict come as ``.taskmaestro-conflict/<stage>/<path>``."""
    git = repository.git
    with private_index(git, dirt.folder, dirt.git_dir, scratch) as env:
        rows = git.must("ls-files", "--stage", "-z", folder=dirt.folder, env=env).fields
        if all(row.split(" ", 2)[2].startswith("0\t") for row in rows):
            return git.must(*DURABLE, "write-tree", folder=dirt.folder, env=env).text.strip()
    git.must("hash-object", "-w", "--stdin", data=b"")  # what "git add --intent-to-add" records
    lines = []
    for row in rows:
        info, _, path = row.partition("\t")
        mode, name, stage = info.split(" ")
        lines.append(f"{mode} {name}\t{path if stage == '0' else f'.taskmaestro-conflict/{stage}/{path}'}")
    with tempfile.TemporaryDirectory(prefix="taskmaestro-index-") as holder:
        env = {"GIT_INDEX_FILE": str(Path(holder) / "index")}
        data = "".join(f"{line}\0" for line in lines).encode("utf-8", "surrogateescape")
        git.must("update-index", "-z", "--index-info", folder=dirt.folder, env=env, data=data)
        return git.must(*DURABLE, "write-tree", folder=dirt.folder, env=env).text.strip()


def _commit(repository: Repository, dirt: Dirt, tree: str, parents: list[str], message: str) -> str:
    named = [part for parent in parents for part in ("-p", parent)]
    done = repository.git.must(
        *DURABLE,
        "commit-tree",
        tree,
        *named,
        folder=dirt.folder,
        env=IDENTITY,
        data=message.encode("utf-8", "replace"),
    )
    return done.text.strip()


def _others(repository: Repository, dirt: Dirt) -> list[str]:
    """Commits that only the worktree's own refs hold, the branch's tip during a rebase, and stashed work."""
    git = repository.git
    names = [*PSEUDO_REFS]
    names += [f"refs/heads/{dirt.branch}"] if dirt.branch else []
    names += git.ask(
        "for-each-ref", "--format=%(refname)", "refs/worktree/", "refs/bisect/", folder=dirt.folder
    ).split()
    found = []
    for name in names:
        done = git.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", folder=dirt.folder)
        found += [done.text.strip()] if done.code == 0 else []
    return list(dict.fromkeys([*found, *(sha for sha, _ in dirt.stashes)]))


def _verify(repository: Repository, dirt: Dirt, commit: str, rows: dict[str, Row | None], scratch: Path) -> None:
    """Read the commit back and look at the worktree again: both must say the same."""
    listed = repository.git.must("ls-tree", "-r", "-z", "--full-tree", commit).fields
    there = {
        path: (info.split(" ")[0], info.split(" ")[2]) for info, _, path in (row.partition("\t") for row in listed)
    }
    wrong = [path for path, row in rows.items() if there.get(path) != row]
    names = "".join(f"{row[1]}\n" for row in rows.values() if row and row[0] != "160000")
    if names:
        answer = repository.git.must("cat-file", "--batch-check", data=names.encode(), timeout=SLOW).text
        wrong += [line for line in answer.splitlines() if " blob " not in line]
    again = look(repository.git, dirt.folder, repository.config.precious, scratch)
    if again != dirt or _store(repository, again, write=False) != rows:
        raise NotSo(
            f"{shown(str(dirt.folder))} changed while it was being kept, and was not removed",
            "Stop what works there, then try again.",
        )
    if wrong:
        raise _cannot(dirt, [f"{shown(path)} did not come back as it was written" for path in wrong])
