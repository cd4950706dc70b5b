# SPDX-License-Identifier: Apache-2.0
"""Small random training steps with parameters, whose gradients are values."""

from __future__ import annotations

import random

from poet_profiles.graph import Graph, Node, Operation, Resident, Value

SIZES = (4, 8, 8, 16)


def random_training(seed: int) -> Graph:
    """A chain forwards and back: each layer has a parameter, which forward and backward nodes read, and an update."""
    rng = random.Random(seed)
    depth = rng.choice((2, 2, 3))
    nodes: list[Node] = []

    def add(id: str, size: int, operands: tuple[str, ...], backward: bool = True) -> None:
        time_s, energy_j = round(rng.uniform(0.5, 3), 2), round(rng.uniform(0.5, 3), 2)
        inputs = tuple(operand for operand in operands if not operand.startswith("w"))
        operation = Operation("aten.any", "", operands, (id,))
        nodes.append(Node(id, time_s, energy_j, (Value(id, size),), inputs, backward=backward, operation=operation))

    def end(id: str, inputs: tuple[str, ...], operation: Operation | None, cost: float = 0.0) -> None:
        nodes.append(
            Node(id, cost, cost, (Value(id, 0),), inputs, recomputable=False, backward=True, operation=operation)
        )

    for k in range(depth):
        add(f"a{k}", rng.choice(SIZES), (f"w{k}", *([f"a{k - 1}"] if k else [])), backward=False)
    sizes = [rng.choice(SIZES) for _ in range(depth)]
    for k in range(depth - 1, -1, -1):
        above = (f"x{k + 1}",) if k < depth - 1 else (f"a{k}",)
        add(f"g{k}", sizes[k], (*above, *([f"a{k - 1}"] if k else [])))
        if k:
            add(f"x{k}", rng.choice(SIZES), (*above, f"w{k}"))
    end("..gradients", tuple(f"g{k}" for k in range(depth)), None)
    for k in range(depth):
        descent = Operation("sgd", f"size={sizes[k] // 4}", (f"g{k}", f"w{k}"), (f"w{k}",))
        end(f"w{k}.sgd", ("..gradients", f"g{k}"), descent, round(rng.uniform(0.1, 1), 2))
    places = [4 * sum(sizes[:k]) for k in range(depth)]
    residents = [Resident(f"w{k}", "parameter", sizes[k], places[k]) for k in range(depth)]
    return Graph(f"training {seed}", tuple(nodes), 4 * sum(sizes), residents=tuple(residents))
