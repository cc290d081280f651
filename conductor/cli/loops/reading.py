"""Input and output of the ``loop`` verbs: one JSON document or JSON Lines in, one line of JSON out for each.

A whole document may span lines. Where it does not parse as one, and a line of it is a value by itself, the input is
JSON Lines: each line is answered as soon as it is read, a bad one with its number, and the others go on.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from conductor.cli.files import opened, read_whole, unreadable
from conductor.cli.numbers import NUMBER
from conductor.cli.output import filtered, read_options, tell_fault, to_json
from schemas.errors import BadInput, Fault
from schemas.text import clean

P = ParamSpec("P")
R = TypeVar("R")
Detect = Callable[[Any], dict[str, Any]]
Document = tuple[int | None, Any]

_BOM = b"\xef\xbb\xbf"
_LONGEST_INTEGER = 400
_TOO_LONG = 64 * 1024 * 1024
"""Bytes of one document."""


class BadLinesError(Fault):
    """Some of the lines were bad; each was told in its place."""

    exit_code = 1


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _integer(digits: str) -> int | float:
    """Python refuses to read very long integers; as a float such a one is infinite, which no field takes."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def parse(raw: bytes, what: str) -> Any:
    """The JSON value in these bytes. Raises ``BadInput`` with the place in the text."""
    if len(raw) > _TOO_LONG:
        raise BadInput(f"{what} has more than {_TOO_LONG // 1024 // 1024} MiB", "Give less at a time.")
    try:
        return _DECODER.decode(raw.removeprefix(_BOM).decode("utf-8"))
    except UnicodeDecodeError as fault:
        raise BadInput(f"{what} is not UTF-8 (byte {fault.start + 1})", "Save it as UTF-8.") from None
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno}, column {fault.colno}" if "\n" in fault.doc else f"column {fault.colno}"
        raise BadInput(f"{what} is not JSON: {fault.msg} ({place})", "Give one JSON object.") from None
    except ValueError as fault:
        raise BadInput(f"{what} is not JSON: {fault}", "Give one JSON object.") from None
    except RecursionError:
        raise BadInput(f"{what} is nested too deeply", "A snapshot is one flat object.") from None


def read_file(name: str) -> Any:
    """The one JSON value in a file."""
    raw = read_whole(name, limit=_TOO_LONG)
    what = name_of(name)
    if not raw.removeprefix(_BOM).strip():
        raise _empty(what)
    return parse(raw, what)


def name_of(source: str) -> str:
    """How messages call this input."""
    return "standard input" if source == "-" else source


def _empty(what: str) -> BadInput:
    return BadInput(f"{what} is empty", "Give one JSON object, or one a line.")


def _lines(file: Iterable[bytes], what: str) -> Iterator[bytes]:
    """The lines of the file. Raises ``BadInput`` where it opens and cannot be read all the same."""
    try:
        yield from file
    except OSError as fault:
        raise unreadable(what, fault) from None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse(line, ""), dict)
    except BadInput:
        return False


def documents(file: Iterable[bytes], what: str) -> Iterator[Document]:
    """Each value with the number of its line; None for the only value of a document that spans lines.

    A bad line comes as the ``BadInput`` that it is, so that the others go on. Raises ``BadInput`` where the whole is
    bad.
    """
    lines = iter(file)
    before: list[bytes] = []
    for line in lines:
        before.append(line)
        if line.strip(b" \t\r\n" + _BOM):
            break
    else:
        return
    if _is_object(before[-1]):
        yield from _each(before, 1, what)
        yield from _each(lines, len(before) + 1, what)
        return
    whole = [*before, *lines]
    try:
        value = parse(b"".join(whole), what)
    except BadInput:
        if sum(1 for line in whole if line.strip()) < 2 or not any(map(_is_object, whole)):
            raise
        yield from _each(whole, 1, what)
        return
    yield None, value


def _each(lines: Iterable[bytes], start: int, what: str) -> Iterator[Document]:
    for number, line in enumerate(lines, start):
        if not line.strip(b" \t\r\n" + _BOM):
            continue
        try:
            yield number, parse(line.rstrip(b"\r\n"), f"{what}:{number}")
        except BadInput as fault:
            yield number, fault


def loop_options(verb: Callable[P, R]) -> Callable[P, R]:
    """The options of every read verb; faults are told as JSON always."""

    @functools.wraps(verb)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except Fault as fault:
            tell_fault(fault, as_json=True)

    return read_options(told)


def input_options(verb: Callable[P, R]) -> Callable[P, R]:
    """``--input``, which must be given, and ``loop_options``."""
    return _input(required=True)(loop_options(verb))


def input_or_live_options(verb: Callable[P, R]) -> Callable[P, R]:
    """``--input``, or ``--repo`` and ``--pr`` for a live pull request, and ``loop_options``."""
    return _input(required=False)(target_options(required=False)(loop_options(verb)))


def _input(*, required: bool) -> Callable[[Callable[P, R]], Callable[P, R]]:
    text = "JSON, or one JSON object a line; - is standard input."
    return click.option("--input", "source", metavar="FILE", required=required, help=text)


def target_options(*, required: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """``--repo`` and ``--pr``."""

    def add(verb: Callable[P, R]) -> Callable[P, R]:
        number = click.option("--pr", "number", type=NUMBER, required=required, help="The pull request's number.")
        repo = click.option("--repo", metavar="OWNER/NAME", help="The repository; default: the one of this folder.")
        return repo(number(verb))

    return add


def one_way(source: str | None, number: int | None, *only_live: object) -> None:
    """Raises ``BadInput`` unless exactly one of ``--input`` and ``--pr`` was given, the latter's options with it."""
    if (source is None) == (number is None):
        raise BadInput("what is it about?", "Give either --input FILE or --pr N.")
    if source is not None and any(value is not None for value in only_live):
        raise BadInput("--input is a whole snapshot: the options of --pr do not go with it", "Leave them out.")


def answer_each(source: str, detect: Detect, *, jq: str | None, silent: bool) -> None:
    """Answer every value of the input, one line each.

    Raises ``BadInput`` where the input is one bad value, and ``BadLinesError`` at the end where some lines were bad.
    """
    what = name_of(source)
    bad, number_of_values = 0, 0
    with opened(source) as file:
        values = documents(_lines(file, what), what)
        while (item := next(values, None)) is not None:
            number, value = item
            number_of_values += 1
            try:
                if isinstance(value, BadInput):
                    raise value
                answer, filtering = detect(value), jq
            except BadInput as fault:
                if number_of_values == 1:
                    following = next(values, None)
                    if following is None:
                        raise
                    values = chain([following], values)
                bad += 1
                answer, filtering = {"ok": False, "line": number, "error": clean(str(fault))}, None
            _say(answer, jq=filtering, silent=silent)
    if number_of_values == 0:
        raise _empty(what)
    if bad:
        raise BadLinesError(f"{bad} of the lines of {what} could not be taken", "Each is told in its place.")


def _say(answer: dict[str, Any], *, jq: str | None, silent: bool) -> None:
    """One answer, at once: who feeds lines through a pipe may wait for it. A bad line is told past the filter."""
    shown = [to_json(answer)] if jq is None else filtered(answer, jq)
    if not silent and shown:
        sys.stdout.write(f"{clean(chr(10).join(shown))}\n")
        sys.stdout.flush()
