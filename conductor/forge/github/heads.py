"""What the remote's refs say: the authority over an API that may serve the head before the last push for minutes.

One ``git ls-remote`` for all branches that are asked about. A read goes by the API where the remote cannot be reached;
what cannot be taken back (``must``) does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from conductor.forge.github.redact import redacted_output
from schemas.errors import Fault, Unavailable
from schemas.text import one_line

if TYPE_CHECKING:
    from conductor.git.run import Done, Git

_LONG = 120.0


class Heads:
    """The refs of the managed repository's remote."""

    def __init__(self, root: Path, remote: str, *, timeout: float) -> None:
        self._root = root
        self.remote = remote
        self._timeout = timeout

    def url(self) -> str | None:
        """The remote's URL, None where the repository has no such remote."""
        done = self._git().run("remote", "get-url", "--", self.remote)
        return done.text.strip() or None if done.code == 0 else None

    def refs(self, names: Iterable[str], *, must: bool = False) -> dict[str, str]:
        """Full ref name -> SHA, for those that are there; empty where the remote cannot be read, unless ``must``."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        try:
            done = self._git().run("ls-remote", "--", self.remote, *wanted, timeout=self._timeout)
            if done.code != 0:
                raise self._unreadable(done)
        except Fault:
            if must:
                raise
            return {}
        lines = [line.split("\t", 1) for line in done.text.splitlines() if "\t" in line]
        # ls-remote matches the ends of names; only the whole name is meant.
        return {name: sha for sha, name in lines if name in wanted}

    def branch(self, name: str) -> str | None:
        """The head of a branch on the remote, None where it is surely not there; ``Unavailable`` where nobody says."""
        ref = f"refs/heads/{name}"
        return self.refs([ref], must=True).get(ref)

    def diff(self, base: str, head: str) -> str:
        """The diff by git itself, from the commits of the remote: for those that GitHub does not make."""
        git = self._git()
        missing = [sha for sha in (base, head) if git.commit(sha) is None]
        if missing:
            done = git.run(
                "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", self.remote, *missing, timeout=_LONG
            )
            if done.code != 0:
                raise self._unreadable(done)
        options = (
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        )
        done = git.must("diff", *options, f"{base}...{head}", timeout=_LONG)
        return done.out.decode("utf-8", "replace")

    def _git(self) -> Git:
        from conductor.git.run import Git

        return Git(self._root)

    def _unreadable(self, done: Done) -> Unavailable:
        said = one_line(redacted_output(done.reason), 300)
        return Unavailable(
            f"the remote {self.remote} of {self._root} cannot be read: {said}",
            f"Try `git ls-remote {self.remote}` by hand, then again.",
        )
