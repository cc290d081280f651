"""A managed repository with a forge, for tests: pushes branches and opens pull requests on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from conductor.ports import Forge
from schemas.forge import PullRequest
from tests.support.repos import commit_file, git


class Stage:
    """A managed repository and its forge under one acting login; ``remote`` is what workers push to."""

    def __init__(
        self,
        root: Path,
        forge: Forge,
        remote: str,
        *,
        acting: Callable[[str], Forge],
        check_reads: str = "verdict.txt",
    ) -> None:
        """``acting`` opens the same forge under another login."""
        self.root = root
        self.forge = forge
        self.remote = remote
        self.check_reads = check_reads
        self._open = acting
        self._others: dict[str, Forge] = {}

    def acting(self, login: str) -> Forge:
        """The same forge under this login: on most forges that is whoever holds the token."""
        if login == self.forge.login():
            return self.forge
        if login not in self._others:
            self._others[login] = self._open(login)
        return self._others[login]

    def push(self, branch: str, name: str = "work.txt", text: str = "work\n", *, start: str = "main") -> str:
        """Put a commit that writes ``name`` on ``branch`` (made from ``start`` where new) and push; answers
        its SHA.
        """
        if git(self.root, "branch", "--list", branch):
            git(self.root, "checkout", "--quiet", branch)
        else:
            git(self.root, "checkout", "--quiet", "-b", branch, start)
        sha = commit_file(self.root, name, text)
        self.send(branch)
        git(self.root, "checkout", "--quiet", "main")
        return sha

    def amend(self, branch: str, name: str, text: str) -> str:
        """Replace the last commit of ``branch`` by one that also writes ``name``, and push it by force."""
        git(self.root, "checkout", "--quiet", branch)
        (self.root / name).write_text(text, encoding="utf-8")
        git(self.root, "add", "--", name)
        git(self.root, "commit", "--quiet", "--amend", "--no-edit")
        self.send(branch)
        sha = git(self.root, "rev-parse", "HEAD")
        git(self.root, "checkout", "--quiet", "main")
        return sha

    def send(self, *refspecs: str) -> None:
        git(self.root, "push", "--quiet", "--force", self.remote, *refspecs)

    def open(self, branch: str, *, author: str | None = None, draft: bool = False, body: str = "") -> PullRequest:
        """Push a commit on ``branch`` unless it is there, and open a pull request for it."""
        if not git(self.root, "branch", "--list", branch):
            self.push(branch, f"{branch.replace('/', '-')}.txt")
        return self.forge.create_pull_request(
            branch=branch, base="main", title=f"Work on {branch}", body=body, draft=draft, author=author
        )


class MakeStage(Protocol):
    """Makes a stage on a new repository; ``checks``: name -> argv."""

    def __call__(
        self,
        *,
        login: str = "conductor",
        checks: dict[str, tuple[str, ...]] | None = None,
        timeout: float = 60.0,
    ) -> Stage: ...
