"""``python -m worker.scripted [--script FILE] [prompt]``: start the scripted agent in this terminal.

Without ``--script`` the environment variable TASKMAESTRO_SCRIPT names the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from schemas.errors import Fault
from worker.scripted.agent import Agent
from worker.scripted.script import load_script
from worker.scripted.terminal import Ended, Terminal

SCRIPT_VARIABLE = "TASKMAESTRO_SCRIPT"
USAGE = f"usage: python -m worker.scripted --script FILE [prompt]    (or {SCRIPT_VARIABLE}=FILE without --script)"


def main(argv: list[str]) -> int:
    """Exit codes: 0 after /exit; 1 not trusted; 2 usage or a bad script; 70 and others as the script says."""
    named = argv[:1] == ["--script"]
    file, rest = (argv[1:2], argv[2:]) if named else ([os.environ.get(SCRIPT_VARIABLE, "")], argv)
    if not any(file) or len(rest) > 1:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        script = load_script(Path(file[0]))
        with Terminal() as terminal:
            Agent(terminal, script, Path.cwd()).run(rest[0] if rest else None)
    except Fault as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.exit_code
    except Ended as end:
        return end.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
