"""Checks REST requests and answers against GitHub's OpenAPI description. What does not fit is told as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import jsonschema
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.github.schema import openapi

#: Any endpoint may answer these, described or not.
USUAL_FAILURES = (401, 403, 404, 410, 422)
URI = "urn:github-openapi"


def _or_null(keyword: str) -> Any:
    """OpenAPI 3.0 says `nullable` beside a type; JSON Schema knows no such word."""
    plain = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not (instance is None and schema.get("nullable")):
            yield from plain(validator, value, instance, schema) or ()

    return check


_extend: Any = jsonschema.validators.extend
_Validator: Any = _extend(
    jsonschema.Draft202012Validator,
    {word: _or_null(word) for word in ("type", "enum", "anyOf", "oneOf", "allOf", "$ref")},
)


@lru_cache(maxsize=1)
def _registry() -> Any:
    return Registry().with_resource(URI, DRAFT202012.create_resource(openapi()))


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


@lru_cache(maxsize=256)
def _validator(*pointer: str) -> Any:
    where = "/".join(map(_escaped, pointer))
    return _Validator({"$ref": f"{URI}#/{where}"}, registry=_registry())


def _complaints(what: str, value: Any, *pointer: str) -> Iterator[str]:
    for error in _validator(*pointer).iter_errors(value):
        place = "/".join(map(str, error.absolute_path))
        yield f"{what} at {place or 'its top'}: {error.message[:200]}"


def _target(value: Any) -> Any:
    while isinstance(value, dict) and "$ref" in value:
        found: Any = openapi()
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


def _typed(text: str, schema: Any) -> Any:
    """A parameter of a path or query as the value that it is written for."""
    kind = _target(schema).get("type")
    if kind == "integer" and text.lstrip("-").isdigit():
        return int(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


def check_request(
    method: str, template: str, parameters: Mapping[str, str], query: Mapping[str, str], body: Any
) -> Iterator[str]:
    """What is wrong with a request; ``parameters`` are those of the path."""
    what = f"{method} {template}"
    operation = openapi()["paths"][template][method.lower()]
    known = {}
    for place, one in enumerate(operation.get("parameters", ())):
        described = _target(one)
        known[(described["in"], described["name"])] = described
        given = (parameters if described["in"] == "path" else query).get(described["name"])
        if given is None:
            if described.get("required") and described["in"] in ("path", "query"):
                yield f"{what}: {described['name']} is missing"
            continue
        pointer = ("paths", template, method.lower(), "parameters", str(place), "schema")
        if "$ref" in one:
            pointer = (*one["$ref"].removeprefix("#/").split("/"), "schema")
        yield from _complaints(f"{what}: {described['name']}", _typed(given, described["schema"]), *pointer)
    for name in query:
        if ("query", name) not in known:
            yield f"{what}: there is no query parameter {name}"
    yield from _check_body(what, method, template, operation, body)


def _check_body(what: str, method: str, template: str, operation: Any, body: Any) -> Iterator[str]:
    described = operation.get("requestBody")
    if described is None:
        if body:
            yield f"{what}: takes no body"
        return
    if body is None:
        if described.get("required"):
            yield f"{what}: its body is missing"
        return
    pointer = ("paths", template, method.lower(), "requestBody", "content", "application/json", "schema")
    yield from _complaints(f"{what}: the body", body, *pointer)
    schema = _target(described["content"]["application/json"]["schema"])
    if isinstance(body, dict) and "properties" in schema:
        for name in sorted(set(body) - set(schema["properties"])):
            yield f"{what}: the body has no property {name}"


def check_answer(method: str, template: str, status: int, value: Any) -> Iterator[str]:
    """What is wrong with an answer; ``value`` None where the answer is not JSON."""
    what = f"{method} {template} {status}"
    responses = openapi()["paths"][template][method.lower()]["responses"]
    if str(status) not in responses:
        if status not in USUAL_FAILURES:
            yield f"{what}: no such answer is described"
        return
    response = responses[str(status)]
    pointer = ["paths", template, method.lower(), "responses", str(status)]
    if "$ref" in response:
        pointer = response["$ref"].removeprefix("#/").split("/")
    if value is not None and "application/json" in _target(response).get("content", {}):
        yield from _complaints(what, value, *pointer, "content", "application/json", "schema")


def shape_of_errors(method: str, template: str) -> str:
    """What the described 422 has under `errors`: "texts", "objects", or "nothing" where it has no body."""
    response = _target(openapi()["paths"][template][method.lower()]["responses"].get("422", {}))
    if "content" not in response:
        return "nothing"
    schema = _target(response["content"]["application/json"]["schema"])
    items = _target(schema["properties"]["errors"]["items"])
    return "texts" if items.get("type") == "string" else "objects"
