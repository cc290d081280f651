"""How a field of a loop's JSON object is read, and what it is: the one table behind reading, writing and the schema.

Reading never fails: an unknown or invalid value falls back to the field's default (docs/loops.md, "Normal form").
Only an input that is not an object is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from schemas.errors import BadInput

_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


class Field(NamedTuple):
    """One field: its JSON name, how a value of any JSON shape becomes one of the field, and its JSON Schema."""

    name: str
    read: Callable[[Any], Any]
    schema: dict[str, Any]


def kind_of(value: object) -> str:
    """The JSON kind of a value, for messages: ``a list``, ``null``."""
    return _KINDS.get(type(value), "null")


def as_object(value: object, what: str) -> Mapping[str, Any]:
    """The value, where it is a JSON object. Raises ``BadInput`` that names ``what`` otherwise."""
    if isinstance(value, dict):
        return value
    raise BadInput(f"{what} must be a JSON object, not {kind_of(value)}", f"Give one {what} as {{...}}.")


def as_list(value: object, what: str) -> list[Any]:
    """The value, where it is a JSON list. Raises ``BadInput`` that names ``what`` otherwise."""
    if isinstance(value, list):
        return value
    raise BadInput(f"{what} must be a JSON list, not {kind_of(value)}", "Give [] where there is nothing.")


def is_number(value: object) -> bool:
    """A JSON number that is finite; true and false are none."""
    kind = type(value)
    return kind is int or (kind is float and isfinite(value))  # type: ignore[arg-type]


def positive_or_none(value: Any) -> int | None:
    """Floored, where that leaves at least 1; else None."""
    return int(value) if is_number(value) and value >= 1 else None


def whole_positive_or_none(value: Any) -> int | None:
    """As it is, where it is a whole number of at least 1; an identity is not rounded."""
    return int(value) if is_number(value) and value >= 1 and value == int(value) else None


def count_or_none(value: Any) -> int | None:
    """Floored, where it is at least 0; else None."""
    return int(value) if is_number(value) and value >= 0 else None


def text_or_none(value: Any) -> str | None:
    """Trimmed, where something is left; else None."""
    return (value.strip() or None) if isinstance(value, str) else None


def _is_true(value: Any) -> bool:
    return value is True


def _count(value: Any) -> int:
    return count_or_none(value) or 0


def _true_false_or_none(value: Any) -> bool | None:
    return value if value is True or value is False else None


def flag(name: str, doc: str) -> Field:
    """True where the value is true; false for everything else."""
    return Field(name, _is_true, {"type": "boolean", "default": False, "description": doc})


def known_flag(name: str, doc: str) -> Field:
    """True, false, or null where it is not known."""
    return Field(name, _true_false_or_none, {"type": ["boolean", "null"], "default": None, "description": doc})


def positive(name: str, doc: str) -> Field:
    """A whole number of at least 1, floored; else null."""
    schema = {"type": ["integer", "null"], "minimum": 1, "default": None, "description": doc}
    return Field(name, positive_or_none, schema)


def count(name: str, doc: str, default: int = 0) -> Field:
    """A whole number of at least 0, floored; else the default."""

    def read(value: Any) -> int:
        found = count_or_none(value)
        return default if found is None else found

    schema = {"type": "integer", "minimum": 0, "default": default, "description": doc}
    return Field(name, read if default else _count, schema)


def text(name: str, doc: str) -> Field:
    """A trimmed string; else null."""
    schema = {"type": ["string", "null"], "minLength": 1, "default": None, "description": doc}
    return Field(name, text_or_none, schema)


def one_of(name: str, doc: str, values: Iterable[str], default: str | None) -> Field:
    """Exactly one of the words, which are compared as they are; else the default."""
    words = {str(word): str(word) for word in values}

    def read(value: Any) -> str | None:
        return words.get(value, default) if isinstance(value, str) else default

    allowed: list[str | None] = [*words] if default is not None else [*words, None]
    return Field(name, read, {"enum": allowed, "default": default, "description": doc})


def read_all(fields: Iterable[Field], raw: Mapping[str, Any]) -> list[Any]:
    """The values of the fields, in their order; fields that are not known are left out."""
    get = raw.get
    return [field.read(get(field.name)) for field in fields]


def to_object(fields: Iterable[Field], values: Iterable[Any]) -> dict[str, Any]:
    """The JSON object of these values."""
    return {field.name: value for field, value in zip(fields, values, strict=True)}


def object_schema(title: str, doc: str, fields: Iterable[Field]) -> dict[str, Any]:
    """The JSON Schema of the normal form: what is written. A reader takes any object."""
    properties = {field.name: field.schema for field in fields}
    return {
        "title": title,
        "description": doc,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
