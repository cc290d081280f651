"""Stages on a stand-in for GitHub, reached by the real gh and the real git."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conductor.forge.github.api import Retries
from conductor.forge.github.forge import GithubForge
from conductor.forge.github.pace import Pace
from schemas.config import CiConfig, Config, ForgeConfig, GithubForgeConfig
from tests.forge.stage import Stage
from tests.github.world import GithubWorld
from tests.support.repos import make_repository

NAME = "octo/shop"
QUICK = Retries(attempts=4, timeout=60.0, first_wait=0.01, longest_wait=0.05)
"""Retries that lose no time."""


class Clock:
    """A clock that only pauses move, and those cost no time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.seconds, UTC)

    def pace(self) -> Pace:
        return Pace(clock=lambda: self.seconds, now=self.now, pause=self.pause, patience=20)


class GithubStage(Stage):
    """A stage whose forge is GitHub; ``github`` is the other side."""

    forge: GithubForge

    def __init__(
        self, root: Path, forge: GithubForge, github: GithubWorld, open_as: Callable[[str], GithubForge]
    ) -> None:
        super().__init__(root, forge, "origin", acting=open_as)
        self.github = github

    def asked(self, field: str) -> int:
        """How often this GraphQL root field, or path, was asked for so far."""
        return sum(field in one.fields or field == one.path for one in self.github.server.requests)

    def clock(self) -> Clock:
        """Put the forge's back-off on a clock of the test's."""
        clock = Clock()
        self.forge._api.pace = clock.pace()
        return clock


class GithubStages:
    """Makes stages, all on one stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.worlds: list[GithubWorld] = []

    def __call__(
        self,
        *,
        login: str = "conductor",
        checks: Mapping[str, tuple[str, ...]] | None = None,
        timeout: float = 60.0,
        grace: float = 0.0,
        retries: Retries = QUICK,
        more: Mapping[str, Any] | None = None,
        host: str = "github.com",
        **adopt: Any,
    ) -> GithubStage:
        """``grace`` is none by default: a repository without checks has none at once. ``more``: [forge.github]."""
        number = len(self.worlds)
        github = GithubWorld(self.folder / f"github-{number}", host=host, check_timeout=timeout)
        github.__enter__()
        self.worlds.append(github)
        root = make_repository(self.folder / f"managed-{number}", commits=2)
        github.adopt(root, NAME, login=login, checks=checks, **adopt)
        for known in (login, "conductor", "worker-1", "another"):
            github.user(known)
        chosen = {**({} if host == "github.com" else {"host": host}), **(more or {})}
        config = Config(
            forge=ForgeConfig(kind="github", github=GithubForgeConfig.model_validate(chosen)),
            ci=CiConfig(grace=grace),
        )

        def open_as(other: str) -> GithubForge:
            return GithubForge.open(config, root, environment=github.environment(other), retries=retries)

        return GithubStage(root, open_as(login), github, open_as)


@contextmanager
def github_stages(folder: Path, *, honest: bool = True) -> Iterator[GithubStages]:
    """Stages, ended afterwards; then nothing may have been asked that GitHub does not know."""
    stages = GithubStages(folder)
    try:
        yield stages
        if honest:
            for world in stages.worlds:
                world.assert_honest()
    finally:
        for world in stages.worlds:
            world.__exit__(None, None, None)
