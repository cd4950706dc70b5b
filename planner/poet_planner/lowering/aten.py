"""Traced operators outside of the vocabulary: a name and a key that say enough to benchmark and to cost them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from poet_planner.tracing.ir import Blank, Ref, TracedGraph, TracedOperator, TracedValue


def aten_operation(operator: TracedOperator, traced: TracedGraph) -> tuple[str, str]:
    """Name ``aten.NAME`` and key ``flops=… bytes=… in=AxB,C out=D`` of a traced operator.

    ``flops`` are PyTorch's own count where it has one (products and attention), else one for each element written;
    ``bytes`` are those read and written.
    """
    outputs = [traced.values[id] for id in operator.values]
    inputs = operator.refs
    tensors: tuple[Ref | TracedValue, ...] = (*inputs, *outputs)
    moved = sum(prod(tensor.shape) * tensor.dtype.itemsize for tensor in tensors)
    key = (
        f"flops={_flops(operator, traced)} bytes={moved} "
        f"in={_shapes(ref.shape for ref in inputs)} out={_shapes(value.shape for value in outputs)}"
    )
    name, _, overload = str(operator.target).partition(".")[2].partition(".")
    return f"aten.{name}" if overload == "default" else f"aten.{name}.{overload}", key


def _shapes(shapes: Iterable[Sequence[int]]) -> str:
    return ",".join("x".join(map(str, shape)) or "1" for shape in shapes)


def _flops(operator: TracedOperator, traced: TracedGraph) -> int:
    import torch
    from torch.utils.flop_counter import flop_registry

    packet = operator.target.overloadpacket
    # Of attention PyTorch counts the kernels for GPUs alone, which have the same operands.
    alike = str(packet).removeprefix("aten.").replace("_for_cpu", "")
    count = flop_registry.get(getattr(torch.ops.aten, alike, packet))
    if count is None:
        return sum(prod(traced.values[id].shape) for id in operator.values)
    outputs = [traced.values[id].shape if id else None for id in operator.outputs]
    arguments = [argument.shape if isinstance(argument, Ref | Blank) else argument for argument in operator.args]
    return int(count(*arguments, out_val=outputs[0] if len(outputs) == 1 else outputs))
