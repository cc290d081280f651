"""``scripts/docs``: write the generated pages and schema files anew; ``--check`` only says which are stale."""

from __future__ import annotations

import sys

from conductor.docs import stale, write


def main(arguments: list[str]) -> int:
    """0: all are as they should be now; 1: ``--check`` found stale ones; 2: usage."""
    if arguments not in ([], ["--check"]):
        print("Usage: scripts/docs [--check]", file=sys.stderr)
        return 2
    if arguments:
        found = stale()
        for name in found:
            print(f"stale: {name} (run scripts/docs)", file=sys.stderr)
        return 1 if found else 0
    for name in write():
        print(f"docs: wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
