# SPDX-License-Identifier: Apache-2.0
"""Arithmetic that the firmware has in other words.

A minus sign is the factor -1, and a number a constant to add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue, View

from poet_planner.lowering.rewriting import CLONE, Rewriting
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten
_Given = dict[str, Any]


def with_plain_arithmetic(traced: TracedGraph) -> TracedGraph:
    """The same graph; what is said here, and computed in f32, by sums and products."""
    rewriting = Rewriting(traced)
    for operator in traced.operators:
        last = None
        if is_said_otherwise(operator, traced.values):
            given = bound_arguments(operator.target, operator.args, operator.kwargs)
            last = _RULES[operator.target](rewriting, operator, given)
        rewriting.operators.append(
            operator if last is None else replace(operator, target=last[0], args=last[1:], kwargs={})
        )
    return rewriting.graph()


def is_said_otherwise(operator: TracedOperator, values: Mapping[str, TracedValue]) -> bool:
    """Whether there is a rule for it here."""
    return operator.target in _RULES and all(values[id].dtype == torch.float32 for id in operator.values)


def _negative(_: Rewriting, __: TracedOperator, given: _Given) -> tuple[Any, ...] | None:
    return aten.mul.Scalar, given["self"], -1.0


def _added(rewriting: Rewriting, operator: TracedOperator, given: _Given) -> tuple[Any, ...] | None:
    return _sum(rewriting, operator, given["self"], given["other"], given["alpha"])


def _subtracted(rewriting: Rewriting, operator: TracedOperator, given: _Given) -> tuple[Any, ...] | None:
    if given["alpha"] == 1 and isinstance(given["other"], Ref):
        return None
    return _sum(rewriting, operator, given["self"], given["other"], -given["alpha"])


def _subtracted_from(rewriting: Rewriting, operator: TracedOperator, given: _Given) -> tuple[Any, ...] | None:
    x = given["self"]
    product = rewriting.emit(operator, "product", x.shape, aten.mul.Scalar, x, -float(given["alpha"]))
    return _sum(rewriting, operator, product, given["other"], 1)


def _sum(rewriting: Rewriting, operator: TracedOperator, a: Any, b: Any, factor: float) -> tuple[Any, ...] | None:
    """``a + factor * b``."""
    if not isinstance(a, Ref) or (isinstance(b, Ref) and factor == 1):
        return None
    if isinstance(b, Ref):
        return aten.add.Tensor, a, rewriting.emit(operator, "product", b.shape, aten.mul.Scalar, b, float(factor))
    number = rewriting.emit(operator, "number", (1,), aten.full.default, [1], float(factor * b))
    return aten.add.Tensor, a, number


def _power(rewriting: Rewriting, operator: TracedOperator, given: _Given) -> tuple[Any, ...] | None:
    x, exponent = given["self"], given["exponent"]
    if exponent == 0:
        return aten.ones_like.default, x
    if exponent == 1:
        return CLONE, x
    if exponent == 2:
        return aten.mul.Tensor, x, x
    if exponent == 3:
        return aten.mul.Tensor, rewriting.emit(operator, "square", x.shape, aten.mul.Tensor, x, x), x
    return None


def _without_padding(rewriting: Rewriting, operator: TracedOperator, given: _Given) -> tuple[Any, ...] | None:
    """An embedding's gradient in which one row is zeros: the rows before it, and those after it."""
    rows, row = given["num_weights"], given["padding_idx"]
    if row < 0:
        return None
    gy = given["grad_output"]
    shape = (rows, gy.shape[-1])
    args = (gy, given["indices"], rows, -1, given["scale_grad_by_freq"])
    whole = rewriting.emit(operator, "rows", shape, operator.target, *args)
    parts = []
    for start, end in ((0, row), (row + 1, rows)):
        if start < end:
            view = View(aten.slice.Tensor, (0, start, end))
            parts.append((replace(whole, views=(view,), shape=(end - start, shape[1])), list(shape), 0, start, end, 1))
    if len(parts) == 1:
        return aten.slice_backward.default, *parts[0]
    before, after = (
        rewriting.emit(operator, name, shape, aten.slice_backward.default, *part)
        for name, part in zip(("before", "after"), parts, strict=True)
    )
    return aten.add.Tensor, before, after


_RULES: dict[Any, Callable[[Rewriting, TracedOperator, _Given], tuple[Any, ...] | None]] = {
    aten.neg.default: _negative,
    aten.add.Tensor: _added,
    aten.add.Scalar: _added,
    aten.sub.Tensor: _subtracted,
    aten.sub.Scalar: _subtracted,
    aten.rsub.Scalar: _subtracted_from,
    aten.pow.Tensor_Scalar: _power,
    aten.embedding_dense_backward.default: _without_padding,
}
