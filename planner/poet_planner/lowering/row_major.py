# SPDX-License-Identifier: Apache-2.0
"""Every value row-major, where PyTorch stores it in another order of its axes.

What an operator computes does not hang on how its tensors are stored, and the firmware stores them as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from poet_runtime.traced_graph import Ref, TracedGraph, TracedValue, map_refs, row_major

from poet_planner.lowering.rules import is_row_major
from poet_planner.lowering.strided_copies import layout_of, viewed


def with_rows_in_order(traced: TracedGraph) -> TracedGraph:
    """The same graph with every value row-major that all its readers can see so.

    A gradient stays as it is: it lies in its parameter's layout.
    """
    readers: dict[str, list[Ref]] = {traced.loss.source: [traced.loss]}
    for operator in traced.operators:
        for ref in operator.refs:
            readers.setdefault(ref.source, []).append(ref)
    gradients = {ref.source for ref in traced.gradients.values()}
    moved = {
        id: replace(value, stride=row_major(value.shape))
        for id, value in traced.values.items()
        if id not in gradients
        and not is_row_major(value.shape, value.stride)
        and _are_views(value, readers.get(id, ()))
    }

    def seen(ref: Ref) -> Ref:
        if ref.source not in moved:
            return ref
        return replace(ref, stride=viewed(ref, moved[ref.source].shape).stride())

    def changed(arguments: Any) -> Any:
        return map_refs(arguments, seen)

    operators = tuple(
        replace(operator, args=changed(operator.args), kwargs=changed(operator.kwargs)) for operator in traced.operators
    )
    return replace(traced, operators=operators, values=traced.values | moved, loss=seen(traced.loss))


def _are_views(value: TracedValue, readers: Sequence[Ref]) -> bool:
    """Whether what the readers see of the value are views of it where it is row-major, too."""
    # A view by strides looks at the storage as it is.
    if any(view.target is torch.ops.aten.as_strided.default for ref in readers for view in ref.views):
        return False
    return all(layout_of(ref, value.shape) is not None for ref in readers)
