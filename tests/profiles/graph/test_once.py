# SPDX-License-Identifier: Apache-2.0
"""What is computed once for each graph."""

from __future__ import annotations

import pickle
from dataclasses import replace

from poet_profiles.graph import Graph, Node, Value
from poet_profiles.graph.once import once_a_graph

GRAPH = Graph("one", (Node("a", 1.0, 1.0, (Value("a", 400),)),), 64)


def test_each_graph_has_facts_of_its_own_each_computed_once() -> None:
    asked: list[str] = []

    @once_a_graph
    def length(graph: Graph) -> int:
        asked.append(graph.name)
        return len(graph.nodes)

    @once_a_graph
    def resident(graph: Graph) -> int:
        return graph.resident_bytes

    graph = replace(GRAPH)
    other = replace(graph, name="other", nodes=())
    assert [length(graph), resident(graph), length(graph), length(other), length(other)] == [1, 64, 1, 0, 0]
    assert asked == ["one", "other"]
    assert length(replace(graph, nodes=(*graph.nodes, *graph.nodes))) == 2


def test_a_graph_stays_equal_to_one_of_which_nothing_is_known() -> None:
    graph = replace(GRAPH)
    once_a_graph(len_of)(graph)
    assert graph == GRAPH and repr(graph) == repr(GRAPH)
    assert pickle.loads(pickle.dumps(graph)) == GRAPH


def len_of(graph: Graph) -> int:
    return len(graph.nodes)
