"""Forges: where pull requests, checks and reviews live. Which one is a name in the configuration.

A forge is an entry point in the group ``taskmaestro.forges``: its name there is ``[forge] kind``, its object
a ``Factory``. The forges that come with taskmaestro are registered the same way as anybody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from schemas.errors import BadInput, Unavailable
from schemas.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from conductor.ports import Forge
    from schemas.config import Config
    from schemas.forge import Checks

    Factory = Callable[[Config, Path], Forge]

GROUP = "taskmaestro.forges"


@runtime_checkable
class RerunsChecks(Protocol):
    """A forge that can run the checks of a head once more."""

    def rerun_checks(self, number: int) -> Checks: ...


@runtime_checkable
class KnowsDefaultBranch(Protocol):
    """A forge that knows where pull requests go unless told otherwise."""

    def default_branch(self) -> str: ...


def known_forges() -> dict[str, EntryPoint]:
    """The registered forges by name."""
    # The process that runs a check loads this package, and asks for no forge.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def open_forge(config: Config, root: Path) -> Forge:
    """The configured forge of the managed repository at ``root``.

    Raises ``BadInput`` for a kind that is not registered, ``Unavailable`` for one that cannot be loaded, and
    what its factory raises.
    """
    known, kind = known_forges(), config.forge.kind
    if not known:
        raise Unavailable(
            "no forge is registered: taskmaestro is not installed, only lies there",
            "Install it (`uv tool install` or `pipx install`, or `pip install -e .` in a checkout).",
        )
    if kind not in known:
        raise BadInput(
            f"[forge] kind is {one_line(kind)!r}, and no such forge is registered",
            f"Known: {', '.join(sorted(known))}. Set one of them in .taskmaestro/config.toml.",
        )
    try:
        factory: Factory = known[kind].load()
    except (ImportError, AttributeError) as error:
        raise Unavailable(
            f"the forge {kind!r} ({known[kind].value}) cannot be loaded: {one_line(str(error))}",
            "Install or update the package that brings it.",
        ) from error
    return factory(config, root)
