# SPDX-License-Identifier: Apache-2.0
"""Small random graphs with every feature of the contract."""

from __future__ import annotations

import random

from poet_profiles.graph import Graph, Node, PageCost, Value


def random_graph(seed: int, most_nodes: int = 7) -> Graph:
    """Up to ``most_nodes`` nodes; some yield two values or none, some need workspace, some may not be repeated."""
    rng = random.Random(seed)
    count = rng.randint(3, most_nodes)
    nodes: list[Node] = []
    values: list[Value] = []
    for j in range(count):
        inputs = rng.sample([value.id for value in values], min(len(values), rng.choice((1, 1, 1, 2, 2, 3))))
        if values and rng.random() < 0.5 and nodes[-1].values[0].id not in inputs:
            inputs.append(nodes[-1].values[0].id)
        own = []
        for k in range(2 if rng.random() < 0.25 else 1):
            size = 0 if rng.random() < 0.1 else rng.choice((4, 8, 8, 12, 13, 16, 24))
            page = PageCost(*(round(rng.uniform(0.2, 3), 2) for _ in range(4))) if rng.random() < 0.6 else None
            own.append(Value(f"v{j}.{k}", size, page))
        nodes.append(
            Node(
                id=f"n{j}",
                time_s=round(rng.uniform(0.5, 4), 2),
                energy_j=0.0 if rng.random() < 0.1 else round(rng.uniform(0.5, 4), 2),
                values=tuple(own),
                inputs=tuple(inputs),
                workspace_bytes=rng.choice((0, 0, 0, 4, 6)),
                recomputable=rng.random() < 0.85,
            )
        )
        values += own
    return Graph(f"random {seed}", tuple(nodes), resident_bytes=rng.choice((0, 8)))


def either_graph(seed: int) -> Graph:
    """Of any shape, or like training."""
    return random_graph(seed) if seed % 2 else training_like_graph(seed)


def training_like_graph(seed: int) -> Graph:
    """A short chain forwards and back: each gradient needs the activation in front of it."""
    rng = random.Random(seed)
    depth = rng.choice((3, 3, 4)) if rng.random() < 0.8 else 2
    nodes: list[Node] = []

    def add(id: str, *inputs: str) -> None:
        page = PageCost(*(round(rng.uniform(0.2, 2), 2) for _ in range(4))) if rng.random() < 0.6 else None
        value = Value(id, rng.choice((4, 8, 8, 16)), page)
        time_s, energy_j = round(rng.uniform(0.5, 3), 2), round(rng.uniform(0.5, 3), 2)
        nodes.append(Node(id, time_s, energy_j, (value,), inputs, backward=id.startswith("g")))

    add("a0")
    for k in range(1, depth):
        add(f"a{k}", f"a{k - 1}")
    for k in range(depth - 1, -1, -1):
        add(f"g{k}", f"a{k}", *([f"g{k + 1}"] if k < depth - 1 else []))
    return Graph(f"chain {seed}", tuple(nodes))
