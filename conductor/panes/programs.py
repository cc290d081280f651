"""Finding an agent's program before it is started, so that a missing one is told at once and not as a
time-out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from schemas.errors import BadInput, Unavailable
from schemas.text import one_line


def find_program(
    argv: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None, install_hint: str = ""
) -> str:
    """The absolute path of ``argv[0]``, looked for in the PATH of ``env``, else of this program.

    Raises ``Unavailable`` naming the program and every folder that was looked in.
    """
    if not argv or not argv[0]:
        raise BadInput("an empty command was to be started in a pane", "Set the agent's command in the configuration.")
    name = argv[0]
    path = env.get("PATH", os.environ.get("PATH", os.defpath))
    if os.sep in name:
        place = (cwd or Path.cwd()) / name
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
        why = "it is not there" if not place.exists() else "it is not an executable file"
        raise Unavailable(f"the program {one_line(str(place))} cannot be started: {why}", install_hint)
    # Relative and empty PATH entries would mean the worktree, whose contents others choose.
    folders = [folder for folder in path.split(os.pathsep) if folder and Path(folder).is_absolute()]
    found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
    if found:
        return found
    looked = "".join(f"\n  {one_line(folder)}" for folder in folders) or " an empty PATH"
    hint = install_hint or "Install it, or set its full path in the configuration."
    raise Unavailable(f"the program `{one_line(name)}` was not found; looked in:{looked}", hint)
