# SPDX-License-Identifier: Apache-2.0
"""Copies of more axes than the firmware's copy has: two copies, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import permuting
from poet_planner.lowering.operators.strided_copies import can_be_copied, layout_of

aten = torch.ops.aten


def with_copies_in_two(traced: TracedGraph) -> TracedGraph:
    """The same graph, every clone that takes too many axes made by way of another order of them, if one will do."""
    shapes: dict[str, Sequence[int]] = {resident.id: resident.shape for resident in traced.residents}
    shapes |= {id: value.shape for id, value in traced.values.items()}
    values = dict(traced.values)
    operators: list[TracedOperator] = []
    for operator in traced.operators:
        order = _way(operator, shapes)
        if order is None:
            operators.append(operator)
            continue
        ref: Ref = operator.args[0]
        id = added(operator.id, "reordered")
        shape = tuple(ref.shape[axis] for axis in order)
        stride = tuple(ref.stride[axis] for axis in order)
        first = replace(ref, views=(*ref.views, permuting(order)), shape=shape, stride=stride)
        back = [order.index(axis) for axis in range(len(order))]
        second = Ref(id, (permuting(back),), ref.shape, tuple(row_major(shape)[axis] for axis in back), ref.dtype)
        operators.append(replace(operator, id=id, args=(first,), outputs=(id,)))
        operators.append(replace(operator, args=(second,)))
        values[id] = TracedValue(id, ref.dtype.itemsize * prod(shape), shape, ref.dtype, row_major(shape))
    return replace(traced, operators=tuple(operators), values=values)


def _way(operator: TracedOperator, shapes: dict[str, Sequence[int]]) -> list[int] | None:
    """The order of axes between the two copies; None where one copy does, or no two."""
    if operator.target is not aten.clone.default or not isinstance(operator.args[0], Ref):
        return None
    view = layout_of(operator.args[0], shapes[operator.args[0].source])
    if view is None or can_be_copied(view):
        return None
    for order in permutations(range(view.dim())):
        between = view.permute(order)
        back = torch.empty(between.shape, device="meta").permute([order.index(axis) for axis in range(view.dim())])
        if can_be_copied(between) and can_be_copied(back):
            return list(order)
    return None
