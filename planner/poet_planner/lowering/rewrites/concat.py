# SPDX-License-Identifier: Apache-2.0
"""Tensors joined along an axis: each placed among zeros, and the sum of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, View, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten


def with_padded_joins(traced: TracedGraph) -> TracedGraph:
    """The same graph without ``cat`` and ``stack`` of float32 tensors."""
    values = dict(traced.values)
    operators: list[TracedOperator] = []
    for operator in traced.operators:
        tensors, axis = _joined(operator)
        if not is_join(operator):
            operators.append(operator)
            continue
        for part in _padded_and_added(operator, tensors, axis):
            operators.append(part)
            if part.id != operator.id:
                shape = traced.values[operator.values[0]].shape
                values[part.id] = TracedValue(part.id, 4 * prod(shape), shape, torch.float32, row_major(shape))
    return replace(traced, operators=tuple(operators), values=values)


def is_join(operator: TracedOperator) -> bool:
    """Whether it joins tensors, all float32."""
    tensors, _ = _joined(operator)
    return bool(tensors) and all(tensor.dtype == torch.float32 for tensor in tensors)


def _joined(operator: TracedOperator) -> tuple[Sequence[Ref], int]:
    """Tensors that have elements, of equally many axes, and the axis along which they are joined; else no tensors."""
    if operator.target not in (aten.cat.default, aten.stack.default):
        return (), 0
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    tensors: Sequence[Ref] = given["tensors"]
    if operator.target is aten.stack.default:
        axis = given["dim"] % (len(tensors[0].shape) + 1)
        return [_unsqueezed(tensor, axis) for tensor in tensors], axis
    tensors = [tensor for tensor in tensors if prod(tensor.shape)]
    ranks = {len(tensor.shape) for tensor in tensors}
    return (tensors, given["dim"] % ranks.pop()) if len(ranks) == 1 else ((), 0)


def _padded_and_added(operator: TracedOperator, tensors: Sequence[Ref], axis: int) -> list[TracedOperator]:
    shape = [
        sum(tensor.shape[axis] for tensor in tensors) if at == axis else n for at, n in enumerate(tensors[0].shape)
    ]

    def part(name: str, target: Any, *args: Any) -> Ref:
        id = added(operator.id, name)
        parts.append(replace(operator, id=id, target=target, args=args, kwargs={}, outputs=(id,)))
        return Ref(id, (), tuple(shape), row_major(shape), torch.float32)

    parts: list[TracedOperator] = []
    total, first = None, 0
    for place, tensor in enumerate(tensors):
        last = shape[axis] - first - tensor.shape[axis]
        widths = [0, 0] * (len(shape) - 1 - axis) + [first, last]
        padded = part(f"padded{place}", aten.constant_pad_nd.default, tensor, widths)
        total = padded if total is None else part(f"sum{place}", aten.add.Tensor, total, padded)
        first += tensor.shape[axis]
    parts[-1] = replace(parts[-1], id=operator.id, outputs=operator.outputs)
    return parts


def _unsqueezed(tensor: Ref, axis: int) -> Ref:
    step = tensor.shape[axis] * tensor.stride[axis] if axis < len(tensor.shape) else 1
    return replace(
        tensor,
        views=(*tensor.views, View(aten.unsqueeze.default, (axis,))),
        shape=(*tensor.shape[:axis], 1, *tensor.shape[axis:]),
        stride=(*tensor.stride[:axis], step, *tensor.stride[axis:]),
    )
