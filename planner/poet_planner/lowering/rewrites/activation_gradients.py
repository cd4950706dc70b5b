# SPDX-License-Identifier: Apache-2.0
"""Gradients of activations by their results, and by the maxima of a pooling that follows.

A leaky ReLU's result is positive exactly where its operand is, a hardtanh's within the limits exactly where that is. So
the operand need not be kept. A pooling without overlap gives each gradient to one element, whose activation is the
maximum: the activation's slope is taken before, on as many elements as there are maxima, and nothing else is needed of
what was pooled. Both have the bits of the order that PyTorch takes, but that a product with a leaky ReLU's slope which
is too small for f32 may be a zero of the other sign.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import copysign, inf, prod

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue
from torch._ops import OpOverload

from poet_planner.lowering.operators.rules import MAX_POOLS, MAX_POOLS_BACKWARD, firmware_operator, is_row_major
from poet_planner.lowering.rewrites.rewriting import Rewriting
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten
_FORWARD = {
    aten.leaky_relu_backward.default: aten.leaky_relu.default,
    aten.hardtanh_backward.default: aten.hardtanh.default,
}
_SLOPES = (aten.threshold_backward.default, *_FORWARD)


def with_gradients_by_results(traced: TracedGraph) -> TracedGraph:
    """The same step, in which gradients read activations' results where these tell enough."""
    made = {(op.target, op.refs[0].source): op for op in traced.operators if op.target in _FORWARD.values() and op.refs}
    back: dict[str, set[str]] = defaultdict(set)  # what the way back reads, by whom
    for operator in traced.operators:
        for ref in operator.refs if operator.backward else ():
            back[ref.source].add(operator.id)

    def by_result(operator: TracedOperator) -> TracedOperator:
        if operator.target not in _FORWARD:
            return operator
        gy, x, *numbers = bound_arguments(operator.target, operator.args, operator.kwargs).values()
        maker = made.get((_FORWARD[operator.target], x.source))
        leaks_back = operator.target is aten.leaky_relu_backward.default and copysign(1, numbers[0]) < 0
        if maker is None or x.source not in traced.values or leaks_back:
            return operator
        read, *given = bound_arguments(maker.target, maker.args, maker.kwargs).values()
        y = traced.values[maker.values[0]]
        needed_anyway = len(back[x.source]) > 1 and not back[y.id]
        if read != x or given != numbers[: len(given)] or needed_anyway:
            return operator
        return replace(operator, args=(gy, _whole(y), *numbers), kwargs={})

    return replace(traced, operators=tuple(map(by_result, traced.operators)))


def with_slopes_before_unpooling(traced: TracedGraph) -> TracedGraph:
    """The same step, in which an activation's gradient is taken before unpooling."""
    pairs = list(_pairs(traced))
    slopes = {unpool.id: (slope, maxima) for unpool, slope, maxima in pairs}
    moved = {slope.id for _, slope, _ in pairs}
    rewriting = Rewriting(traced)
    for operator in traced.operators:
        seen = rewriting.seen(operator)
        if operator.id in slopes:
            slope, maxima = slopes[operator.id]
            spread, _, *numbers = bound_arguments(slope.target, slope.args, slope.kwargs).values()
            gy, *rest = seen.args
            before = replace(slope, args=(gy, _whole(maxima), *numbers), kwargs={})
            taken = rewriting.put(before, slope.values[0], gy.shape)
            rewriting.operators.append(replace(seen, args=(taken, *rest)))
            rewriting.aliases[slope.values[0]] = spread
        elif operator.id not in moved:
            rewriting.operators.append(seen)
    return rewriting.graph() if pairs else traced


def _pairs(traced: TracedGraph) -> Iterator[tuple[TracedOperator, TracedOperator, TracedValue]]:
    """What spreads gradients over windows, the only one that reads this, and the windows' maxima."""
    pools = {op.outputs[1]: op for op in traced.operators if op.target in MAX_POOLS and op.values[0] == op.outputs[0]}
    readers: dict[str, list[TracedOperator]] = defaultdict(list)
    for operator in traced.operators:
        for id in {ref.source for ref in operator.refs}:
            readers[id].append(operator)
    lasting = {ref.source for ref in traced.gradients.values()}
    for unpool in traced.operators:
        if unpool.target not in MAX_POOLS_BACKWARD or len(readers[unpool.values[0]]) != 1:
            continue
        (slope,), pool = readers[unpool.values[0]], pools.get(unpool.args[-1].source)
        if pool is None or slope.target not in _SLOPES or slope.after or lasting & {*unpool.values, *slope.values}:
            continue
        gy, x, *numbers = bound_arguments(slope.target, slope.args, slope.kwargs).values()
        pooled = pool.args[0]
        alike = all(isinstance(ref, Ref) and _in_order(ref, traced) for ref in (gy, x, pooled))
        if alike and x.source == pooled.source and _keeps_zeros(slope.target, numbers[0]) and _is_apart(unpool):
            yield unpool, slope, traced.values[pool.values[0]]


def _in_order(ref: Ref, traced: TracedGraph) -> bool:
    """Whether it is all of a value in f32, in the order in which that lies."""
    value = traced.values.get(ref.source)
    if value is None or value.resident or ref.dtype != torch.float32 or prod(ref.shape) != prod(value.shape):
        return False
    return is_row_major(ref.shape, ref.stride) and is_row_major(value.shape, value.stride)


def _is_apart(unpool: TracedOperator) -> bool:
    """Whether no two windows share an element, which then would get a sum."""
    lowered = firmware_operator(unpool)
    return (
        lowered is not None
        and lowered.params["sh"] >= lowered.params["r"]
        and lowered.params["sw"] >= lowered.params["s"]
    )


def _keeps_zeros(target: OpOverload, number: float) -> bool:
    """Whether the slope makes nothing else of the zeros beside a maximum, and no zeros of gradients."""
    if target is aten.leaky_relu_backward.default:
        return 0 < number < inf
    return target is not aten.threshold_backward.default or number == 0


def _whole(value: TracedValue) -> Ref:
    return Ref(value.id, (), value.shape, value.stride, value.dtype)
