"""The graphs are the tables, and their drawings show all of them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.cli.loops.graph import graph_of
from conductor.core.graph import Edge, Graph, merged
from conductor.core.graph.layout import lay_out
from conductor.core.graph.svg import svg
from conductor.core.graph.text import dot, mermaid
from conductor.core.loops import follow_up_loop, reviewer_loop
from conductor.docs.cycle import arrows

NAMES = ("reviewer", "follow-up", "outer", "cycle")


@pytest.mark.parametrize("name", NAMES)
def test_every_edge_and_node_is_in_every_drawing(name: str) -> None:
    graph = graph_of(name)
    words, drawn = mermaid(graph), svg(graph)
    titles = {title.text or "" for title in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")}  # noqa: S314  # our own
    pairs = {title.partition(":")[0] for title in titles}
    for edge in graph.edges:
        assert f"    {edge.source} --> {edge.target}" in words
        assert f'"{edge.source}" -> "{edge.target}"' in dot(graph)
        assert f"{edge.source} to {edge.target}" in pairs
    for node in graph.nodes:
        assert node in words
        assert f">{node}</text>" in drawn


@pytest.mark.parametrize("name", NAMES)
def test_nothing_lies_on_a_node(name: str) -> None:
    layout = lay_out(graph_of(name))
    spots = [*layout.nodes.values(), *(spot for path in layout.paths for spot in path.spots[1:-1])]
    for at, one in enumerate(spots):
        for other in spots[at + 1 :]:
            beside = abs(one.x - other.x) >= (one.width + other.width) / 2
            above = abs(one.y - other.y) >= (one.height + other.height) / 2
            assert beside or above, (one, other)


def test_the_graph_of_the_reviewer_loop_is_the_protocols_list() -> None:
    moves = {(move.source, move.target) for move in reviewer_loop.MOVES}
    assert len(moves) == len(reviewer_loop.MOVES) == 35
    assert reviewer_loop.FOLLOWERS[reviewer_loop.ReviewerState.BLOCKED_NEEDS_USER_DECISION] == ()
    for state in reviewer_loop.LEGACY:
        assert "blocked_needs_user_decision" not in reviewer_loop.FOLLOWERS[state]


def test_every_state_has_something_to_do() -> None:
    assert set(reviewer_loop.NEXT_ACTIONS) == set(reviewer_loop.ReviewerState)
    assert set(follow_up_loop.NEXT_ACTIONS) == set(follow_up_loop.FollowUpState)


def test_the_cycles_graph_is_what_its_table_does() -> None:
    drawn = {(edge.source, edge.target) for edge in graph_of("cycle").edges}
    assert drawn == {(source.value, target.value) for source, target in arrows()}


@given(pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_any_graph_can_be_laid_out(pairs: list[tuple[int, int]]) -> None:
    edges = tuple(Edge(f"n{one}", f"n{other}", f"{one} & {other}", (one + other) % 3 == 0) for one, other in pairs)
    graph = Graph("any", tuple(f"n{number}" for number in range(7)), edges, "n0", ("n6",))
    layout = lay_out(graph)
    assert len(layout.paths) + len(layout.loops) == len(merged(edges))
    assert svg(graph) == svg(graph)
    ElementTree.fromstring(svg(graph))  # noqa: S314  # our own
