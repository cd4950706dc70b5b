# SPDX-License-Identifier: Apache-2.0
"""The cut against every closed set of nodes of random graphs, by the definition of what an epoch costs alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Set
from math import inf

import pytest
from poet_planner.features.cut import TIE_J, least_cut
from poet_planner.features.fixed import fixed_nodes
from poet_profiles.graph import Graph, Node, Operation, Resident, Value

BYTES = (8, 64, 256, 1024)


def random_graph(rng: random.Random) -> Graph:
    """Nodes v that read two inputs and each other; nodes t that read a parameter, too."""
    nodes: list[Node] = []
    known = ["x", "y"]
    for kind, count in (("v", rng.randint(2, 8)), ("t", rng.randint(1, 3))):
        for number in range(count):
            id, read = f"{kind}{number}", rng.sample(known, rng.randint(1, min(3, len(known))))
            inputs = tuple(one for one in read if one not in ("x", "y"))
            operands = (*read, *(["w"] if kind == "t" else []))
            values = (Value(id, rng.choice(BYTES)),)
            energy_j = rng.choice([0.1, 1.0, 5.0, 20.0])
            nodes.append(Node(id, 1.0, energy_j, values, inputs, operation=Operation("add", "", operands, (id,))))
            if kind == "v":
                known.append(id)
    residents = (
        *(Resident("x", "input", 128, 0, (1, 32)), Resident("y", "input", 16, 128, (1, 4))),
        Resident("w", "parameter", 128, 144, (32,)),
    )
    return Graph("random", tuple(nodes), 272, residents=residents)


def cost_j(graph: Graph, once: Set[str], scale: float, mixing: Set[str]) -> tuple[float, int]:
    """Energy and kept bytes of an epoch, infinite if it needs a value that mixes samples."""
    sizes = {"x": 128, "y": 16} | {node.id: node.values[0].bytes for node in graph.nodes}
    again = sum(node.energy_j for node in graph.nodes if node.id[0] == "v" and node.id not in once)
    readers = [node for node in graph.nodes if node.id not in once and node.operation]
    read = {id for node in readers if node.operation for id in node.operation.operands if id in {"x", "y", *once}}
    kept = sum(sizes[id] for id in read)
    return again + sum(inf if id in mixing else scale * sizes[id] for id in read), kept


@pytest.mark.parametrize("seed", range(400))
def test_no_choice_is_cheaper_or_as_cheap_with_fewer_bytes(seed: int) -> None:
    rng = random.Random(seed)
    graph, scale = random_graph(rng), rng.choice([0.0, 0.001, 0.01, 0.1])
    nodes = {node.id: node for node in graph.nodes if node.id[0] == "v"}
    assert fixed_nodes(graph) == nodes.keys()
    mixing = {id for id in nodes if rng.random() < 0.2}
    choices = (set(some) for count in range(len(nodes) + 1) for some in itertools.combinations(nodes, count))
    closed = [one for one in choices if all(one.issuperset(nodes[id].inputs) for id in one)]
    costs = [cost_j(graph, one, scale, mixing) for one in closed]
    best = min(energy_j + TIE_J * size for energy_j, size in costs)
    cut = least_cut(graph, nodes.keys(), lambda id, size: inf if id in mixing else scale * size)
    assert cut.once in closed
    energy_j, size = cost_j(graph, cut.once, scale, mixing)
    assert energy_j + TIE_J * size == pytest.approx(best, rel=1e-9, abs=1e-14)
    assert not mixing.intersection(cut.kept)
    sizes = {"x": 128, "y": 16} | {id: node.values[0].bytes for id, node in nodes.items()}
    assert sum(sizes[id] for id in cut.kept) == size


def test_what_draws_random_numbers_or_changes_something_is_not_fixed() -> None:
    def node(id: str, op: str, *operands: str, **more: object) -> Node:
        inputs = tuple(one for one in operands if one != "x")
        return Node(id, 1.0, 1.0, (Value(id, 8),), inputs, operation=Operation(op, "", operands, (id,)), **more)  # type: ignore[arg-type]

    nodes = (
        node("a", "relu", "x"),
        node("drawn", "bernoulli", "g"),
        node("masked", "mul", "a", "drawn"),
        node("once", "relu", "x", recomputable=False),
        node("back", "relu", "x", backward=True),
        node("lost", "add", "a", "target"),
    )
    residents = (Resident("x", "input", 8, 0, (2,)), Resident("g", "state", 8, 8, (2,)))
    graph = Graph("g", nodes, 24, residents=(*residents, Resident("target", "target", 8, 16, (2,))))
    assert fixed_nodes(graph) == {"a"}
