# SPDX-License-Identifier: Apache-2.0
"""Where to cut a step in two: what is computed once a sample and kept, and what each epoch computes.

An epoch costs the energy of the fixed nodes that each step computes again, and that of reading what is kept. A node
that is computed once needs all makers of what it reads to be. The cheapest choice is a minimum cut: from the source to
each fixed node its energy, from there to what it reads infinity; from the maker of a value to the value what reading
it costs, and from there to its readers infinity; all that is not fixed is the sink.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from poet_profiles.graph import Graph

LEAST_J = 1e-18  # less is nothing
TIE_J = 1e-15  # for each byte, so that of equal cuts the one that keeps less is taken
SOURCE, SINK = ("source", ""), ("sink", "")

Vertex = tuple[str, str]
Network = dict[Vertex, dict[Vertex, float]]


@dataclass(frozen=True)
class Cut:
    """Ids of what is ``kept``, values or inputs of the batch, and of the nodes that are computed ``once`` a sample.

    What the RAM has no room for may lie ``on_card``.
    """

    kept: tuple[str, ...]
    once: frozenset[str]
    on_card: bool = False


def least_cut(graph: Graph, fixed: Collection[str], read_j: Callable[[str, int], float]) -> Cut:
    """The cut with which an epoch takes the least energy; of equal ones, that which keeps the fewest bytes.

    ``graph`` is lowered, with its costs; ``fixed`` are the nodes that may be computed once. ``read_j`` says what it
    costs to read a value, by its id and its bytes: infinite for one that must not be kept, which no input may be.
    """
    sizes = {one.id: one.bytes for one in graph.residents if one.kind == "input"}
    makers = {value.id: node.id for node in graph.nodes if node.id in fixed for value in node.values}
    sizes |= {value.id: value.bytes for node in graph.nodes if node.id in fixed for value in node.values}
    network: Network = {SOURCE: {}, SINK: {}}
    for node in graph.nodes:
        here = ("node", node.id) if node.id in fixed else SINK
        if here != SINK:
            _join(network, SOURCE, here, node.energy_j)
        for id in dict.fromkeys(node.operation.operands if node.operation else ()):
            if id in sizes:
                _join(network, ("kept", id), here, inf)
            if here != SINK and id in makers:
                _join(network, here, ("node", makers[id]), inf)
    for id, size in sizes.items():
        if ("kept", id) in network:
            _join(network, _maker(makers, id), ("kept", id), read_j(id, size) + TIE_J * size)
    side = _with_the_source(network)
    once = frozenset(id for id in fixed if ("node", id) in side)
    crossing = (id for id in sizes if ("kept", id) in network and ("kept", id) not in side)
    return Cut(tuple(id for id in crossing if _maker(makers, id) in side), once)


def _maker(makers: Mapping[str, str], id: str) -> Vertex:
    return ("node", makers[id]) if id in makers else SOURCE


def _join(network: Network, begin: Vertex, end: Vertex, capacity: float) -> None:
    edges = network.setdefault(begin, {})
    edges[end] = edges.get(end, 0.0) + capacity
    network.setdefault(end, {}).setdefault(begin, 0.0)


def _with_the_source(network: Network) -> set[Vertex]:
    """The vertices on the source's side of a minimum cut, by the method of Edmonds and Karp."""
    while True:
        before = _reached(network)
        if SINK not in before:
            return set(before)
        path = [SINK]
        while path[-1] != SOURCE:
            path.append(before[path[-1]])
        edges = [(begin, end) for end, begin in pairwise(path)]
        flow = min(network[begin][end] for begin, end in edges)
        if flow == inf:
            raise ValueError("an input of the batch must be kept, and must not")
        for begin, end in edges:
            network[begin][end] -= flow
            network[end][begin] += flow


def _reached(network: Network) -> dict[Vertex, Vertex]:
    """Vertices that more can flow to, each with the one before it on a shortest way; no further than the sink."""
    before, queue = {SOURCE: SOURCE}, deque([SOURCE])
    while queue and SINK not in before:
        begin = queue.popleft()
        for end, left in network[begin].items():
            if left > LEAST_J and end not in before:
                before[end] = begin
                queue.append(end)
    return before
