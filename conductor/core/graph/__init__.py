"""A directed graph of states as data, and its drawings: mermaid, dot, and SVG without any other program."""

from __future__ import annotations

from typing import NamedTuple


class Edge(NamedTuple):
    """An arrow. ``faint``: one of many alike, drawn thin and dashed."""

    source: str
    target: str
    label: str = ""
    faint: bool = False


class Graph(NamedTuple):
    """``start``: where it begins. Nodes are drawn in this order where nothing else decides; ``ends`` end it."""

    name: str
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]
    start: str
    ends: tuple[str, ...] = ()


def merged(edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """One edge for each pair, with all labels; faint only where all of the pair are."""
    found: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        before = found.get(edge[:2])
        if before is None:
            found[edge[:2]] = edge
        else:
            labels = ", ".join(dict.fromkeys(label for label in (before.label, edge.label) if label))
            found[edge[:2]] = Edge(edge.source, edge.target, labels, before.faint and edge.faint)
    return tuple(found.values())
