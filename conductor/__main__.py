"""The installed command ``taskmaestro``, also as ``python -m conductor``: one verb, loaded as fast as it can be."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the verb that the command line names; answers its exit code."""
    # Loading leaves no garbage, and looking for some takes an eighth of a short verb's time.
    gc.disable()
    from conductor.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
