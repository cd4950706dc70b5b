# SPDX-License-Identifier: Apache-2.0
"""A training step of a lowered graph, run by the firmware's own kernels on this computer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.graph import Graph
from poet_profiles.operators import parse_params

from tests.support.firmware.host_operators import Operators

Tensors = dict[str, NDArray[Any]]
LEARNING_RATE = 0.01


def run_step(graph: Graph, given: Tensors, operators: Operators) -> Tensors:
    """Every node once, in order; tensors by id as f32, in their resident's shape."""
    held: Tensors = {}
    for tensor in (*graph.residents, *graph.constants):
        array = given.get(tensor.id, np.full(tensor.shape, np.nan, np.float32))
        held[tensor.id] = np.ascontiguousarray(array.astype(np.int32) if array.dtype.kind == "i" else array)
        assert held[tensor.id].nbytes == tensor.bytes
    for node in graph.nodes:
        if node.operation is None:
            continue
        operation = node.operation
        inputs = [held[id] for id in operation.operands]
        outputs = operators.run(operation.op, parse_params(operation.params), inputs, LEARNING_RATE)
        held |= dict(zip(operation.results, outputs, strict=True))
    shapes = {resident.id: resident.shape for resident in graph.residents}
    return {id: held[id].view(np.float32).reshape(shape) for id, shape in shapes.items()}
