"""Issues that a person names on the command line: they must be there before anything is built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.errors import BadInput, NotSo

if TYPE_CHECKING:
    from conductor.ports import Forge
    from schemas.forge import Issue


def issue_named(forge: Forge, number: int, option: str) -> Issue:
    """The issue that ``option`` names. Raises ``BadInput`` where the forge has no such issue."""
    try:
        return forge.issue(number)
    except NotSo as missing:
        raise BadInput(f"{option} {number}: {missing.what}", missing.hint) from None


def open_issue_named(forge: Forge, number: int, option: str) -> Issue:
    """The same; an issue that is closed is refused as well."""
    found = issue_named(forge, number, option)
    if found.state != "open":
        raise BadInput(
            f"{option} {number}: issue #{number} is closed, so nobody will take it up",
            "Name an open one (`taskmaestro issue list`), or file one with `taskmaestro issue create`.",
        )
    return found
