"""Which GitHub repository a git remote's URL names: ssh, https and scp-like forms, Enterprise hosts.

``ssh.github.com:443`` is github.com behind a firewall. An ssh host may be an alias of the user's ssh configuration:
what it stands for is not known here, so such a repository is named in the configuration.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from conductor.forge.github.redact import redacted_output
from schemas.errors import BadInput
from schemas.text import one_line

GITHUB = "github.com"
_OWNER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[^@/:\s]+):(?!//)(?P<path>.+)")
_SCHEMES = frozenset({"https", "http", "ssh", "git", "git+ssh", "ssh+git", "git+https"})
_OTHER_NAMES = {"ssh.github.com": GITHUB, "www.github.com": GITHUB}
_SET = "Set `repository` (owner/name), and `host` where it is not github.com, in [forge.github]."


class Place(NamedTuple):
    """A repository on a GitHub host."""

    host: str
    owner: str
    name: str

    @property
    def full(self) -> str:
        return f"{self.owner}/{self.name}"

    def same(self, full: str | None) -> bool:
        """Whether this ``owner/name`` is it; case does not count on GitHub."""
        return full is not None and full.lower() == self.full.lower()


def named(repository: str, host: str) -> Place:
    """The repository that is configured. Raises ``BadInput`` for what cannot be one."""
    owner, slash, name = repository.partition("/")
    if not slash or not _OWNER.fullmatch(owner) or not _NAME.fullmatch(name):
        raise BadInput(f"`repository` in [forge.github] is {one_line(repository)!r}, not owner/name", _SET)
    return Place(checked_host(host), owner, name)


def checked_host(host: str) -> str:
    found = host.strip().lower().rstrip(".")
    if not _HOST.fullmatch(found):
        raise BadInput(
            f"`host` in [forge.github] is {one_line(host)!r}, no host's name", "Name it without scheme or path."
        )
    return _OTHER_NAMES.get(found, found)


def parse_remote(url: str, *, host: str | None = None) -> Place:
    """The repository that the URL names, on ``host`` where that is configured.

    Raises ``BadInput``, without the credentials that the URL may hold, for one that is no GitHub repository's.
    """
    split = _split(url.strip())
    if split is None:
        raise BadInput(f"the remote {one_line(redacted_output(url), 300)} names no repository on a GitHub host", _SET)
    found, path = split
    parts = [part for part in path.split("/") if part]
    if len(parts) != 2:
        raise BadInput(f"the remote {one_line(redacted_output(url), 300)} names no repository as owner/name", _SET)
    owner, name = unquote(parts[0]), unquote(parts[1]).removesuffix(".git")
    if not (_HOST.fullmatch(found) and _OWNER.fullmatch(owner) and _NAME.fullmatch(name)):
        raise BadInput(f"the remote {one_line(redacted_output(url), 300)} names no repository on a GitHub host", _SET)
    found = found.lower().rstrip(".")
    return Place(checked_host(host) if host else _OTHER_NAMES.get(found, found), owner, name)


def _split(url: str) -> tuple[str, str] | None:
    """(host, path); None for a folder on this machine."""
    if "://" in url:
        parts = urlsplit(url)
        if parts.scheme.lower() not in _SCHEMES or not parts.hostname:
            return None
        return parts.hostname, parts.path
    found = _SCP.fullmatch(url)
    return (found["host"], found["path"]) if found and len(found["host"]) > 1 else None
