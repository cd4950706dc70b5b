# SPDX-License-Identifier: Apache-2.0
"""What a training step computes from nothing but constants is computed here: the firmware is given it as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from poet_runtime.traced_graph import (
    Blank,
    Kind,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    map_refs,
    through,
)

from poet_planner.lowering.operators.rules import aten_name

_FROM_NUMBERS = (
    "arange.default",
    "arange.start",
    "arange.start_step",
    "eye.default",
    "eye.m",
    "linspace.default",
    "tril_indices.default",
    "triu_indices.default",
    "scalar_tensor.default",
    "full.default",
    "full_like.default",
    "new_full.default",
    "ones.default",
    "new_ones.default",
    "zeros.default",
    "zeros_like.default",
    "new_zeros.default",
)


def computed_constants(traced: TracedGraph) -> tuple[TracedResident, ...]:
    """The values that hang on no input, no parameter and no random number, as residents."""
    values = (traced.values[operator.values[0]] for operator in _operators(traced))
    return tuple(TracedResident(value.id, Kind.CONSTANT, value.bytes, value.shape, value.dtype) for value in values)


def constant_data(traced: TracedGraph) -> dict[str, torch.Tensor]:
    """Data of all constants, those that the graph comes with and those that it computes."""
    data = dict(traced.constants)
    for operator in _operators(traced):
        data[operator.values[0]] = computed(operator, data)
    return data


def computed(operator: TracedOperator, data: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """What an operator makes of constants alone."""
    args, kwargs = map_refs((operator.args, operator.kwargs), lambda ref: viewed(ref, data))
    result: torch.Tensor = operator.target(*map(_blank, args), **kwargs)
    return result.contiguous()


def viewed(ref: Ref, data: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """An operand that is a constant."""
    return through(ref.views, data[ref.source])


def stored(tensor: torch.Tensor) -> NDArray[Any]:
    """A tensor as the firmware has it: f32, int8 and int16 as they are, or i32 for other whole numbers and flags."""
    if tensor.dtype in (torch.int8, torch.int16):
        return tensor.detach().contiguous().numpy()
    if tensor.is_complex():
        tensor = tensor.real  # no operator of the firmware's will read it
    array = tensor.detach().to(torch.float32 if tensor.is_floating_point() else torch.int32).contiguous().numpy()
    return array.astype("<f4" if tensor.is_floating_point() else "<i4", copy=False)


def _blank(argument: Any) -> Any:
    """An argument of which nothing but the shape is looked at, as a tensor."""
    return torch.empty(argument.shape, dtype=argument.dtype) if isinstance(argument, Blank) else argument


def _operators(traced: TracedGraph) -> Iterator[TracedOperator]:
    known = {resident.id for resident in traced.residents if resident.kind is Kind.CONSTANT}
    for operator in traced.operators:
        if is_constant(operator, known, traced.values):
            known.add(operator.values[0])
            yield operator


def is_constant(operator: TracedOperator, known: set[str], values: Mapping[str, TracedValue]) -> bool:
    """Whether an operator makes one value, of nothing but numbers and of constants that are known."""
    if len(operator.outputs) != 1 or operator.writes or operator.updates or operator.random:
        return False
    if any(values[id].resident for id in operator.values):
        return False
    if not operator.refs:
        return aten_name(operator) in _FROM_NUMBERS
    return all(ref.source in known for ref in operator.refs)
