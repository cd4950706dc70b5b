# SPDX-License-Identifier: Apache-2.0
"""What a whole batch costs, where a graph has the costs of one micro-batch."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph, Node, PageCost
from poet_profiles.graph.micro_batches import waiting_nodes
from poet_profiles.graph.once import once_a_graph


@once_a_graph
def nodes_of_batch(graph: Graph) -> tuple[Node, ...]:
    """The nodes with the costs of a batch, and their values' pages likewise.

    All counts once for each micro-batch, but for the nodes that wait for the last one. So a schedule costs as much as
    running it for each. That is right of times beside transfers, too: at the end of each micro-batch, and before
    anything changes, no transfer is under way.
    """
    if graph.micro_batches == 1:
        return graph.nodes
    once = {node.id for node in waiting_nodes(graph)}
    return tuple(node if node.id in once else _times(node, graph.micro_batches) for node in graph.nodes)


def once_j(graph: Graph) -> float:
    """Energy of every node once, of a whole batch, in joules: no schedule costs less."""
    return sum(node.energy_j for node in nodes_of_batch(graph))


def once_s(graph: Graph) -> float:
    """Time of every node once, of a whole batch, in seconds."""
    return sum(node.time_s for node in nodes_of_batch(graph))


def _times(node: Node, count: int) -> Node:
    values = (
        replace(value, page=PageCost(*(count * cost for cost in vars(value.page).values()))) if value.page else value
        for value in node.values
    )
    own = {name: count * getattr(node, name) for name in ("time_s", "energy_j", "card_time_s", "card_energy_j")}
    return replace(node, **own, values=tuple(values))
