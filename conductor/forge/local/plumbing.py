"""git, as the local forge calls it: without a shell, a user's hooks or an inherited repository.

Nothing here checks anything out: merges are made by ``git merge-tree --write-tree`` (git 2.38 and newer).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import Unavailable
from schemas.text import one_line
from worker.tools.git import INSTALL, MERGING

# What git itself sets while it runs hooks: it would lead our calls to another repository.
_INHERITED = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
)
_IDENTITY = {
    "GIT_AUTHOR_NAME": "taskmaestro",
    "GIT_AUTHOR_EMAIL": "taskmaestro@localhost.invalid",
    "GIT_COMMITTER_NAME": "taskmaestro",
    "GIT_COMMITTER_EMAIL": "taskmaestro@localhost.invalid",
}


class MergeUnsupported(Unavailable):
    """This git is too old for merges without a checkout."""


@dataclass(frozen=True)
class Done:
    """How a call ended; text is UTF-8, what is not shown as U+FFFD."""

    code: int
    out: str
    err: str


def git_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without what git sets for hooks, with messages in English and no questions asked."""
    environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    environment.update({"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"})
    environment.update(extra or {})
    return environment


def git(
    repo: Path,
    *arguments: str,
    ok: tuple[int, ...] = (0,),
    env: Mapping[str, str] | None = None,
    timeout: float = 120.0,
) -> Done:
    """Run git on ``repo`` (a git directory or a worktree); ``timeout`` in seconds.

    Raises ``Unavailable`` where git is missing, hangs, or ends with a code that is not in ``ok``.
    """
    argv = [
        "git",
        "-C",
        str(repo),
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.quotePath=false",
        *arguments,
    ]
    try:
        done = subprocess.run(
            argv,
            env=git_environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        if repo.is_dir():
            raise Unavailable("git was not found on PATH", INSTALL) from error
        raise Unavailable(f"the folder is missing: {repo}", "Put it back and run it again.") from error
    except OSError as error:
        raise Unavailable(
            f"git could not be started in {repo}: {error.strerror or error}",
            "Try again when the machine is calmer.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(
            f"git {arguments[0]} took more than {timeout:g} s in {repo}", "Try again when the disk is calmer."
        ) from error
    result = Done(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace").strip(),
    )
    if result.code not in ok:
        raise Unavailable(
            f"git {arguments[0]} failed in {repo} (exit {result.code}): {one_line(result.err, 400)}",
            "Run that git command by hand to see more.",
        )
    return result


def is_ancestor(repo: Path, sha: str, of: str) -> bool:
    return git(repo, "merge-base", "--is-ancestor", sha, of, ok=(0, 1)).code == 0


def commits_between(repo: Path, base: str, head: str) -> int:
    return int(git(repo, "rev-list", "--count", f"{base}..{head}").out)


def merged_tree(repo: Path, base: str, head: str) -> str | None:
    """The tree of merging ``head`` into ``base``, None where they conflict. Raises ``MergeUnsupported``."""
    done = git(repo, "merge-tree", "--write-tree", "--no-messages", base, head, ok=(0, 1, 128, 129))
    if done.code == 0:
        return done.out.split()[0]
    if done.code == 1 or "unrelated histories" in done.err:
        return None
    if done.code == 129 or "usage:" in done.err or "Not a valid object name --write-tree" in done.err:
        raise MergeUnsupported(
            "this git is too old to merge in the embedded forge",
            f"Install git {'.'.join(map(str, MERGING))} or newer, or merge by hand and push.",
        )
    raise Unavailable(f"git merge-tree failed in {repo}: {one_line(done.err, 400)}", "See `git fsck` there.")


def commit_tree(repo: Path, tree: str, parents: tuple[str, ...], message: str, like: str) -> str:
    """A commit by the forge. Dated as the commit ``like``, so that two who make the same one get the same
    SHA.
    """
    date = git(repo, "show", "--no-patch", "--format=%ct +0000", like).out.strip()
    env = {**_IDENTITY, "GIT_AUTHOR_DATE": f"@{date}", "GIT_COMMITTER_DATE": f"@{date}"}
    flags = [word for parent in parents for word in ("-p", parent)]
    return git(repo, "commit-tree", tree, *flags, "-m", message, env=env).out.strip()


def update_ref(repo: Path, name: str, new: str, old: str | None = None) -> None:
    """Move a ref; with ``old`` only from there. Raises ``Unavailable`` where it stood elsewhere."""
    git(repo, "update-ref", name, new, *([] if old is None else [old]))


def delete_ref(repo: Path, name: str) -> None:
    git(repo, "update-ref", "-d", name)


def diff(repo: Path, base: str, head: str) -> str:
    """The changes of ``head`` since it left ``base``, as a unified diff with a/ and b/ prefixes."""
    return git(
        repo,
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--find-renames",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        f"{base}...{head}",
    ).out
