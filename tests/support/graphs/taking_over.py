# SPDX-License-Identifier: Apache-2.0
"""Small random graphs whose nodes take over inputs, wherever the contract lets them, most of the time."""

from __future__ import annotations

import random
from itertools import count

from poet_profiles.graph import Graph

from benchmarks.planner.exhaustive import with_taking_over
from tests.support.graphs.random_graphs import either_graph


def random_in_place_graph(seed: int) -> Graph:
    """One of `either_graph`, with at least one taking over."""
    graphs = (with_random_taking_over(either_graph(number), number) for number in count(seed, 100_000))
    return next(graph for graph in graphs if any(node.takes_over for node in graph.nodes))


def with_random_taking_over(graph: Graph, seed: int, share: float = 0.8) -> Graph:
    """The same graph, whose values have the bytes of what they take over."""
    return with_taking_over(graph, random.Random(seed), share)
