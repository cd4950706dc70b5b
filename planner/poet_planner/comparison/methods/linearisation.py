# SPDX-License-Identifier: Apache-2.0
"""A training step as a chain of blocks, for methods that are made for chains.

A node is a *cut* if after it its value is the only one of the forward pass, of those that have bytes, that a later
forward node needs. A block reaches from after one cut to the next, which belongs to it. ColossalAI and rotor's users
cut where no earlier value is still in use, which is the same; Checkmate cuts at articulation points of the undirected
graph, which is weaker.
"""

from __future__ import annotations

from dataclasses import dataclass

from poet_planner.comparison.methods.instance import Instance


@dataclass(frozen=True)
class Blocks:
    """The nodes of each block: its forward and its backward ones, in the graph's order.

    All backward nodes of one block stand before those of the block in front of it.
    """

    forward: list[list[int]]
    backward: list[list[int]]


def cuts(instance: Instance) -> list[int]:
    """The cuts, in order."""
    found = []
    alive: set[int] = set()
    for node in range(instance.first_backward):
        alive |= {v for v in instance.outputs[node] if instance.size[v]}
        alive = {v for v in alive if any(node < user < instance.first_backward for user in instance.users[v])}
        if len(alive) == 1 and instance.producer[next(iter(alive))] == node:
            found.append(node)
    return found


def blocks(instance: Instance) -> Blocks:
    """The blocks between the cuts.

    A backward node belongs to the last block of whose values it reads one, and to no later one than the node before it.
    """
    ends = set(cuts(instance))
    forward: list[list[int]] = [[]]
    block_of: dict[int, int] = {}
    for node in range(instance.first_backward):
        forward[-1].append(node)
        block_of[node] = len(forward) - 1
        if node in ends:
            forward.append([])
    backward: list[list[int]] = [[] for _ in forward]
    here = len(forward) - 1
    for node in range(instance.first_backward, instance.nodes):
        read = [
            block_of[instance.producer[v]]
            for v in instance.inputs[node]
            if instance.size[v] and instance.producer[v] in block_of
        ]
        here = min(here, max(read, default=here))
        backward[here].append(node)
    return Blocks(forward, backward)
