# SPDX-License-Identifier: Apache-2.0
"""Small random graphs whose nodes take over inputs, wherever the contract lets them, most of the time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import count

from poet_profiles.graph import Graph, Node

from tests.support.graphs.random_graphs import either_graph


def random_in_place_graph(seed: int) -> Graph:
    """One of `either_graph`, with at least one taking over."""
    graphs = (with_random_taking_over(either_graph(number), number) for number in count(seed, 100_000))
    return next(graph for graph in graphs if any(node.takes_over for node in graph.nodes))


def with_random_taking_over(graph: Graph, seed: int, share: float = 0.8) -> Graph:
    """The same graph, whose values have the bytes of what they take over."""
    draw = random.Random(seed)
    uses = Counter(id for node in graph.nodes for id in node.inputs)
    sizes: dict[str, int] = {}
    nodes = []
    for node in graph.nodes:
        free = [id for id in node.inputs if uses[id] == 1 and sizes[id]]
        over = {}
        for value in node.values:
            if free and value.bytes and draw.random() < share:
                over[value.id] = free.pop(draw.randrange(len(free)))
        nodes.append(_taking(node, over, sizes))
        sizes |= {value.id: value.bytes for value in nodes[-1].values}
    return replace(graph, nodes=tuple(nodes))


def _taking(node: Node, over: dict[str, str], sizes: dict[str, int]) -> Node:
    values = tuple(replace(value, bytes=sizes[over[value.id]]) if value.id in over else value for value in node.values)
    return replace(node, values=values, takes_over=over)
