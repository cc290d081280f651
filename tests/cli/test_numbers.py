"""No option takes a number that is none, or has no end."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from conductor.cli.main import cli
from conductor.cli.numbers import FiniteRange


def floats(group: click.Command, name: str = "") -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every verb that takes a float."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for verb in group.list_commands(context):
            found = group.get_command(context, verb)
            assert found is not None
            yield from floats(found, f"{name} {verb}".strip())
        return
    for parameter in group.params:
        if isinstance(parameter.type, click.types.FloatParamType):
            yield f"{name} {parameter.opts[0]}", parameter


FLOATS = dict(floats(cli))


def test_the_options_are_found() -> None:
    assert {"loop watch --budget", "loop watch-ci --interval", "ship --cost"} <= set(FLOATS)


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "Infinity", "1e400"])
@pytest.mark.parametrize("name", FLOATS)
def test_an_option_takes_only_numbers_that_are_reached(name: str, word: str) -> None:
    assert isinstance(FLOATS[name].type, FiniteRange)
    with pytest.raises(click.BadParameter):
        FLOATS[name].type.convert(word, FLOATS[name], None)
