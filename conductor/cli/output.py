"""How verbs answer: the answer alone on stdout, everything else on stderr, faults with their exit codes.

See docs/contracts.md, "Command line". Every text passes ``schemas.text.clean`` before a terminal sees it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from schemas.errors import BadInput, Fault
from schemas.text import clean, one_line

P = ParamSpec("P")
R = TypeVar("R")

# JSON escapes C0 by itself. These would reach a terminal as they are: DEL, C1 and direction overrides.
_UNSAFE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def read_options(verb: Callable[P, R]) -> Callable[P, R]:
    """The options of every read verb: ``--json``, ``--jq FILTER``, ``--silent``."""
    for option in (
        click.option("--silent", is_flag=True, help="Print no answer; the exit code tells."),
        click.option("--jq", metavar="FILTER", help="Print what this jq filter makes of the JSON."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ):
        verb = option(verb)
    return verb


def answer(
    value: Any,
    *,
    as_json: bool = False,
    jq: str | None = None,
    silent: bool = False,
    text: str | Callable[[], str],
) -> None:
    """Print the answer of a verb on stdout.

    ``value``: JSON-able, for ``as_json`` and ``jq``; ``text``: the same for people, made only when it is
    shown. Raises ``BadInput`` for a filter that jq refuses. ``silent`` wins over all.
    """
    shown = ""
    if jq is not None:
        shown = "\n".join(filtered(value, jq))
    elif as_json:
        shown = to_json(value)
    elif not silent:
        shown = text if isinstance(text, str) else text()
    if not silent and shown:
        click.echo(clean(shown).rstrip("\n"))


def to_json(value: Any) -> str:
    """JSON on one line, with every character escaped that a terminal could take for a command."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", _ENCODER.encode(value))


def filtered(value: Any, program: str) -> list[str]:
    """What a jq filter makes of the value: strings as they are, everything else as JSON."""
    try:
        results = _compiled(program).input_value(value).all()
    except ValueError as error:
        raise BadInput(f"--jq {one_line(program)!r}: {one_line(str(error))}", "See the manual of jq.") from error
    return [result if isinstance(result, str) else to_json(result) for result in results]


@functools.lru_cache(maxsize=1)
def _compiled(program: str) -> Any:
    """The filter, compiled once however many lines it is put to."""
    import jq  # type: ignore[import-not-found]  # a compiled module without stubs

    return jq.compile(program)


def note(text: str) -> None:
    """Say something beside the answer, on stderr; where that takes nothing, the exit code still tells."""
    with contextlib.suppress(OSError):
        click.echo(clean(text), err=True)


def tell_fault(fault: Fault, *, as_json: bool) -> NoReturn:
    """Report a fault on stderr (``{"ok": false, "error": ...}`` with ``--json``) and end as it says."""
    if as_json:
        note(to_json({"ok": False, "error": clean(str(fault))}))
    else:
        note(f"taskmaestro: {fault}")
    raise click.exceptions.Exit(fault.exit_code)


def telling_faults(verb: Callable[P, R]) -> Callable[P, R]:
    """Wraps a verb: a ``Fault`` that it raises is told and becomes the exit code."""

    @functools.wraps(verb)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except Fault as fault:
            tell_fault(fault, as_json=bool(kwargs.get("as_json") or kwargs.get("jq")))

    return told
