"""What git runs instead of ssh: `git@github.com:o/r.git` is the bare repository of the stand-in, on this machine.

    core.sshCommand = python git_ssh.py SOCKET HOST LOGIN

It asks the stand-in where the repository lies, runs git's own upload-pack or receive-pack there and tells of a push.
Only the standard library, so that it starts quickly.
"""

from __future__ import annotations

import http.client
import json
import shlex
import socket
import subprocess
import sys
from typing import Any

SERVICES = ("git-upload-pack", "git-receive-pack")


def ask(path: str, verb: str, body: dict[str, Any]) -> tuple[int, Any]:
    """(status, answer) of the stand-in's control door."""
    connection = http.client.HTTPConnection("standin")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(path)
    connection.request("POST", f"/_standin/{verb}", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def main(arguments: list[str]) -> int:
    where, host, login, *rest = arguments
    while rest and rest[0].startswith("-"):
        # -o, -p and -l take a value; -4, -6 and -G do not.
        rest = rest[2:] if rest[0] in ("-o", "-p", "-l") else rest[1:]
    if len(rest) < 2 or rest[0] != f"git@{host}":
        sys.stderr.write(f"ssh: only git@{host} can be reached here, not {' '.join(rest)}\n")
        return 255
    service, name = [*shlex.split(rest[1]), "", ""][:2]
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
    code = subprocess.run([service, found["path"]], check=False).returncode
    if service == "git-receive-pack" and code == 0:
        ask(where, "pushed", {"login": login})
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
