"""RESULT.json: what a worker tells the conductor (docs/contracts.md).

``parse_result`` reads bytes, not files: who reads the file also guards against links, FIFOs and half-written text.
"""

from __future__ import annotations

import json
import math
import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, WithJsonSchema, model_validator

from schemas.base import Frozen
from schemas.errors import BadInput
from schemas.finding import Finding
from schemas.text import one_line

MAX_BYTES = 1024 * 1024
MAX_CYCLE = 99
MAX_DEPTH = 64
"""Levels of objects and lists. What lies deeper could be read, but not kept."""
MAX_NUMBER = 10**12
"""Of issues and pull requests."""
_LONGEST_URL = 2048
_PR_URL = re.compile(
    r"https?://\S+?/(?:pull|pulls|merge_requests|pr)/([0-9]{1,12})(?:[/?#]\S*)?|local://\S+/pull/([0-9]{1,12})"
)


class ResultStatus(StrEnum):
    """The six values of ``status`` (review protocol, "Trigger")."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"
    REVIEW_PENDING = "review_pending"
    REVIEW_ADDRESSED = "review_addressed"
    APPROVED = "approved"


_ISSUE_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER},
        {"type": "string", "pattern": "^#?0*[1-9][0-9]*$"},
        {"type": "null"},
    ]
}
_NEEDED: list[JsonValue] = [
    {
        "if": {"properties": {"status": {"const": "success"}, "review_result": {"type": "null"}}},
        "then": {
            "anyOf": [
                {"required": ["pr_number"], "properties": {"pr_number": {"type": "integer"}}},
                {"required": ["pr_url"], "properties": {"pr_url": {"type": "string"}}},
            ]
        },
    },
    {
        "if": {"properties": {"status": {"const": "review_addressed"}}},
        "then": {"required": ["review_cycle"], "properties": {"review_cycle": {"type": "integer"}}},
    },
]


def _issue_number(value: object) -> object:
    if isinstance(value, str):
        digits = value.removeprefix("#")
        if digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_NUMBER)):
            return int(digits)
    return value


def pr_number_of(url: str) -> int | None:
    """The number in a pull request's URL, or None where it has none."""
    found = _PR_URL.fullmatch(url) if len(url) <= _LONGEST_URL else None
    return (int(found.group(1) or found.group(2)) or None) if found else None


class Result(Frozen):
    """The content of RESULT.json. Fields that are not known are kept and written back unchanged."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, json_schema_extra={"allOf": _NEEDED})

    status: Annotated[ResultStatus, Field(strict=False)]
    issue: Annotated[int | None, BeforeValidator(_issue_number), WithJsonSchema(_ISSUE_SCHEMA, mode="validation")] = (
        Field(default=None, ge=1, le=MAX_NUMBER)
    )
    pr_number: int | None = Field(default=None, ge=1, le=MAX_NUMBER)
    pr_url: str | None = None
    review_cycle: int | None = Field(default=None, ge=0, le=MAX_CYCLE)
    nonce: str | None = None
    error: str | None = None
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    summary: str | None = None
    review_result: Literal["approve", "changes_requested"] | None = None
    issues_found: int | None = Field(default=None, ge=0)
    critical_count: int | None = Field(default=None, ge=0)
    high_count: int | None = Field(default=None, ge=0)
    findings: Annotated[tuple[Finding, ...] | None, Field(strict=False)] = None

    @model_validator(mode="after")
    def _what_a_status_needs(self) -> Self:
        if self.pr_url is not None and pr_number_of(self.pr_url) is None:
            raise ValueError("pr_url: expected a pull request's http(s) URL that ends in its number")
        named = pr_number_of(self.pr_url) if self.pr_url else None
        if named is not None and self.pr_number is not None and named != self.pr_number:
            raise ValueError(f"pr_number {self.pr_number} and pr_url (number {named}) name different pull requests")
        if self.status is ResultStatus.SUCCESS and self.pr is None and self.review_result is None:
            raise ValueError('"success" needs pr_number or pr_url')
        if self.status is ResultStatus.REVIEW_ADDRESSED and self.review_cycle is None:
            raise ValueError('"review_addressed" needs review_cycle, the cycle that the fix answers')
        return self

    @property
    def pr(self) -> int | None:
        """The pull request's number, from either field."""
        return self.pr_number or (pr_number_of(self.pr_url) if self.pr_url else None)


