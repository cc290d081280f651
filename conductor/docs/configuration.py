"""docs/configuration.md: every key of ``.taskmaestro/config.toml``, from ``schemas.config.Config``."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from schemas.config import Argv, Config

_HEAD = """\
# Configuration

Generated from `schemas/config.py` by `scripts/docs`.

`.taskmaestro/config.toml` is optional: every key has a default that works, and `taskmaestro init` writes one with what
it found. A key that is not known is an error that names the line. Times are in seconds. A command is a list of
arguments (`["ruff", "check"]`) or one line that is split as a shell would (`"ruff check"`); no shell runs it. Teams
that want shared settings check the file in.

`taskmaestro schema config` prints the same as a JSON Schema; `taskmaestro doctor` says whether the file is valid.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for heading, model in tables(Config, ""):
        title = f"## `[{heading}]`" if heading else "## Top of the file"
        parts += [f"{title}\n", _table(model), ""]
    return "\n".join(parts).rstrip() + "\n"


def tables(model: type[BaseModel], heading: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Each TOML table with its model, outer ones first."""
    yield heading, model
    for name, field in model.model_fields.items():
        below = _model_of(field)
        if below is not None:
            path = f"{heading}.{name}" if heading else name
            yield from tables(below, f"{path}.NAME" if _is_dict(field) else path)


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    annotation: Any = field.annotation
    if _is_dict(field):
        annotation = get_args(annotation)[1]
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _is_dict(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is dict


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | type | default | what it is |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if _model_of(field) is not None:
            continue
        if not field.description:
            raise ValueError(f"{model.__name__}.{name} has no description")
        words = type_words(field.annotation, field.metadata)
        lines.append(f"| `{name}` | {words} | {_default(field)} | {field.description} |")
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ({}, ()):
        return "-"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def type_words(annotation: Any, metadata: list[Any]) -> str:
    """The type for people: ``whole number, 1 to 9``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation == Argv or origin is Annotated:
        return "command"
    if origin in (Union, types.UnionType):
        return type_words(next(one for one in inner if one is not type(None)), metadata)
    if origin is Literal:
        return " or ".join(f'`"{one}"`' for one in inner)
    if origin is dict:
        return f"table: name = {type_words(inner[1], [])}"
    if origin is tuple:
        return f"list of {type_words(inner[0], [])}s"
    names = {str: "text", bool: "true or false", int: "whole number", float: "number"}
    return names[annotation] + _bounds(metadata)


def _bounds(metadata: list[Any]) -> str:
    low = next((one.ge for one in metadata if hasattr(one, "ge")), None)
    high = next((one.le for one in metadata if hasattr(one, "le")), None)
    above = next((one.gt for one in metadata if hasattr(one, "gt")), None)
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", at least {low:g}"
    return f", above {above:g}" if above is not None else ""
