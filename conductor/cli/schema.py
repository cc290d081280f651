"""``taskmaestro schema``: the JSON Schemas of the contracts, for workers and tools in any language."""

from __future__ import annotations

import json
from pathlib import Path

import click

import schemas
from conductor.cli.output import answer, read_options
from schemas.errors import BadInput
from schemas.text import one_line

_SUFFIX = ".schema.json"


@click.command(name="schema")
@click.argument("name", required=False)
@read_options
def command(*, name: str | None, as_json: bool, jq: str | None, silent: bool) -> None:
    """Print the JSON Schema of a contract.

    Without NAME the names are listed. The schemas come from the same models that read the files.

    \b
    Example: taskmaestro schema
             taskmaestro schema result > result.schema.json
    """
    folder = Path(schemas.__file__).parent / "json"
    names = sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))
    if name is None:
        answer(names, as_json=as_json, jq=jq, silent=silent, text="\n".join(names))
        return
    if name not in names:
        raise BadInput(f"there is no schema `{one_line(name, 60)}`", f"There are: {', '.join(names)}.")
    text = (folder / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    answer(json.loads(text), as_json=as_json, jq=jq, silent=silent, text=text)
