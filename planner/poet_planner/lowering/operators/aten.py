# SPDX-License-Identifier: Apache-2.0
"""Traced operators outside of the vocabulary: a name and a key that say enough to benchmark and to cost them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, TracedValue

from poet_planner.costs.features import UNKNOWN


def aten_operation(operator: TracedOperator, traced: TracedGraph) -> tuple[str, str]:
    """Name ``aten.NAME`` and key ``flops=… bytes=… in=AxB,C out=D`` of a traced operator.

    ``flops`` are those of `flops.flops`, or ``unknown``; ``bytes`` those read and written.
    """
    from poet_planner.lowering.operators.flops import flops

    count = flops(operator, traced)
    outputs = [traced.values[id] for id in operator.values]
    inputs = operator.refs
    tensors: tuple[Ref | TracedValue, ...] = (*inputs, *outputs)
    moved = sum(prod(tensor.shape) * tensor.dtype.itemsize for tensor in tensors)
    key = (
        f"flops={UNKNOWN if count is None else count} bytes={moved} "
        f"in={_shapes(ref.shape for ref in inputs)} out={_shapes(value.shape for value in outputs)}"
    )
    name, _, overload = str(operator.target).partition(".")[2].partition(".")
    return f"aten.{name}" if overload == "default" else f"aten.{name}.{overload}", key


def _shapes(shapes: Iterable[Sequence[int]]) -> str:
    return ",".join("x".join(map(str, shape)) or "1" for shape in shapes)
