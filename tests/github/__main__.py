"""The stand-in as a program, for a script that shows the whole with the real gh:

    python -m tests.github --folder F --repository octo/shop=PATH --login conductor --check 'unit=pytest -q'

It makes a repository of the one at PATH and connects that one (`conductor` pushes from there), prints one line of
JSON (the socket, and the environment of each login for gh), and answers until its standard input or a signal ends it.
Other processes ask it by `tests.github.git_ssh.ask(socket, verb, {...})`: `state`, `fault`, `check`, `head_lag`, ...
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import signal
import sys
from pathlib import Path

from tests.github import schema
from tests.github.world import GithubWorld


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.github", description="A stand-in for GitHub.")
    parser.add_argument("--folder", type=Path, required=True, help="where its repositories and homes lie")
    parser.add_argument("--repository", metavar="OWNER/NAME=PATH", required=True, help="the one to make a copy of")
    parser.add_argument("--login", action="append", required=True, help="a user; the first pushes from PATH")
    parser.add_argument("--check", action="append", default=[], metavar="NAME=COMMAND", help="a check of each head")
    parser.add_argument("--required", action="append", default=[], metavar="NAME", help="a check that is required")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    if not schema.available():
        sys.stderr.write(f"{schema.MISSING}\n")
        return 3
    name, _, path = options.repository.partition("=")
    checks = {key: tuple(shlex.split(value)) for key, _, value in (one.partition("=") for one in options.check)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with GithubWorld(options.folder) as github:
        first = options.login[0]
        github.adopt(Path(path), name, login=first, checks=checks, protected=tuple(options.required))
        environments = {login: github.environment(login) for login in options.login}
        print(json.dumps({"socket": str(github.socket), "environments": environments}), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()
        amiss = [*github.server.unmodelled, *github.server.violations]
        for line in amiss:
            sys.stderr.write(f"{line}\n")
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
