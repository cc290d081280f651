"""Asks GitHub, and changes things there, with retries that never do anything twice.

Reads are asked again where that may help (``stamina``). A change that was dropped on the way may have been made: before
it is tried again its trace is looked for. Whatever an answer lacks is a fault, never "nothing".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from conductor.forge.github.faults import (
    Dropped,
    Facts,
    Limited,
    Missing,
    NoAnswer,
    Transient,
    of_graphql,
    of_status,
    said_by,
)
from conductor.forge.github.gh import KEEP, Answer, Gh
from conductor.forge.github.pace import Pace
from conductor.forge.github.redact import redacted_output
from conductor.forge.github.remote import Place
from schemas.errors import Fault, NotSo, Unavailable
from schemas.text import one_line

A = TypeVar("A")
Json = Mapping[str, Any]
MOST_PAGES = 200
"""Pages of one list; more of them are a fault of ours or GitHub's, not a list."""


@dataclass(frozen=True)
class Retries:
    """How often and how long something is tried; seconds."""

    attempts: int = 4
    timeout: float = 60.0
    first_wait: float = 0.5
    longest_wait: float = 8.0


class Api:
    """One repository on one host. Safe to share between threads."""

    def __init__(
        self,
        gh: Gh,
        place: Place,
        pace: Pace,
        *,
        retries: Retries | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.place = place
        self.pace = pace
        self._gh = gh
        self._retries = retries or Retries()
        self._environment = environment

    # --- GraphQL ---

    def query(
        self,
        document: str,
        variables: Json,
        read: Callable[[Json], A],
        *,
        what: str,
        absent: bool = False,
        own: bool = True,
    ) -> A:
        """What ``read`` makes of the answer's data. ``what`` names the question in messages.

        ``absent``: a field right below ``repository`` that GitHub does not find is null in the data; otherwise that is
        ``Missing``. ``own``: the document takes ``$owner`` and ``$name``.
        """
        return self.retried(lambda: self._ask(document, variables, read, what, absent, own=own))

    def change(self, document: str, variables: Json, read: Callable[[Json], A], *, what: str) -> A:
        """One mutation, tried once. Raises ``Dropped`` where it may or may not have been made."""
        return self._ask(document, variables, read, what, False, own=False)

    def pages(
        self,
        document: str,
        variables: Json,
        connection: Callable[[Json], Json | None],
        *,
        what: str,
        absent: bool = False,
        after: str | None = None,
        own: bool = True,
    ) -> list[Any] | None:
        """All nodes of a list, over all pages; ``connection`` finds it in the data and answers None where it is not.

        The document takes ``$after``. A page without a way to the next one, though there is one, is ``Unavailable``.
        """
        found: list[Any] = []
        for _ in range(MOST_PAGES):
            page = self.query(document, {**variables, "after": after}, connection, what=what, absent=absent, own=own)
            if page is None:
                return None
            with self.shaped(what):
                found += nodes_of(page, what)
                following = next_page(page, after, what)
            if following is None:
                return found
            after = following
        raise Unavailable(f"{what} has more than {MOST_PAGES} pages", "Report this.")

    def _ask(
        self,
        document: str,
        variables: Json,
        read: Callable[[Json], A],
        what: str,
        absent: bool,
        *,
        own: bool = True,
    ) -> A:
        given = {"owner": self.place.owner, "name": self.place.name} if own else {}
        data = {"query": document, "variables": {**given, **variables}}
        answer = self._call("graphql", "graphql", "POST", what, data=data)
        value = answer.json()
        if not isinstance(value, dict):
            raise Dropped(f"GitHub's answer to {what} is no object", "Ask again.")
        errors = value.get("errors") or []
        told = value.get("data")
        if errors:
            self._judge(errors, told, answer, what, absent)
        if not isinstance(told, dict):
            raise Dropped(f"GitHub's answer to {what} has no data", "Ask again.")
        with self.shaped(what):
            return read(told)

    def _judge(self, errors: Any, told: Any, answer: Answer, what: str, absent: bool) -> None:
        """Raise what the errors mean, unless all of them are absences that the caller can read off the data."""
        listed = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
        if len(listed) != len(errors) or not listed:
            raise Dropped(f"GitHub's answer to {what} has errors that cannot be read", "Ask again.")
        if absent and isinstance(told, dict) and all(_is_absence(error, told) for error in listed):
            return
        facts = Facts(self.place.host, what, answer.status, self._clean(said_by(listed)), answer.headers)
        if any(error.get("type") == "NOT_FOUND" and error.get("path") == ["repository"] for error in listed):
            raise Missing(
                f"{self.place.host} has no repository {self.place.full}, or this login may not see it",
                "Look at the remote's URL or `repository` in [forge.github], and at `gh auth status`.",
                said=facts.said,
            )
        fault = of_graphql(listed, facts)
        self._limit(fault, "graphql", answer)
        raise fault

    @contextmanager
    def shaped(self, what: str) -> Iterator[None]:
        """Reading values off an answer: one of another shape than it should have is ``Unavailable``, no crash."""
        try:
            yield
        except Fault:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            shown = one_line(self._clean(f"{type(error).__name__}: {error}"), 300)
            raise Unavailable(
                f"GitHub's answer to {what} has another shape than it should: {shown}",
                "Ask again; where it stays, update taskmaestro.",
            ) from error

    # --- REST ---

    def get(self, path: str, *, what: str, accept: str | None = None, keep: int = KEEP, cut: bool = False) -> Answer:
        """Read something of the repository: ``path`` is below ``repos/OWNER/NAME/``."""
        return self.retried(
            lambda: self._call("core", self._path(path), "GET", what, accept=accept, keep=keep, cut=cut)
        )

    def send(self, method: str, path: str, data: Json, *, what: str) -> Answer:
        """Change something by REST, tried once. Raises ``Dropped`` where it may or may not have been made."""
        return self._call("core", self._path(path), method, what, data=data)

    def _path(self, path: str) -> str:
        return f"repos/{self.place.owner}/{self.place.name}/{path}"

    # --- both ---

    def once(self, change: Callable[[], A], look: Callable[[], A | None]) -> A:
        """Make a change once: after an attempt whose outcome is not known, ``look`` for it before the next one."""
        tried = False

        def attempt() -> A:
            nonlocal tried
            found = look() if tried else None
            if found is not None:
                return found
            try:
                return change()
            except Dropped as fault:
                tried = tried or fault.sent
                raise
            except NoAnswer:
                tried = True
                raise

        try:
            return self.retried(attempt)
        except Unavailable as fault:
            if not tried:
                raise
            raise Dropped(
                f"{fault.what}; whether it was done is not known",
                fault.hint
                if isinstance(fault, NoAnswer)
                else "Try again: it is looked for first, so nothing is done twice.",
            ) from fault

    def retried(self, ask: Callable[[], A]) -> A:
        """Ask, and again where that may help, with a growing pause in between."""
        import stamina

        # stamina tells the log of each retry; without a handler Python would print that on stderr.
        logging.getLogger("stamina").addHandler(_SILENT)
        caller = stamina.RetryingCaller(
            attempts=self._retries.attempts,
            timeout=self._retries.timeout,
            wait_initial=self._retries.first_wait,
            wait_max=self._retries.longest_wait,
            wait_jitter=self._retries.first_wait,
        )
        return caller(Transient, ask)

    def _call(
        self,
        resource: str,
        path: str,
        method: str,
        what: str,
        *,
        data: Json | None = None,
        accept: str | None = None,
        keep: int = KEEP,
        cut: bool = False,
    ) -> Answer:
        self.pace.before(resource)
        answer = self._gh.call(path, method=method, data=data, accept=accept, keep=keep, cut=cut)
        self.pace.learn(resource, answer.headers)
        if answer.status >= 300:
            facts = Facts(self.place.host, what, answer.status, self._clean(_message(answer)), answer.headers)
            fault = of_status(facts)
            if answer.status == 401:
                fault.hint += self._gh.doubt()
            self._limit(fault, resource, answer)
            raise fault
        self.pace.fine()
        return answer

    def _limit(self, fault: Fault, resource: str, answer: Answer) -> None:
        if isinstance(fault, Limited):
            self.pace.limited(resource, answer.headers)

    def _clean(self, text: str) -> str:
        return redacted_output(text, self._environment)


_SILENT = logging.NullHandler()


def nodes_of(connection: Json, what: str) -> list[Any]:
    """The nodes of one page. One that is null could not be read, which is not the same as not being there."""
    nodes = connection["nodes"]
    if not isinstance(nodes, list) or any(node is None for node in nodes):
        raise Unavailable(f"GitHub's answer to {what} lacks some of the entries", "Ask again later.")
    return nodes


def next_page(connection: Json, before: str | None, what: str) -> str | None:
    """The cursor of the next page, None after the last one."""
    info = connection["pageInfo"]
    if not info["hasNextPage"]:
        return None
    cursor = info["endCursor"]
    if not isinstance(cursor, str) or not cursor or cursor == before:
        raise Unavailable(f"GitHub says that {what} has another page, and not which", "Ask again later.")
    return cursor


def at(value: Any, *path: str) -> Any:
    """The value at a path, None where a step is null or missing."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def pull_part(field: str) -> Callable[[Json], Json | None]:
    """Finds a list of the pull request in an answer's data; None where there is no such pull request."""

    def read(data: Json) -> Json | None:
        pull = data["repository"]["pullRequest"]
        part: Json | None = None if pull is None else pull[field]
        return part

    return read


def missing_pull(number: int) -> NotSo:
    return NotSo(f"there is no pull request #{number} on GitHub", "See `taskmaestro pr list` for the open ones.")


def _is_absence(error: Json, data: Json) -> bool:
    path = error.get("path")
    if error.get("type") != "NOT_FOUND" or not isinstance(path, list) or len(path) != 2 or path[0] != "repository":
        return False
    repository = data.get("repository")
    return isinstance(repository, dict) and path[1] in repository and repository[path[1]] is None


def _message(answer: Answer) -> str:
    """GitHub's own words in an error answer, with those of each error where it lists them."""
    try:
        value = answer.json()
    except Dropped:
        return one_line(answer.text, 200)
    if not isinstance(value, dict):
        return f"HTTP {answer.status}"
    parts = [str(value.get("message") or f"HTTP {answer.status}")]
    errors = value.get("errors")
    for error in errors if isinstance(errors, list) else []:
        parts.append(str(error.get("message") or error.get("code") or "") if isinstance(error, dict) else str(error))
    return one_line("; ".join(part for part in parts if part), 400)
