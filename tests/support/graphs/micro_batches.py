# SPDX-License-Identifier: Apache-2.0
"""Small random graphs of one micro-batch, and what a batch of them costs, multiplied here."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

from poet_profiles.graph import Graph, Node, Operation, PageCost, Resident, Value

from tests.support.graphs.random_graphs import either_graph

UPDATE = "w.sgd"


def random_parts(seed: int) -> Graph:
    """A random graph with a gradient that is added to a sum, an update after all, and a generator that moves on."""
    rng = random.Random(seed)
    bodies = map(either_graph, count(seed, 100_000))  # one has no bytes at all, and so no gradient
    body = next(one for one in bodies if any(value.bytes for node in one.nodes for value in node.values))
    read = {id for node in body.nodes for id in node.inputs}
    ends = {node.id for node in body.nodes if read.isdisjoint(value.id for value in node.values)}
    nodes = [
        replace(node, values=(*node.values, Value(f"{node.id}..done", 0))) if node.id in ends else node
        for node in body.nodes
    ]
    gradient = rng.choice([value.id for node in body.nodes for value in node.values if value.bytes])

    def end(id: str, *inputs: str, cost: float = 0.0, operation: Operation | None = None) -> None:
        values = (Value(id, 0),)
        nodes.append(Node(id, cost, cost, values, inputs, recomputable=False, backward=True, operation=operation))

    added = Operation("pointwise", "size=1 steps=add(y0,x0,x1)", (gradient, "w.grad"), ("w.grad",))
    end("w.grad..added", gradient, cost=round(rng.uniform(0, 1), 2), operation=added)
    end("..gradients", "w.grad..added", *(f"{id}..done" for id in sorted(ends)))
    descent = Operation("sgd", "size=1", ("w.grad", "w"), ("w",))
    end(UPDATE, "..gradients", cost=round(rng.uniform(0, 3), 2), operation=descent)
    end("advance", "..gradients", cost=0.25, operation=Operation("advance", "steps=1", ("seed",), ("seed",)))
    residents = (
        Resident("w", "parameter", 4, 0, (1,)),
        Resident("w.grad", "gradient", 4, 4, (1,)),
        Resident("seed", "state", 8, 8, (2,)),
    )
    return replace(
        body,
        nodes=tuple(nodes),
        residents=residents,
        resident_bytes=16,
        dma=rng.random() < 0.5,
        micro_batches=rng.choice((2, 3)),
    )


def of_the_batch(graph: Graph) -> Graph:
    """The same nodes once, at the costs of the whole batch; without operators, so that it is of no micro-batches."""
    parts = graph.micro_batches

    def times(node: Node) -> Node:
        if node.id == UPDATE:
            return replace(node, operation=None)
        values = tuple(
            replace(value, page=PageCost(*(parts * cost for cost in vars(value.page).values())) if value.page else None)
            for value in node.values
        )
        return replace(node, time_s=parts * node.time_s, energy_j=parts * node.energy_j, values=values, operation=None)

    return replace(graph, nodes=tuple(map(times, graph.nodes)), micro_batches=1)
