"""A graph as SVG, drawn without any other program; light and dark backgrounds both show it."""

from __future__ import annotations

import itertools
from html import escape

from conductor.core.graph import Edge, Graph
from conductor.core.graph.layout import LINE, Path, Spot, lay_out

_STYLE = (
    "text{font:12px ui-monospace,monospace;text-anchor:middle;fill:#1f2328}"
    ".label{font-size:10.5px;fill:#57606a}"
    ".node{fill:#f6f8fa;stroke:#57606a}.start{stroke:#0969da;stroke-width:2}.end{stroke:#cf222e;stroke-width:2}"
    ".edge{fill:none;stroke:#57606a}.faint{stroke:#afb8c1;stroke-dasharray:4 3}"
    ".back{fill:#fff}"
)


def svg(graph: Graph) -> str:
    """The drawing as the text of an SVG file."""
    layout = lay_out(graph)
    width, height = round(layout.width), round(layout.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(graph.name)}">',
        f"<title>{escape(graph.name)}</title><style>{_STYLE}</style>",
        "<defs>"
        + "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
            for name, colour in (("arrow", "#57606a"), ("faint", "#afb8c1"))
        )
        + "</defs>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]
    paths = sorted(layout.paths, key=lambda path: not path.edge.faint)
    parts += [_edge(path) for path in paths]
    parts += [_loop(edge, layout.nodes[edge.source]) for edge in layout.loops]
    parts += [_label(path.label) for path in paths if path.label is not None]
    parts += [_node(spot, graph) for spot in layout.nodes.values()]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _edge(path: Path) -> str:
    points = _points(path)
    (x, y), steps = points[0], []
    for (one_x, one_y), (x2, y2) in itertools.pairwise(points):
        bend = (y2 - one_y) / 2
        steps.append(f"C{one_x:.1f} {one_y + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}")
    return _drawn(path.edge, f"M{x:.1f} {y:.1f}{''.join(steps)}")


def _points(path: Path) -> list[tuple[float, float]]:
    """From border to border, straight through each layer between."""
    way = 1 if path.spots[0].y < path.spots[-1].y else -1
    first, *between, last = path.spots
    points = [(first.x, first.y + way * first.height / 2)]
    for spot in between:
        points += [(spot.x, spot.y - way * spot.band / 2), (spot.x, spot.y + way * spot.band / 2)]
    return [*points, (last.x, last.y - way * last.height / 2)]


def _loop(edge: Edge, spot: Spot) -> str:
    x, y = spot.x + spot.width / 2, spot.y
    line = _drawn(edge, f"M{x:.1f} {y - 8:.1f}C{x + 34:.1f} {y - 22:.1f} {x + 34:.1f} {y + 22:.1f} {x:.1f} {y + 8:.1f}")
    text = escape(edge.label)
    return line + f'<text class="label" x="{x + 30:.1f}" y="{y + 4:.1f}" style="text-anchor:start">{text}</text>'


def _drawn(edge: Edge, way: str) -> str:
    kind, marker = ("edge faint", "faint") if edge.faint else ("edge", "arrow")
    title = escape(f"{edge.source} to {edge.target}" + (f": {edge.label}" if edge.label else ""))
    return f'<path class="{kind}" d="{way}" marker-end="url(#{marker})"><title>{title}</title></path>'


def _label(spot: Spot) -> str:
    first = spot.y - spot.height / 2 + LINE * 0.75
    back = (
        f'<rect class="back" x="{spot.x - spot.width / 2:.1f}" y="{spot.y - spot.height / 2:.1f}" '
        f'width="{spot.width:.1f}" height="{spot.height:.1f}"/>'
    )
    return back + "".join(
        f'<text class="label" x="{spot.x:.1f}" y="{first + LINE * index:.1f}">{escape(line)}</text>'
        for index, line in enumerate(spot.lines)
    )


def _node(spot: Spot, graph: Graph) -> str:
    name = spot.name or ""
    kind = "node" + (" start" if name == graph.start else "") + (" end" if name in graph.ends else "")
    return (
        f'<rect class="{kind}" x="{spot.x - spot.width / 2:.1f}" y="{spot.y - spot.height / 2:.1f}" '
        f'width="{spot.width:.1f}" height="{spot.height:.1f}" rx="7"/>'
        f'<text x="{spot.x:.1f}" y="{spot.y + 4:.1f}">{escape(name)}</text>'
    )
