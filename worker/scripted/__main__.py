"""``python -m worker.scripted --script FILE [prompt]``: start the scripted agent in this terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from schemas.errors import Fault
from worker.scripted.agent import Agent
from worker.scripted.script import load_script
from worker.scripted.terminal import Ended, Terminal

USAGE = "usage: python -m worker.scripted --script FILE [prompt]"


def main(argv: list[str]) -> int:
    """Exit codes: 0 after /exit; 1 not trusted; 2 usage or a bad script; 70 and others as the script says."""
    if len(argv) < 2 or argv[0] != "--script" or len(argv) > 3:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        script = load_script(Path(argv[1]))
        with Terminal() as terminal:
            Agent(terminal, script, Path.cwd()).run(argv[2] if len(argv) == 3 else None)
    except Fault as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.exit_code
    except Ended as end:
        return end.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
