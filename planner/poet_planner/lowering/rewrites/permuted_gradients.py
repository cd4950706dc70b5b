# SPDX-License-Identifier: Apache-2.0
"""Gradients whose axes PyTorch leaves in another order are put in order."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, map_refs, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import is_row_major

aten = torch.ops.aten
_PRODUCTS = (aten.mm.default, aten.bmm.default)


def with_gradients_in_order(traced: TracedGraph) -> TracedGraph:
    """The same step with copies of such gradients.

    That of a product that lies transposed stays: the product is then taken the other way.
    """
    makers = {id: operator for operator in traced.operators for id in operator.outputs if id is not None}
    odd = {
        ref.source: ref
        for ref in traced.gradients.values()
        if not is_row_major(ref.shape, ref.stride) and not _is_turned(ref, makers[ref.source], traced)
    }
    values = dict(traced.values)

    def moved(ref: Ref) -> Ref:
        return replace(ref, source=added(ref.source, "permuted")) if ref.source in odd else ref

    operators = []
    for operator in traced.operators:
        outputs = tuple(added(id, "permuted") if id in odd else id for id in operator.outputs)
        args, kwargs = map_refs(operator.args, moved), map_refs(operator.kwargs, moved)
        operators.append(replace(operator, args=args, kwargs=kwargs, outputs=outputs))
        for id in operator.outputs:
            if id in odd:
                operators.append(_copy(operator, id, moved(odd[id])))
                value, shape = values[id], odd[id].shape
                values[added(id, "permuted")] = replace(value, id=added(id, "permuted"), resident=None)
                values[id] = replace(value, shape=shape, stride=row_major(shape))
    gradients = {
        parameter: Ref(ref.source, (), ref.shape, row_major(ref.shape), ref.dtype) if ref.source in odd else ref
        for parameter, ref in traced.gradients.items()
    }
    return replace(traced, operators=tuple(operators), values=values, gradients=gradients)


def _is_turned(ref: Ref, maker: TracedOperator, traced: TracedGraph) -> bool:
    *stack, rows, columns = traced.values[ref.source].shape if maker.target in _PRODUCTS else (0, 0, 0)
    axes = [pair for pair in zip(ref.shape, ref.stride, strict=True) if pair[0] != 1]
    return prod(stack) == 1 and axes == [(columns, 1), (rows, columns)]


def _copy(maker: TracedOperator, id: str, ref: Ref) -> TracedOperator:
    kwargs = {"memory_format": torch.contiguous_format}
    return TracedOperator(added(id, "in_order"), aten.clone.default, (ref,), kwargs, (id,), True, maker.module)
