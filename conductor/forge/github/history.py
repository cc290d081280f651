"""The heads that a pull request had, from what GitHub still tells of them. Pure.

GitHub keeps forced pushes as events, and the commits that the request has now. It does not tell which commits came in
one push: a commit below the head is therefore listed as a head too, unless a forced push brought it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from conductor.forge.github.pace import moment
from schemas.forge import Push


def heads_of(nodes: Iterable[Mapping[str, Any]], head: str, now: datetime) -> list[Push]:
    """The pushes oldest first; the last one is ``head``, first seen at ``now`` where GitHub does not tell it yet."""
    nodes = list(nodes)
    commits = [node["commit"] for node in nodes if node["__typename"] == "PullRequestCommit"]
    forced = [node for node in nodes if node["__typename"] == "HeadRefForcePushedEvent"]
    seen: list[tuple[datetime, int, str]] = []
    brought = {}
    for event in forced:
        at = moment(event["createdAt"])
        before, after = event["beforeCommit"], event["afterCommit"]
        if before is not None:
            seen.append((min(moment(before["committedDate"]), at), 0, before["oid"]))
        if after is not None:
            seen.append((at, 1, after["oid"]))
            brought[after["oid"]] = (at, moment(before["committedDate"]) if before is not None else None)
    known = {sha for _, _, sha in seen}
    for place, commit in enumerate(commits):
        above = next((brought[later["oid"]] for later in commits[place + 1 :] if later["oid"] in brought), None)
        at = moment(commit["committedDate"])
        # Below what a forced push brought, only what is older than the commit that it replaced was there before.
        if above is not None and (above[1] is None or at >= above[1]):
            continue
        if commit["oid"] not in known:
            seen.append((at, 2 + place, commit["oid"]))
    # A later item of one second keeps its place; what was a head twice is listed where it came first.
    ordered: dict[str, datetime] = {}
    latest: datetime | None = None
    for at, _, sha in sorted(seen, key=lambda one: one[0]):
        latest = at if latest is None else max(latest, at)
        ordered.setdefault(sha, latest)
    last = ordered.pop(head, None)
    pushes = [Push(head=sha, at=at) for sha, at in ordered.items()]
    at = last or now
    return [*pushes, Push(head=head, at=max(at, pushes[-1].at) if pushes else at)]
