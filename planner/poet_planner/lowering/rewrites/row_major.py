# SPDX-License-Identifier: Apache-2.0
"""Every value row-major, where PyTorch stores it in another order of its axes.

What an operator computes does not hang on how its tensors are stored, and the firmware stores them as it likes. A
reader that hangs on it, as a view without a copy does, reads a copy in PyTorch's order.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, map_refs, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import is_row_major, permuting
from poet_planner.lowering.operators.strided_copies import layout_of, viewed

aten = torch.ops.aten


def without_stored(id: str) -> str:
    """The value that a copy in PyTorch's order is of."""
    return id.removesuffix(_stored(""))


def _stored(id: str) -> str:
    return added(id, "stored")


def with_rows_in_order(traced: TracedGraph) -> TracedGraph:
    """The same graph with every tensor row-major: residents, and values that have no gaps."""
    shapes = _become_row_major(traced)
    in_order = {id for id, value in traced.values.items() if is_row_major(value.shape, value.stride)}
    refs = [ref for operator in traced.operators for ref in operator.refs]
    stored = {ref.source for ref in refs if ref.source in shapes and not _sees(ref, shapes[ref.source])} - in_order

    def seen(ref: Ref) -> Ref:
        if ref.source not in shapes:
            return ref
        sees = _sees(ref, shapes[ref.source])
        if ref.source in in_order and not sees:
            return ref
        if sees:
            return replace(ref, stride=viewed(ref, shapes[ref.source]).stride())
        if ref.source not in traced.values:
            # A resident as PyTorch stores it: no operator reads it so, and none can copy it.
            return replace(ref, stride=(0,) * len(ref.stride))
        order = _order(traced.values[ref.source])
        back = permuting([order.index(axis) for axis in range(len(order))])
        return replace(ref, source=_stored(ref.source), views=(back, *ref.views))

    operators: list[TracedOperator] = []
    values = dict(traced.values)
    for operator in traced.operators:
        operators.append(replace(operator, args=map_refs(operator.args, seen), kwargs=map_refs(operator.kwargs, seen)))
        for id in operator.values:
            if id in shapes:
                values[id] = replace(values[id], stride=row_major(shapes[id]))
            if id in stored:
                copy = _copy(operator, traced.values[id])
                shape = copy.refs[0].shape
                values[copy.id] = replace(values[id], id=copy.id, shape=shape, stride=row_major(shape), resident=None)
                operators.append(copy)
    constants, frozen = (
        {id: data if id in stored else data.contiguous() for id, data in tensors.items()}
        for tensors in (traced.constants, traced.frozen)
    )
    return replace(
        traced,
        operators=tuple(operators),
        values=values,
        loss=seen(traced.loss),
        gradients={parameter: seen(ref) for parameter, ref in traced.gradients.items()},
        constants=constants,
        frozen=frozen,
    )


def _become_row_major(traced: TracedGraph) -> dict[str, tuple[int, ...]]:
    """Shapes, by id. A gradient that lies otherwise than row by row stays as it is."""
    ends = (traced.loss, *traced.gradients.values())
    odd = {ref.source for ref in ends if not _sees(ref, traced.values[ref.source].shape)}
    shapes = {value.id: value.shape for value in traced.values.values() if value.id not in odd and _has_no_gaps(value)}
    return shapes | {resident.id: resident.shape for resident in traced.residents}


def _copy(maker: TracedOperator, value: TracedValue) -> TracedOperator:
    """What makes of a row-major value the one that PyTorch stores."""
    order, id = _order(value), _stored(value.id)
    shape, stride = (tuple(extents[axis] for axis in order) for extents in (value.shape, row_major(value.shape)))
    source = Ref(value.id, (permuting(order),), shape, stride, value.dtype)
    kwargs = {"memory_format": torch.contiguous_format}
    return TracedOperator(id, aten.clone.default, (source,), kwargs, (id,), maker.backward, maker.module)


def _sees(ref: Ref, shape: tuple[int, ...]) -> bool:
    """Whether the views apply to a row-major tensor as well; one by strides looks at the storage as it is."""
    by_strides = any(view.target is aten.as_strided.default for view in ref.views)
    return not by_strides and layout_of(ref, shape) is not None


def _has_no_gaps(value: TracedValue) -> bool:
    order = _order(value)
    return is_row_major([value.shape[axis] for axis in order], [value.stride[axis] for axis in order])


def _order(value: TracedValue) -> list[int]:
    """Axes from the outermost in memory to the innermost."""
    return sorted(range(len(value.shape)), key=lambda axis: -value.stride[axis])
