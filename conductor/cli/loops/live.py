"""Which live pull request a ``loop`` verb is about, and how its one answer is told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import click

from conductor.cli.context import Context, find_context
from conductor.cli.loops.reading import name_of, read_file
from conductor.cli.output import filtered, to_json
from conductor.forge import open_forge
from conductor.layout import Layout
from conductor.loop.detect import LoopForge, Wishes, loop_forge
from schemas.errors import BadInput
from schemas.loops.local_state import LocalState, read_local_state
from schemas.text import clean, one_line
from worker.tools.git import git

_REMOTE = re.compile(r"^(?:[a-z+]+://[^/]+/|[\w.-]+@?[\w.-]*:)(?:.*/)?([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")


@dataclass(frozen=True)
class Target:
    """A pull request of the managed repository that the current folder belongs to."""

    context: Context
    number: int

    @classmethod
    def find(cls, repo: str | None, number: int) -> Target:
        """The target. Raises ``BadInput`` where ``repo`` names another repository than this one."""
        target = cls(find_context(), number)
        if repo is not None:
            target.check(repo)
        return target

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.context.root)

    @cached_property
    def forge(self) -> LoopForge:
        return loop_forge(open_forge(self.context.config, self.context.root))

    @property
    def repo(self) -> str:
        """``owner/name``, as the forge says it."""
        return self.forge.repository()

    @property
    def external(self) -> tuple[str, ...]:
        return self.context.config.loops.external_reviewers

    def wishes(self, **more: Any) -> Wishes:
        return Wishes(external=self.external, **more)

    def check(self, repo: str) -> None:
        """Raises ``BadInput`` unless the forge or a git remote of this repository knows it by that name."""
        known = [self.repo, *self._remotes()]
        if repo.strip().lower() not in known:
            raise BadInput(
                f"--repo {one_line(repo, 100)} is not the repository {self.context.root}",
                f"It is {' or '.join(dict.fromkeys(known))}; leave --repo out, or change to the other one's folder.",
            )

    def _remotes(self) -> list[str]:
        urls = [
            line.split()[1] for line in git(["remote", "-v"], self.context.root).output.splitlines() if line.split()
        ]
        found = [_REMOTE.search(url) for url in urls]
        return [f"{one[1]}/{one[2]}".lower() for one in found if one is not None]


def read_local(name: str, number: int) -> LocalState:
    """A local state file of this pull request."""
    try:
        return read_local_state(read_file(name), number=number, now=datetime.now(UTC))
    except BadInput as fault:
        shown = name_of(name)
        raise fault if fault.what.startswith(shown) else BadInput(f"{shown}: {fault.what}", fault.hint) from None


def say(value: dict[str, Any], *, jq: str | None, silent: bool) -> None:
    """The one answer, as JSON."""
    shown = [to_json(value)] if jq is None else filtered(value, jq)
    if not silent and shown:
        click.echo(clean("\n".join(shown)))
