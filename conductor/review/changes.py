"""What a pull request changes, read with git from a checkout of its head: pinned to two SHAs, whatever the
forge says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from conductor.review.context import FOREIGN_GIT, KEEP_MACHINE_OUTPUT, Run
from schemas.errors import NotSo, Unavailable
from schemas.text import one_line
from worker.tools.process import Outcome

TIMEOUT = 120.0

_DIFF = (
    "-c", "core.quotepath=on", "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames",
    "--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--full-index", "--submodule=short",
)  # fmt: skip


def knows(checkout: Path, sha: str, run: Run) -> bool:
    """Whether the commit is in the repository of this checkout."""
    return _git(["cat-file", "-e", f"{sha}^{{commit}}"], checkout, run).ok


def diff_of(checkout: Path, base: str, head: str, run: Run) -> str:
    """The diff of ``head`` against the point where it left ``base``: what merging would bring.

    Raises ``NotSo`` where git cannot make it (no common history), ``Unavailable`` where it takes too long or
    too much.
    """
    outcome = _git([*_DIFF, f"{base}...{head}", "--"], checkout, run)
    _check(outcome, f"the diff of {base[:12]}...{head[:12]}")
    return outcome.data.decode("utf-8", "replace")


def committed_paths(checkout: Path, base: str, head: str, run: Run) -> frozenset[str]:
    """Every path that a commit of ``head`` since ``base`` adds or changes, merges from the base left out."""
    arguments = [
        "log",
        "--format=",
        "--name-only",
        "-z",
        "--no-renames",
        "--diff-filter=d",
        f"{base}..{head}",
        "--",
    ]
    outcome = _git(arguments, checkout, run)
    _check(outcome, f"the commits of {base[:12]}..{head[:12]}")
    names = (name.strip(b"\n") for name in outcome.data.split(b"\0"))
    return frozenset(name.decode("utf-8", "replace") for name in names if name)


def restore(checkout: Path, run: Run) -> list[str]:
    """Put tracked files back as they are in the commit, and answer which ones a command had changed."""
    outcome = _git(["diff", "--name-only", "-z", "--no-renames", "--"], checkout, run)
    _check(outcome, "what a command changed in the checkout")
    names = [name.decode("utf-8", "surrogateescape") for name in outcome.data.split(b"\0") if name]
    if names:
        _check(_git(["checkout", "--quiet", "--force", "--", "."], checkout, run), "the files to be put back")
    return names


def _git(arguments: Sequence[str], checkout: Path, run: Run) -> Outcome:
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN_GIT}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "--no-pager", *arguments]
    return run(command, cwd=checkout, timeout=TIMEOUT, env=env, keep=KEEP_MACHINE_OUTPUT, merge=False)


def _check(outcome: Outcome, what: str) -> None:
    if outcome.timed_out:
        raise Unavailable(f"git took more than {TIMEOUT:.0f} s for {what}", "Try again when the machine is less busy.")
    if not outcome.ok:
        raise NotSo(f"git cannot read {what}: {one_line(outcome.tail(3), 300)}", "Fetch the base branch.")
    if outcome.truncated:
        size = KEEP_MACHINE_OUTPUT // (1024 * 1024)
        raise Unavailable(f"{what} is larger than {size} MiB", "Split the pull request.")
