# SPDX-License-Identifier: Apache-2.0
"""Gradients that lie transposed are turned, where they meet a layer's weights.

An attention leaves the gradient of its keys so. The products that make the layer's input gradient and its weight
gradient then are of another form than any other layer's, which no operator on the card computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poet_profiles.firmware.operators import OPERATORS, params_key, parse_params
from poet_profiles.graph import Graph, Node, Operation, Value

from poet_planner.lowering.memory.optimizer_step import descents_of
from poet_planner.lowering.operators.draft import added


def with_turned_gradients(graph: Graph) -> Graph:
    """The same step with a copy of each such gradient, that lies as others do, in front of its first reader."""
    descents = descents_of(graph).values()
    gradients, parameters = {one.gradient for one in descents}, {one.parameter for one in descents}
    turned: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(_turned(node, parameters, gradients, turned))
    return replace(graph, nodes=tuple(nodes))


def _turned(node: Node, parameters: set[str], gradients: set[str], turned: set[str]) -> Iterator[Node]:
    operation = node.operation
    p = parse_params(operation.params) if operation and operation.op == "matmul" else {}
    if operation is None or not p or p["b"] != 1 or operation.operands[0] not in node.inputs:
        yield node
        return
    (given, other), (result,) = operation.operands, operation.results
    if other in parameters and p["ta"] == 1 and p["m"] > 1:
        rows, columns, transposed = p["m"], p["k"], 0
    elif result in gradients and (p["ta"], p["tb"]) == (0, 0) and p["k"] > 1:
        rows, columns, transposed = p["k"], p["m"], 1
    else:
        yield node
        return
    copy = added(given, "turned")
    if copy not in turned:
        turned.add(copy)
        yield _copy(node, given, copy, rows, columns)
    yield replace(
        node,
        inputs=tuple(dict.fromkeys(copy if id == given and other != given else id for id in node.inputs)),
        operation=replace(operation, params=params_key("matmul", {**p, "ta": transposed}), operands=(copy, other)),
    )


def _copy(like: Node, given: str, id: str, rows: int, columns: int) -> Node:
    """What has so many rows and columns, of what lies the other way."""
    extents = {"d0": 1, "d1": 1, "d2": rows, "d3": columns}
    params = {**extents, "s0": 1, "s1": 1, "s2": 1, "s3": rows, "offset": 0, "size": rows * columns}
    sizes = OPERATORS["strided_copy"].sizes(params)
    return replace(
        like,
        id=id,
        values=(Value(id, sizes.outputs[0]),),
        inputs=(given,),
        workspace_bytes=sizes.workspace,
        recomputable=True,
        operation=Operation("strided_copy", params_key("strided_copy", params), (given,), (id,)),
    )
