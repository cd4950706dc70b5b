# SPDX-License-Identifier: Apache-2.0
"""Updates as early as may be: a parameter changes where its gradient is done and nothing reads the parameter any more.

So a gradient ends at once, and not when all are done. The weights have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poet_profiles.graph import Graph, Node

from poet_planner.lowering.memory.optimizer_step import FACTORS, ORDERING_NODE
from poet_planner.lowering.memory.updates import with_nodes_after_readers


def with_early_updates(graph: Graph) -> Graph:
    """The same step, of one with gradients as values and all that changes anything after its ordering node.

    That node stays, after the last update, and counters after it. Nothing may be paged in this graph: a card that
    fails would leave weights of which some have changed.
    """
    parameters = {resident.id for resident in graph.residents if resident.kind == "parameter"}
    place = [node.id for node in graph.nodes].index(ORDERING_NODE)
    before, order, after = graph.nodes[:place], graph.nodes[place], graph.nodes[place + 1 :]
    updates = {
        node.operation.results[0]: _free(node)
        for node in after
        if node.operation and node.operation.results[0] in parameters
    }
    gradients = {parameter: next(id for id in node.inputs if id != FACTORS) for parameter, node in updates.items()}
    moved = {node.id for node in updates.values()}
    statistics = [_free(node) for node in after if node.id not in moved and _free(node).inputs]
    moved |= {node.id for node in statistics}
    read = {id for node in statistics for id in node.inputs}
    ends = (*(id for id in order.inputs if id not in read), *(node.id for node in statistics))
    factors_first = sorted(_with_statistics(before, statistics), key=lambda node: node.id != FACTORS)
    body = replace(graph, nodes=(*factors_first, replace(order, inputs=ends)))
    made = with_nodes_after_readers(body, gradients, updates)
    return replace(made, nodes=(*made.nodes, *(node for node in after if node.id not in moved)))


def _free(node: Node) -> Node:
    """The node, after what it reads alone."""
    return replace(node, inputs=tuple(id for id in node.inputs if id != ORDERING_NODE))


def _with_statistics(nodes: Sequence[Node], statistics: Sequence[Node]) -> list[Node]:
    """Updates of running statistics among the nodes, each after the last one that reads what it reads.

    An ordering node that kept what they read would have it computed again from weights that have changed.
    """
    found: list[Node] = []
    waiting = list(statistics)
    for node in reversed(nodes):
        touched = {*node.inputs, *(value.id for value in node.values)}
        found += [update for update in waiting if not touched.isdisjoint(update.inputs)]
        waiting = [update for update in waiting if touched.isdisjoint(update.inputs)]
        found.append(node)
    return found[::-1]
