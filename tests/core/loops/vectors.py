"""The worked examples of tests/vectors, as parametrised cases."""

from __future__ import annotations

import json
from typing import Any

from tests.support.tree import ROOT


def vectors(name: str) -> list[Any]:
    """All cases of one file."""
    cases = json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(cases, list)
    assert cases
    return cases
