# SPDX-License-Identifier: Apache-2.0
"""An embedding's gradient in which the row of the padding is zeros.

It is a sum of the rows before it, and those after it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from poet_runtime.traced_graph import TracedGraph, TracedOperator, View

from poet_planner.lowering.rewrites.rewriting import Rewriting

aten = torch.ops.aten


def with_padding_apart(traced: TracedGraph) -> TracedGraph:
    """The same graph, in which no operator knows of a padding row."""
    rewriting = Rewriting(traced)
    for operator in traced.operators:
        padded = operator.target is aten.embedding_dense_backward.default and operator.args[3] >= 0
        rewriting.operators.append(_without_padding(rewriting, operator) if padded else operator)
    return rewriting.graph()


def _without_padding(rewriting: Rewriting, operator: TracedOperator) -> TracedOperator:
    gy, tokens, rows, row, by_frequency = operator.args
    shape = (rows, gy.shape[-1])
    whole = rewriting.emit(operator, "rows", shape, operator.target, gy, tokens, rows, -1, by_frequency)
    parts = []
    for start, end in ((0, row), (row + 1, rows)):
        if start < end:
            view = View(aten.slice.Tensor, (0, start, end))
            parts.append((replace(whole, views=(view,), shape=(end - start, shape[1])), list(shape), 0, start, end, 1))
    if len(parts) == 1:
        return replace(operator, target=aten.slice_backward.default, args=parts[0])
    before, after = (
        rewriting.emit(operator, name, shape, aten.slice_backward.default, *part)
        for name, part in zip(("before", "after"), parts, strict=True)
    )
    return replace(operator, target=aten.add.Tensor, args=(before, after))
