"""Numbers on the command line."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

NUMBER = click.IntRange(1, 10**9)
"""Of an issue or a pull request: no forge has more, and the database of the embedded one takes no longer number."""


class FiniteRange(click.FloatRange):
    """A range of numbers that neither ``nan``, which every comparison lets pass, nor ``inf`` is in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is no number that could be reached.", param, ctx)
        return number
