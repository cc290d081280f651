"""Drawings in words: a mermaid state diagram and a dot digraph."""

from __future__ import annotations

from conductor.core.graph import Graph, merged


def mermaid(graph: Graph) -> str:
    """A mermaid ``stateDiagram-v2``."""
    lines = ["stateDiagram-v2", f"    [*] --> {graph.start}"]
    for edge in merged(graph.edges):
        label = edge.label.replace(":", " ").replace(";", ",")
        lines.append(f"    {edge.source} --> {edge.target}" + (f": {label}" if label else ""))
    alone = {graph.start, *(name for edge in graph.edges for name in edge[:2])}
    lines += [f"    {node}" for node in graph.nodes if node not in alone]
    lines += [f"    {node} --> [*]" for node in graph.ends]
    return "\n".join(lines) + "\n"


def dot(graph: Graph) -> str:
    """A Graphviz digraph."""
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        "    rankdir=TB;",
        '    node [shape=box, style=rounded, fontname="sans-serif", fontsize=11];',
        '    edge [fontname="sans-serif", fontsize=9];',
        '    "" [shape=point];',
        f'    "" -> {_quoted(graph.start)};',
    ]
    for node in graph.nodes:
        extra = " [peripheries=2]" if node in graph.ends else ""
        lines.append(f"    {_quoted(node)}{extra};")
    for edge in merged(graph.edges):
        style = ", style=dashed, color=gray50" if edge.faint else ""
        lines.append(f"    {_quoted(edge.source)} -> {_quoted(edge.target)} [label={_quoted(edge.label)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
