# SPDX-License-Identifier: Apache-2.0
"""Norms without weights of their own get constant ones: the firmware's have weights always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, poets_own, row_major

from poet_planner.tracing.schema import bound_arguments, position

aten = torch.ops.aten
# The numbers that stand in for what is missing.
_NEUTRAL = {"weight": 1.0, "bias": 0.0}
_NORMS = (
    aten.native_batch_norm.default,
    aten.native_batch_norm_backward.default,
    aten.native_layer_norm.default,
    aten.native_layer_norm_backward.default,
    aten.native_group_norm.default,
    aten.native_group_norm_backward.default,
)


def with_weights(traced: TracedGraph) -> TracedGraph:
    """The same graph, every norm with a weight and a bias."""
    constants: dict[str, TracedOperator] = {}
    values = dict(traced.values)

    def constant(number: float, shape: Sequence[int]) -> Ref:
        id = poets_own("x".join(map(str, shape)) + f".{number:g}")
        shape = tuple(shape)
        constants[id] = TracedOperator(id, aten.full.default, (list(shape), number), {}, (id,), False, "")
        values[id] = TracedValue(id, 4 * torch.Size(shape).numel(), shape, torch.float32, row_major(shape))
        return Ref(id, (), shape, row_major(shape), torch.float32)

    def completed(operator: TracedOperator) -> TracedOperator:
        if operator.target not in _NORMS:
            return operator
        bound = bound_arguments(operator.target, operator.args, operator.kwargs)
        args = list(operator.args)
        for name, number in _NEUTRAL.items():
            if name in bound and bound[name] is None:
                args[position(operator.target, name)] = constant(number, _weighted(bound))
        return replace(operator, args=tuple(args))

    operators = tuple(completed(operator) for operator in traced.operators)
    return replace(traced, operators=(*constants.values(), *operators), values=values)


def _weighted(given: dict[str, Any]) -> Sequence[int]:
    """Shape of a norm's weight: of the normalised axes, or of the channels."""
    shape: Sequence[int] = given.get("normalized_shape", given["input"].shape[1:2])
    return shape
