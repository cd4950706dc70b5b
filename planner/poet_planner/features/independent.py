# SPDX-License-Identifier: Apache-2.0
"""Which values of a sample depend on that sample alone: found by looking, since what mixes samples has many names.

The forward operators that read the batch and what is frozen are computed twice: on the batch, and on the batch rolled
by one sample, with another first sample. Each row of a value has to move with its sample. What is on int8 is computed
as the firmware has it: PyTorch's sums in f32 may round a number up in one batch and down in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import Execution, residents_of
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import Kind, TracedGraph, TracedOperator
from torch import Tensor

from poet_planner.lowering.firmware import in_integers
from poet_planner.lowering.integers import has_integers
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_planner.tracing.micro_batches import samples_of

ROUNDING = 1e-4  # of the largest number of a value: a batch may be computed by another algorithm than its parts


def independent_values(model: Model, traced: TracedGraph) -> frozenset[str]:
    """Ids of the values of the traced step's fixed part whose rows are those of their samples.

    Raises
    ------
    UserError
        If the step cannot be traced with two samples, where its batch is of one.
    """
    if samples_of(model) == 1:
        model, ranges = _with_two(model), traced.int8_ranges
        traced = replace(trace(model.module, model.inputs, model.targets, model.loss, model.name), int8_ranges=ranges)
    if has_integers(traced):
        traced = in_integers(traced)
    samples = samples_of(model)
    generator = torch.Generator().manual_seed(0)
    here = _each(model.inputs, samples, lambda one: _told_apart(one, generator))
    rolled = _each(here, samples, lambda one: _with_another_first(torch.roll(one, 1, 0), generator))
    values, moved = (_values(traced, model, inputs) for inputs in (here, rolled))
    return _not_hidden(traced, frozenset(id for id, value in values.items() if _moves(value, moved[id], samples)))


def _with_two(model: Model) -> Model:
    def two(tensor: Tensor) -> Tensor:
        return torch.cat([tensor, tensor])

    return replace(model, inputs=_each(model.inputs, 1, two), targets=_each(model.targets, 1, two))


def _each(batch: tuple[Any, ...], samples: int, change: Any) -> tuple[Any, ...]:
    """The batch with each tensor changed that has the samples along its first axis."""
    tensors = [change(one) if one.dim() and one.shape[0] == samples else one for one in tensors_in(batch)]
    changed: tuple[Any, ...] = with_tensors(tuple(batch), tensors)
    return changed


def _told_apart(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Samples that differ: of equal ones, such as an example of zeros, nothing shows what mixes them."""
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach() + torch.randn(tensor.shape, generator=generator).to(tensor)


def _with_another_first(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Another neighbour for all others: of whole numbers, the same in another order."""
    tensor = tensor.detach().clone()
    if tensor.is_floating_point():
        tensor[0] = torch.randn(tensor[0].shape, generator=generator).to(tensor)
    else:
        tensor[0] = tensor[0].flatten().flip(0).reshape(tensor[0].shape)
    return tensor


def _values(traced: TracedGraph, model: Model, inputs: tuple[Any, ...]) -> dict[str, Tensor]:
    run = Execution(traced, residents_of(traced, model.module, inputs, model.targets))
    found: dict[str, Tensor] = {}
    for operator in _fixed(traced):
        run.step(Step(Action.COMPUTE, operator.id))
        found |= {id: run.values[id].clone() for id in operator.values}
    return found


def _fixed(traced: TracedGraph) -> Iterator[TracedOperator]:
    known = {one.id for one in traced.residents if one.kind is Kind.INPUT} | {*traced.frozen, *traced.constants}
    for operator in traced.operators:
        changes = operator.backward or operator.random or operator.updates or operator.writes
        if not changes and operator.recomputable and all(ref.source in known for ref in operator.refs):
            known.update(operator.values)
            yield operator


def _moves(value: Tensor, moved: Tensor, samples: int) -> bool:
    if not value.dim() or value.shape[0] != samples:
        return False
    largest = float(value.abs().max()) if value.is_floating_point() else 0.0
    return torch.allclose(torch.roll(value, 1, 0)[1:], moved[1:], rtol=ROUNDING, atol=ROUNDING * largest)


def _not_hidden(traced: TracedGraph, moving: frozenset[str]) -> frozenset[str]:
    """A little of another sample is lost where numbers are rounded to int8: what is made of them has to move, too."""
    read: set[str] = {one.id for one in traced.residents if one.kind is Kind.INPUT}
    hidden: set[str] = set()
    for operator in _fixed(traced):
        made_of = {ref.source for ref in operator.refs} & read
        if not made_of:
            continue
        read.update(operator.values)
        rounds = any(traced.values[id].dtype == torch.int8 for id in operator.values)
        if made_of & hidden or (rounds and not made_of & {*traced.values} <= moving):
            hidden.update(operator.values)
    return moving - hidden
