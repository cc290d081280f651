"""The REST door: finds the endpoint, checks request and answer against GitHub's description, pages lists.

An endpoint is registered under its template in the description. A path that is not modelled is 501 and recorded.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.github import openapi
from tests.github.model import PullRequest, Repository, User, World
from tests.github.rest_check_shapes import AllShapes
from tests.github.rules import Refused
from tests.github.web import Answer, Request

if TYPE_CHECKING:
    from tests.github.server import Server

Endpoint = Callable[["Asked"], Answer]
ENDPOINTS: dict[tuple[str, str], Endpoint] = {}
#: Importing them fills the table.
TABLES = ("tests.github.rest_general", "tests.github.rest_pulls")
STATUS_OF = {"NOT_FOUND": 404, "FORBIDDEN": 403}
DEFAULT_PAGE, LARGEST_PAGE = 30, 100


@dataclass(frozen=True)
class Asked:
    """One request, with what endpoints need to answer it."""

    server: Server
    viewer: User
    request: Request
    parameters: dict[str, str]

    @property
    def world(self) -> World:
        return self.server.world

    @property
    def shapes(self) -> AllShapes:
        return AllShapes(self.world.host)

    @property
    def body(self) -> dict[str, Any]:
        return self.request.json or {}

    @property
    def repository(self) -> Repository:
        found = self.world.repository(f"{self.parameters['owner']}/{self.parameters['repo']}")
        if found is None:
            raise missing()
        return found

    @property
    def pull(self) -> PullRequest:
        found = self.repository.numbered.get(int(self.parameters["pull_number"]))
        if not isinstance(found, PullRequest):
            raise missing()
        return found

    def user(self, login: str) -> User:
        found = self.world.users.get(login.lower())
        if found is None:
            raise missing()
        return found

    def taking(self, *names: str) -> dict[str, Any]:
        """The body; a property of it that is not among these is not modelled."""
        for name in self.body:
            if name not in names:
                raise NotModelledError(f"the body's {name}")
        return self.body

    def queried(self, *names: str) -> dict[str, str]:
        for name in self.request.query:
            if name not in (*names, "per_page", "page"):
                raise NotModelledError(f"the query's {name}")
        return self.request.query


class NotModelledError(Exception):
    """A part of a modelled endpoint that is not."""


def missing() -> Refused:
    return Refused("Not Found", "NOT_FOUND")


def endpoint(method: str, template: str) -> Callable[[Endpoint], Endpoint]:
    def register(function: Endpoint) -> Endpoint:
        ENDPOINTS[(method, template)] = function
        return function

    return register


def _find(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    # Of the templates that fit, the one with the most words of its own: a ref may be anything.
    for known, template in sorted(ENDPOINTS, key=lambda one: -len(re.sub(r"\{\w+\}", "", one[1]))):
        # A ref may have slashes.
        pattern = re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{'.+' if m[1] == 'ref' else '[^/]+'})", template)
        if known == method and (match := re.fullmatch(pattern, path)):
            return template, match.groupdict()
    return None


def _unmodelled(server: Server, what: str) -> Answer:
    server.unmodelled.append(what)
    return Answer.of_json(501, {"message": f"the stand-in does not model {what}"})


def answer(server: Server, viewer: User, request: Request) -> Answer:
    for table in TABLES:
        importlib.import_module(table)
    what = f"{request.method} {request.path}"
    found = _find(request.method, request.path)
    if found is None:
        return _unmodelled(server, what)
    template, parameters = found
    try:
        body = request.json
    except ValueError:
        return Answer.of_json(400, {"message": "Problems parsing JSON"})
    broken = list(openapi.check_request(request.method, template, parameters, request.query, body))
    server.violations += broken
    if broken:
        return Answer.of_json(422, {"message": "Invalid request.", "errors": broken})
    try:
        told = ENDPOINTS[(request.method, template)](Asked(server, viewer, request, parameters))
    except Refused as refused:
        told = refusal(refused, request.method, template)
    except NotModelledError as error:
        return _unmodelled(server, f"{what}: {error}")
    is_json = "json" in told.headers.get("Content-Type", "application/json")
    value = json.loads(told.body) if told.body and is_json else None
    server.violations += openapi.check_answer(request.method, template, told.status, value)
    return told


#: Whose error it is, by the end of the template.
RESOURCES = {
    "/pulls/{pull_number}/comments": "PullRequestReviewComment",
    "/replies": "PullRequestReviewComment",
    "/issues/{issue_number}/comments": "IssueComment",
    "/issues": "Issue",
    "/issues/{issue_number}": "Issue",
}


def refusal(refused: Refused, method: str, template: str) -> Answer:
    """In the shape that this endpoint's description gives its errors."""
    status = STATUS_OF.get(refused.kind, 422)
    told: dict[str, Any] = {"message": refused.message, "status": str(status)}
    told["documentation_url"] = "https://docs.github.com/rest"
    shape = openapi.shape_of_errors(method, template) if status == 422 else "nothing"
    if shape == "texts":
        told |= {"message": "Unprocessable Entity", "errors": [refused.message]}
    elif shape == "objects":
        resource = next((name for end, name in RESOURCES.items() if template.endswith(end)), "PullRequest")
        off = refused.field.endswith("line")
        message = f"{refused.field} must be part of the diff" if off else refused.message
        field = {"field": refused.field} if refused.field else {}
        error = {"resource": resource, "code": "custom", "message": message, **field}
        told |= {"message": "Validation Failed", "errors": [error]}
    return Answer.of_json(status, told)


def page(asked: Asked, items: Sequence[Any], shape: Callable[[Any], Any], key: str | None = None) -> Answer:
    """One page of a list with its Link header; under ``key`` where the list has its count beside it."""
    query = asked.request.query
    size = min(int(query.get("per_page", DEFAULT_PAGE)), LARGEST_PAGE, asked.server.page_cap)
    number = int(query.get("page", 1))
    last = max(1, -(-len(items) // size))
    shown = [shape(one) for one in items[(number - 1) * size : number * size]]
    base = f"{asked.shapes.api}{asked.request.path}"

    def link(to: int, relation: str) -> str:
        words = {**query, "page": str(to)}
        return f'<{base}?{"&".join(f"{name}={value}" for name, value in words.items())}>; rel="{relation}"'

    links = [link(number - 1, "prev"), link(1, "first")] if number > 1 else []
    links += [link(number + 1, "next"), link(last, "last")] if number < last else []
    headers = {"Link": ", ".join(links)} if links else {}
    value = shown if key is None else {"total_count": len(items), key: shown}
    return Answer(200, json.dumps(value).encode(), headers)
