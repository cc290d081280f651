"""Places for the parts of a graph, layer by layer from the start downwards, so that nothing lies on anything else.

Edges against the direction are turned round for the layout. Each edge passes through points of its own between the
layers, and its label is such a point, with the room that the text needs. Deterministic.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from conductor.core.graph import Edge, Graph, merged

LETTER = 7.3
LINE = 14.0
_PADDING = 22.0
_GAP = 18.0
_LAYER_GAP = 26.0
_LABEL_WIDTH = 26
_SWEEPS = 24


@dataclass
class Spot:
    """A node, a label or a bend: its middle (``x``, ``y``) and size in pixels, its layer and its lines of text.

    ``band`` is the height of the layer: edges cross it straight down, so that they touch no neighbour.
    """

    layer: int
    width: float
    height: float
    lines: tuple[str, ...] = ()
    name: str | None = None
    x: float = 0.0
    y: float = 0.0
    band: float = 0.0
    near: list[Spot] = field(default_factory=list, repr=False)


@dataclass
class Path:
    """An edge: the spots that it passes, from its source to its target; ``label`` is one of them."""

    edge: Edge
    spots: list[Spot]
    label: Spot | None


@dataclass
class Layout:
    """All places; ``width`` and ``height`` in pixels. ``loops``: edges from a node to itself."""

    nodes: dict[str, Spot]
    paths: list[Path]
    loops: list[Edge]
    width: float
    height: float


def lay_out(graph: Graph) -> Layout:
    """Places for every node and edge of the graph."""
    edges = merged(graph.edges)
    loops = [edge for edge in edges if edge.source == edge.target]
    plain = [edge for edge in edges if edge.source != edge.target]
    forward = _forward(graph, plain)
    ranks = _ranks(graph.nodes, forward)
    nodes = {
        name: Spot(ranks[name] * 2, len(name) * LETTER + _PADDING, LINE + 16, (name,), name) for name in graph.nodes
    }
    paths = [_path(edge, nodes, turned=(edge.source, edge.target) not in forward) for edge in plain]
    layers = _layers([*nodes.values(), *(spot for path in paths for spot in path.spots if spot.name is None)])
    _order(layers)
    width, height = _place(layers)
    return Layout(nodes, paths, loops, width, height)


def _forward(graph: Graph, edges: list[Edge]) -> set[tuple[str, str]]:
    """Each pair in the direction in which it is laid out: against the way from the start, it is turned round."""
    following: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for edge in sorted(edges, key=lambda one: one.faint):
        following[edge.source].append(edge.target)
    seen: set[str] = set()
    open_nodes: set[str] = set()
    pairs: set[tuple[str, str]] = set()

    def visit(name: str) -> None:
        seen.add(name)
        open_nodes.add(name)
        for target in following[name]:
            pairs.add((target, name) if target in open_nodes else (name, target))
            if target not in seen:
                visit(target)
        open_nodes.remove(name)

    for name in (graph.start, *graph.nodes):
        if name not in seen:
            visit(name)
    return pairs


def _ranks(names: Iterable[str], pairs: set[tuple[str, str]]) -> dict[str, int]:
    """The longest way from above to each node; the pairs have no circle."""
    above: dict[str, list[str]] = {name: [] for name in names}
    for source, target in sorted(pairs):
        above[target].append(source)
    ranks: dict[str, int] = {}

    def rank(name: str) -> int:
        if name not in ranks:
            ranks[name] = max((rank(source) + 1 for source in above[name]), default=0)
        return ranks[name]

    for name in above:
        rank(name)
    return ranks


def _path(edge: Edge, nodes: dict[str, Spot], *, turned: bool) -> Path:
    source, target = nodes[edge.source], nodes[edge.target]
    top, bottom = (target, source) if turned else (source, target)
    lines = tuple(textwrap.wrap(edge.label, _LABEL_WIDTH)) if edge.label and not edge.faint else ()
    spots, label = [top], None
    middle = (top.layer + bottom.layer) // 2 | 1
    for layer in range(top.layer + 1, bottom.layer):
        spot = Spot(layer, 8.0, 0.0)
        if lines and layer == middle:
            spot = label = Spot(layer, max(map(len, lines)) * LETTER * 0.86 + 8, len(lines) * LINE, lines)
        spots.append(spot)
    spots.append(bottom)
    for one, other in itertools.pairwise(spots):
        one.near.append(other)
        other.near.append(one)
    return Path(edge, spots[::-1] if turned else spots, label)


def _layers(spots: list[Spot]) -> list[list[Spot]]:
    layers: list[list[Spot]] = [[] for _ in range(max(spot.layer for spot in spots) + 1)]
    for spot in spots:
        layers[spot.layer].append(spot)
    return layers


def _order(layers: list[list[Spot]]) -> None:
    """Sort each layer by the middle of its neighbours, down and up in turn; the best order seen stays."""
    position = {id(spot): float(index) for layer in layers for index, spot in enumerate(layer)}

    def middle(spot: Spot, side: int) -> float:
        near = [position[id(other)] for other in spot.near if other.layer == spot.layer + side]
        return sum(near) / len(near) if near else position[id(spot)]

    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        side = -1 if sweep % 2 == 0 else 1
        for layer in layers if side == -1 else layers[::-1]:
            wanted = {id(spot): middle(spot, side) for spot in layer}
            layer.sort(key=lambda spot, wanted=wanted: wanted[id(spot)])  # type: ignore[misc]
            for index, spot in enumerate(layer):
                position[id(spot)] = float(index)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _crossings(layers: list[list[Spot]]) -> int:
    count = 0
    for upper, lower in itertools.pairwise(layers):
        place = {id(spot): index for index, spot in enumerate(lower)}
        ends = [
            sorted(place[id(other)] for other in spot.near if id(other) in place and other.layer == spot.layer + 1)
            for spot in upper
        ]
        flat = [end for group in ends for end in group]
        count += sum(1 for at, end in enumerate(flat) for later in flat[at + 1 :] if later < end)
    return count


def _place(layers: list[list[Spot]]) -> tuple[float, float]:
    y = 30.0
    for layer in layers:
        tallest = max((spot.height for spot in layer), default=0.0)
        x = 0.0
        for spot in layer:
            spot.y = y + tallest / 2
            spot.band = tallest
            spot.x = x + spot.width / 2
            x += spot.width + _GAP
        y += tallest + _LAYER_GAP
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = [sum(other.x for other in spot.near) / len(spot.near) if spot.near else spot.x for spot in layer]
            for spot, x in zip(layer, _apart(layer, wanted), strict=True):
                spot.x = x
    left = min(spot.x - spot.width / 2 for layer in layers for spot in layer) - 30
    for layer in layers:
        for spot in layer:
            spot.x -= left
    return max(spot.x + spot.width / 2 for layer in layers for spot in layer) + 30, y + 30


def _apart(layer: list[Spot], wanted: list[float]) -> list[float]:
    """Places as near to the wanted ones as can be, in this order and without overlap (pooled where they collide)."""
    offsets, at = [], 0.0
    for index, spot in enumerate(layer):
        if index:
            at += layer[index - 1].width / 2 + _GAP + spot.width / 2
        offsets.append(at)
    pools: list[tuple[float, int]] = []
    for offset, x in zip(offsets, wanted, strict=True):
        pools.append((x - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, many), (other, more) = pools[-2:]
            pools[-2:] = [((one * many + other * more) / (many + more), many + more)]
    bases = [base for base, many in pools for _ in range(many)]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]
