# SPDX-License-Identifier: Apache-2.0
"""The step of one micro-batch (docs/SPEC.md, section 3): each gradient, and the loss, is added to a sum in RAM.

The gradient is a value like any other until then. So a sum is PyTorch's, ``((g1 + g2) + g3)``, and each ``g`` has the
bits that a step on its part of the batch alone would give. Where each element of it is one product, as of a dense layer
and one sample, the products are added at once: that gives the same bits, and there is no gradient beside the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from math import prod

from poet_profiles.firmware.operators import ACCUMULATE, MATMUL, parse_params
from poet_profiles.firmware.steps import ADDITION, POINTWISE
from poet_profiles.graph import Graph, Node, Operation, Value
from poet_runtime.traced_graph import Kind, TracedGraph

from poet_planner.lowering.memory.optimizer_step import ORDERING_NODE
from poet_planner.lowering.operators.draft import added

_SUMMED = (Kind.GRADIENT, Kind.LOSS)


def sums_of(traced: TracedGraph) -> dict[str, str]:
    """The resident to which each value is added."""
    kinds = {resident.id: resident.kind for resident in traced.residents}
    homes = {id: value.resident for id, value in traced.values.items() if value.resident}
    return {id: home for id, home in homes.items() if kinds[home] in _SUMMED}


def with_values_to_add(traced: TracedGraph) -> TracedGraph:
    """The same step with its results as values beside the residents."""
    sums = sums_of(traced)
    values = {id: replace(value, resident=None) if id in sums else value for id, value in traced.values.items()}
    return replace(traced, values=values)


def with_sums(graph: Graph, sums: Mapping[str, str], micro_batches: int) -> Graph:
    """The graph of one micro-batch, of one whose results are values.

    ``sums`` names the resident to which each value, or constant, is added.
    """
    shapes = {resident.id: resident.shape for resident in graph.residents}
    makers = {value.id: node.id for node in graph.nodes for value in node.values}
    parts = takewhile(lambda node: node.id != ORDERING_NODE, graph.nodes)
    read = {id for node in parts for id in node.inputs}
    after: dict[str, list[Node]] = defaultdict(list)
    for id, total in sums.items():
        after[makers.get(id, ORDERING_NODE)].append(_addition(id, total, prod(shapes[total]), id in makers))
    nodes: list[Node] = []
    order_seen = False
    for node in graph.nodes:
        if node.id == ORDERING_NODE:
            order_seen = True
            ends = dict.fromkeys(added(sums[id], "added") if id in sums else id for id in node.inputs)
            nodes += [*after[ORDERING_NODE], replace(node, inputs=tuple(ends))]
        elif order_seen and node.operation:
            operands = tuple(sums.get(id, id) for id in node.operation.operands)
            inputs = tuple(id for id in node.inputs if id not in sums)
            nodes.append(replace(node, inputs=inputs, operation=replace(node.operation, operands=operands)))
        else:
            at_once = _is_outer(node) and len(after[node.id]) == 1 and node.values[0].id not in read
            nodes += [_adding(node, after[node.id][0])] if at_once else [node, *after[node.id]]
    return replace(graph, nodes=tuple(nodes), micro_batches=micro_batches)


def _is_outer(node: Node) -> bool:
    """Whether each element of all that a node yields is one product."""
    if node.operation is None or node.operation.op != MATMUL or len(node.values) != 1:
        return False
    return parse_params(node.operation.params)["k"] == 1


def _adding(product: Node, addition: Node) -> Node:
    """One node that does the work of both."""
    assert product.operation is not None and addition.operation is not None
    total = addition.operation.results
    operands = (*product.operation.operands, *total)
    operation = Operation(MATMUL + ACCUMULATE, product.operation.params, operands, total)
    return replace(addition, inputs=product.inputs, operation=operation)


def _addition(value: str, total: str, size: int, is_made: bool) -> Node:
    id = added(total, "added")
    return Node(
        id=id,
        time_s=0.0,
        energy_j=0.0,
        values=(Value(id, 0),),
        inputs=(value,) if is_made else (),
        recomputable=False,
        backward=True,
        operation=Operation(POINTWISE, f"size={size} steps={ADDITION}", (value, total), (total,)),
    )
