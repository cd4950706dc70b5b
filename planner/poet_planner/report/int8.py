# SPDX-License-Identifier: Apache-2.0
"""Which layers of a plan are on int8."""

from __future__ import annotations

from poet_profiles.graph import Graph
from poet_profiles.plan_folder.summary import Int8Report

_ON_INT8 = ("conv2d_s8", "linear_s8")
_IN_F32 = ("conv2d", "conv2d_relu", "linear", "matmul")
_WEIGHT = 1  # among the operands of all of these


def int8_report(graph: Graph, samples: int | None) -> Int8Report | None:
    """Of a graph's nodes, without validation; None if nothing is on int8, and nobody asked for it (no ``samples``)."""
    constants = {constant.id: constant for constant in graph.constants}
    layers = [
        node.operation
        for node in graph.nodes
        if node.operation and not node.backward and node.operation.op in _ON_INT8 + _IN_F32
        if node.operation.operands[_WEIGHT] in constants
    ]
    on_int8 = [layer for layer in layers if layer.op in _ON_INT8]
    if not on_int8 and samples is None:
        return None
    weights = {layer.operands[_WEIGHT]: constants[layer.operands[_WEIGHT]].bytes for layer in on_int8}
    others = {id: constants[id].bytes for layer in on_int8 for id in layer.operands[_WEIGHT + 1 :] if id in constants}
    elements = sum(weights.values())
    return Int8Report(
        layers=len(on_int8),
        frozen_layers=len(layers),
        weight_bytes=elements + sum(others.values()),
        f32_weight_bytes=4 * elements + sum(others.values()) // 2,  # a bias, where int8 has a start and a scale
        samples=samples,
    )