class ResultError(BadInput):
    """RESULT.json that cannot be taken: ``place`` is a line and column or a field, ``expected`` what belongs there."""

    def __init__(self, place: str, expected: str) -> None:
        super().__init__(f"RESULT.json, {place}: {expected}", "Write the file again; docs/contracts.md has its fields.")
        self.place = place
        self.expected = expected


def parse_result(raw: bytes) -> Result:
    """The result in these bytes.

    Raises ``ResultError`` that names the line and column or the field, and what was expected there.
    """
    if len(raw) > MAX_BYTES:
        raise ResultError("whole file", f"at most {MAX_BYTES} bytes, found {len(raw)}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        column = fault.start - (raw.rfind(b"\n", 0, fault.start) + 1) + 1
        raise ResultError(f"line {line} column {column}", "expected UTF-8 text") from None
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise ResultError(f"line {fault.lineno} column {fault.colno}", f"expected JSON: {fault.msg}") from None
    except RecursionError:
        raise ResultError("whole file", "expected a flat object, found nesting too deep to read") from None
    except ValueError as fault:
        if "int_max_str_digits" in str(fault):
            raise ResultError("whole file", "a number too long to read") from None
        raise ResultError("whole file", f"expected JSON: {one_line(str(fault))}") from None
    if not isinstance(data, dict):
        raise ResultError("line 1 column 1", f"expected a JSON object, found {_kind(data)}")
    _refuse_unkeepable(data)
    try:
        return Result.model_validate(data)
    except ValidationError as fault:
        raise _explain(fault) from None


_Place = tuple["_Place", str | int] | None


def _refuse_unkeepable(data: dict[str, Any]) -> None:
    """What JSON can spell but neither the journal nor a file can keep, also in fields that are not known."""
    rest: list[tuple[Any, int, _Place]] = [(data, 1, None)]
    while rest:
        value, depth, place = rest.pop()
        kind = type(value)
        if kind is dict or kind is list:
            if depth > MAX_DEPTH:
                raise ResultError(f"field {_shown(place)}", f"at most {MAX_DEPTH} levels of objects and lists")
            if kind is dict:
                _refuse_surrogates(place, "".join(value))
            parts = value.items() if kind is dict else enumerate(value)
            rest += [(part, depth + 1, (place, name)) for name, part in parts]
        elif kind is str:
            _refuse_surrogates(place, value)
        elif kind is float and not math.isfinite(value):
            raise ResultError(f"field {_shown(place)}", "a number too large to keep")


def _shown(place: _Place) -> str:
    """The place as a reader knows it, ``findings.0.path``; only its first levels where it is deep."""
    names: list[str] = []
    while place is not None:
        place, name = place
        names.append(one_line(str(name), 60))
    return ".".join(reversed(names[-6:])) + ("..." if len(names) > 6 else "")


def _refuse_surrogates(place: _Place, text: str) -> None:
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        where = f"field {_shown(place)}" if place is not None else "whole object"
        raise ResultError(where, "expected whole characters, found half of a surrogate pair (a \\u escape)")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _kind(value: Any) -> str:
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
    }
    return names.get(type(value), "an object")


def _explain(fault: ValidationError) -> ResultError:
    first = fault.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    given = bool(place)
    message = one_line(str(first["msg"]).removeprefix("Value error, "))
    if not place and message.startswith("pr_url: "):
        place, message = "pr_url", message.removeprefix("pr_url: ")
    if first["type"] == "missing":
        message = "this field is required"
    found = (
        f", found {one_line(json.dumps(first['input'], default=str), 80)}"
        if given and first["type"] != "missing"
        else ""
    )
    return ResultError(f"field {place}" if place else "whole object", message + found)
