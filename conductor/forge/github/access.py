"""What ``doctor`` asks: who gh acts as, whether the panes act as the same, and whether the repository takes work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from conductor.forge.github.api import Retries
from conductor.forge.github.forge import GithubForge
from schemas.config import Config
from schemas.errors import Fault
from schemas.forge import TOKEN_VARIABLES

_ONCE = Retries(attempts=1)


class Access(NamedTuple):
    """``wrong`` is what a person should mend, with ``fix``; None where all is well."""

    login: str
    repository: str
    wrong: str | None = None
    fix: str = ""


def access(config: Config, root: Path) -> Access:
    """Ask GitHub as a pane would: without the variables that hold a token. Raises the faults of the forge."""
    without = {name: value for name, value in os.environ.items() if name not in TOKEN_VARIABLES}
    by_variable = next((name for name in TOKEN_VARIABLES if os.environ.get(name)), None)
    try:
        forge = GithubForge.open(config, root, environment=without, retries=_ONCE)
        login = forge.login()
    except Fault:
        if by_variable is None:
            raise
        forge = GithubForge.open(config, root, retries=_ONCE)
        return Access(
            forge.login(),
            forge.repository(),
            f"gh is logged in by {by_variable} alone, which no pane gets",
            "gh auth login",
        )
    name = forge.repository()
    if forge.is_archived():
        return Access(login, name, f"{name} is archived: it takes no pull requests", "Unarchive it, or name another.")
    return Access(login, name)
