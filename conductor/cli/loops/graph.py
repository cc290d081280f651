"""``taskmaestro loop graph``: the state graphs, drawn from the tables that decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from conductor.cli.output import answer, read_options, telling_faults
from conductor.core.graph import Edge, Graph

CYCLE_FILE = Path(__file__).with_name("cycle.json")
"""The moves of the review cycle. Finding them means trying every event in every state, so scripts/docs does it."""


def cycle() -> Graph:
    """The review cycle of a pane."""
    value = json.loads(CYCLE_FILE.read_text(encoding="utf-8"))
    edges = tuple(Edge(**edge) for edge in value["edges"])
    return Graph("cycle", tuple(value["nodes"]), edges, value["start"], tuple(value["ends"]))


def graph_of(name: str) -> Graph:
    """The graph of this name: reviewer, follow-up, outer or cycle."""
    if name == "cycle":
        return cycle()
    from conductor.core.loops import graphs

    return {"reviewer": graphs.reviewer, "follow-up": graphs.follow_up, "outer": graphs.outer}[name]()


def draw(graph: Graph, form: str) -> str:
    """The graph as mermaid, dot or svg."""
    if form == "svg":
        from conductor.core.graph.svg import svg

        return svg(graph)
    from conductor.core.graph import text

    return text.dot(graph) if form == "dot" else text.mermaid(graph)


@click.command()
@click.argument("name", type=click.Choice(["reviewer", "follow-up", "outer", "cycle"]))
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "dot", "svg"]),
    default="mermaid",
    show_default=True,
    help="How it is drawn.",
)
@read_options
@telling_faults
def graph(*, name: str, form: str, as_json: bool, jq: str | None, silent: bool) -> None:
    """Draw the states of a loop and the ways between them.

    cycle is the review cycle of a pane. With --json the graph comes as data.

    \b
    Example: taskmaestro loop graph reviewer --format svg > reviewer.svg
    """
    chosen = graph_of(name)
    value: dict[str, Any] = {**chosen._asdict(), "edges": [edge._asdict() for edge in chosen.edges]}
    answer(value, as_json=as_json, jq=jq, silent=silent, text=lambda: draw(chosen, form))
