"""Faults to inject: what goes wrong, on which requests, how many times."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["answer", "hang", "slow", "truncated", "dropped_before", "dropped_after", "partial"]


@dataclass
class Fault:
    """One fault. All that is set of ``method``, ``path``, ``operation``, ``login`` and ``next_page`` must match.

    ``path`` is a regular expression for the whole path without the query; ``operation`` is the name of a GraphQL
    operation or of one of its root fields. ``next_page``: only requests that ask for a page after the first.
    ``after``: an answer or a hang comes after the request was carried out, which otherwise it is not.
    It passes over the first ``skip`` matching requests and then happens ``count`` times (-1: always).
    """

    kind: Kind
    method: str | None = None
    path: str | None = None
    operation: str | None = None
    login: str | None = None
    next_page: bool = False
    count: int = 1
    skip: int = 0
    after: bool = False
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    seconds: float = 0.0
    errors: list[dict[str, Any]] = field(default_factory=list)
    null_path: list[str | int] = field(default_factory=list)
    happened: int = 0

    def matches(self, about: Mapping[str, Any]) -> bool:
        if self.count == 0:
            return False
        fits = (
            self.method in (None, about["method"])
            and (self.path is None or re.fullmatch(self.path, about["path"]) is not None)
            and (self.operation is None or self.operation in about["operations"])
            and self.login in (None, about["login"])
            and (not self.next_page or about["next_page"])
        )
        if fits and self.skip:
            self.skip -= 1
            return False
        return fits

    def use(self) -> None:
        self.happened += 1
        if self.count > 0:
            self.count -= 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _message(text: str, **more: Any) -> str:
    return json.dumps({"message": text, "documentation_url": "https://docs.github.com/rest", **more})


def bad_credentials(**on: Any) -> Fault:
    return Fault("answer", status=401, body=_message("Bad credentials", status="401"), **on)


def rate_limited(reset_in: float = 60, **on: Any) -> Fault:
    """403: all points are used."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + reset_in))}
    text = "API rate limit exceeded for user ID 1. If you reach out to GitHub Support for help, please include it."
    return Fault("answer", status=403, headers=headers, body=_message(text), **on)


def graphql_rate_limited(reset_in: float = 60, **on: Any) -> Fault:
    """200, as the GraphQL door says it."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + reset_in))}
    body = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}]}
    return Fault("answer", path=on.pop("path", "/graphql"), headers=headers, body=json.dumps(body), **on)


def secondary_limit(retry_after: int = 1, **on: Any) -> Fault:
    text = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return Fault("answer", status=403, headers={"Retry-After": str(retry_after)}, body=_message(text), **on)


def too_many(retry_after: int = 1, **on: Any) -> Fault:
    return Fault("answer", status=429, headers={"Retry-After": str(retry_after)}, body=_message("Too many"), **on)


def bad_gateway(**on: Any) -> Fault:
    """In HTML, as a proxy says it."""
    return Fault("answer", status=502, headers={"Content-Type": "text/html"}, body="<html>Unicorn!</html>", **on)


def hang(seconds: float = 3600, **on: Any) -> Fault:
    """The request is read and nothing is done or answered for so long (or until the server ends)."""
    return Fault("hang", seconds=seconds, **on)


def slow(seconds: float, **on: Any) -> Fault:
    """Answered rightly, but only after so long."""
    return Fault("slow", seconds=seconds, **on)


def truncated(**on: Any) -> Fault:
    """Done, and half of the answer is sent before the connection ends."""
    return Fault("truncated", **on)


def dropped_before(**on: Any) -> Fault:
    """The connection ends; nothing was done."""
    return Fault("dropped_before", **on)


def dropped_after(**on: Any) -> Fault:
    """It was done, and the connection ends before the answer."""
    return Fault("dropped_after", **on)


def partial(null_path: list[str | int], message: str = "Something went wrong", **on: Any) -> Fault:
    """A GraphQL answer with an error for this path and null there; the rest is data."""
    return Fault("partial", null_path=null_path, errors=[{"message": message, "path": null_path}], **on)


def next_page_fails(**on: Any) -> Fault:
    """The first page says that there is another, and that one is a 502. Needs more than a page, see ``page_cap``."""
    return bad_gateway(next_page=True, count=on.pop("count", -1), **on)


def spoil(answer: dict[str, Any], fault: Fault) -> dict[str, Any]:
    """Put the null and the errors of a ``partial`` fault in."""
    place: Any = answer.get("data") or {}
    for step in fault.null_path[:-1]:
        place = place[step]
    place[fault.null_path[-1]] = None
    return {**answer, "errors": [*answer.get("errors", []), *fault.errors]}
