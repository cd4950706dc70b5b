# SPDX-License-Identifier: Apache-2.0
"""A training step of a lowered graph, run by the firmware's own kernels on this computer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.firmware.operators import parse_params
from poet_profiles.graph import Graph

from tests.support.firmware.host_operators import Operators
from tests.support.firmware.operator_shapes import descent_of

Tensors = dict[str, NDArray[Any]]
LEARNING_RATE = 0.01


def run_step(graph: Graph, given: Tensors, operators: Operators) -> Tensors:
    """Every node once, in order; tensors by id as f32, in the shape of their resident or kept tensor."""
    held = tensors_of_step(graph, given, operators)
    lasting = [tensor for tensor in (*graph.residents, *graph.kept) if not tensor.dtype]
    return {tensor.id: held[tensor.id].view(np.float32).reshape(tensor.shape) for tensor in lasting}


def tensors_of_step(graph: Graph, given: Tensors, operators: Operators) -> Tensors:
    """What a step leaves everywhere, by id; values as bytes."""
    held: Tensors = {}
    lasting = (*graph.residents, *graph.kept)
    for tensor in (*lasting, *graph.constants):
        array = given.get(tensor.id, np.full(tensor.shape, np.nan, np.float32))
        whole = array.dtype.kind == "i" and tensor.dtype is None
        held[tensor.id] = np.ascontiguousarray(array.astype(np.int32) if whole else array)
        assert held[tensor.id].nbytes == tensor.bytes
    on_card = {kept.id for kept in graph.kept}
    next_versions: Tensors = {}
    for node in graph.nodes:
        if node.operation is None:
            continue
        operation = node.operation
        inputs = [held[id] for id in operation.operands]
        results = _results(operation.op, parse_params(operation.params), inputs, operators)
        for id, result in zip(operation.results, results, strict=True):
            (next_versions if id in on_card else held)[id] = result
    return held | next_versions


def _results(op: str, params: dict[str, int], inputs: list[NDArray[Any]], operators: Operators) -> list[NDArray[Any]]:
    """What an operator yields; one that writes kept tensors by those in RAM that it stands for, unless it streams."""
    if op == "fetch":
        return inputs
    if op == "commit":
        return []
    if not op.endswith("_update") or op == "batch_norm_update" or op.startswith("streamed_"):
        return operators.run(op, params, inputs, LEARNING_RATE)
    if op == "sgd_update":
        gradients, old = inputs[:1], inputs[1:]
    elif op == "conv2d_update":
        gradients, old = operators.run("conv2d_backward_weight", params, inputs[:2]), inputs[2:]
    else:
        product = {"b": 1, "m": params["n"], "k": params["m"], "n": params["k"], "ta": 1, "tb": 0}
        gradients, old = operators.run("matmul", product, inputs[:2]), inputs[2:]
    descents = zip(gradients, old, strict=True)
    return [operators.run(*descent_of(params, w.nbytes // 4), [g, w], LEARNING_RATE)[0] for g, w in descents]
