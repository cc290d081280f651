"""What git runs instead of ssh: `git@github.com:o/r.git` is the bare repository of the stand-in, on this machine.

    core.sshCommand = python git_ssh.py SOCKET HOST LOGIN

It asks the stand-in where the repository lies, runs git's own upload-pack or receive-pack there and tells of a push.
Only the standard library, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

SERVICES = ("git-upload-pack", "git-receive-pack")


def ask(path: str, verb: str, body: dict[str, Any]) -> tuple[int, Any]:
    """(status, answer) of the stand-in's control door."""
    sent = json.dumps(body).encode()
    head = f"POST /_standin/{verb} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(path)
        connection.sendall(head.encode() + sent)
        with connection.makefile("rb") as answer:
            status, _, text = answer.read().partition(b"\r\n\r\n")
    return int(status.split()[1]), json.loads(text)


def _words(command: str) -> list[str]:
    """The service and the path of git's command line, ``git-upload-pack 'o/r.git'``."""
    service, _, path = command.partition(" ")
    return [service, path.strip("'")]


def main(arguments: list[str]) -> int:
    where, host, login, *rest = arguments
    while rest and rest[0].startswith("-"):
        # -o, -p and -l take a value; -4, -6 and -G do not.
        rest = rest[2:] if rest[0] in ("-o", "-p", "-l") else rest[1:]
    if len(rest) < 2 or rest[0] != f"git@{host}":
        sys.stderr.write(f"ssh: only git@{host} can be reached here, not {' '.join(rest)}\n")
        return 255
    service, name = _words(rest[1])
    if service not in SERVICES:
        sys.stderr.write("Hi! You've successfully authenticated, but GitHub does not provide shell access.\n")
        return 1
    try:
        status, found = ask(where, "repository", {"name": name.strip("/").removesuffix(".git"), "service": service})
    except OSError:
        sys.stderr.write(f"ssh: connect to host {host} port 22: Connection refused\n")
        return 255
    if status != 200:
        sys.stderr.write("ERROR: Repository not found.\n")
        return 128
    if service == "git-receive-pack" and found["archived"]:
        sys.stderr.write("ERROR: This repository was archived so it is read-only.\n")
        return 128
    if service == "git-upload-pack":
        os.execvp(service, [service, found["path"]])  # noqa: S606  # two names of our own, and no shell
    code = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawnp(service, [service, found["path"]], os.environ), 0)[1])
    if code == 0:
        ask(where, "pushed", {"login": login})
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
