# SPDX-License-Identifier: Apache-2.0
"""Which values of a sample depend on that sample alone: found by looking, since what mixes samples has many names.

The forward operators that read the batch and what is frozen are computed twice: on a drawn batch, and on that rolled by
one sample, with another first sample. Each row of a value has to move with its sample. What is on int8 is computed
as the firmware has it: PyTorch's sums in f32 may round a number up in one batch and down in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import torch
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import Execution, residents_of
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import Kind, TracedGraph, TracedOperator
from torch import Tensor

from poet_planner.lowering.firmware import in_integers
from poet_planner.lowering.int8.integers import has_integers
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_planner.tracing.drawn_batches import Batch, drawn_batches
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
        traced = replace(
            trace(model.module, model.inputs, model.targets, model.loss, model.name, segments=1),
            int8_ranges=ranges,
        )
    if has_integers(traced):
        traced = in_integers(traced)
    samples = samples_of(model)
    for here, others in zip(drawn_batches(model, traced), drawn_batches(model, traced, seed=1), strict=True):
        with suppress(IndexError, RuntimeError):  # of numbers that it does not take
            values = _values(traced, model, here)
            moved = _values(traced, model, _rolled(here, others, samples))
            if not any(value.isnan().any() for value in values.values()):
                moving = (id for id, value in values.items() if _moves(value, moved[id], samples))
                return _not_hidden(traced, frozenset(moving))
    return frozenset()


def _with_two(model: Model) -> Model:
    batch = (tuple(model.inputs), tuple(model.targets))
    tensors = [torch.cat([one, one]) if one.dim() and one.shape[0] == 1 else one for one in tensors_in(batch)]
    inputs, targets = with_tensors(batch, tensors)
    return replace(model, inputs=inputs, targets=targets)


def _rolled(here: Batch, others: Batch, samples: int) -> Batch:
    """Each sample in the next one's place, and a stranger in the first's, of numbers that show in a mean."""
    tensors = [
        torch.cat([other[:1] * (100 if one.is_floating_point() else 1), one[:-1]])
        if one.dim() and one.shape[0] == samples
        else one
        for one, other in zip(tensors_in(here), tensors_in(others), strict=True)
    ]
    rolled: Batch = with_tensors(here, tensors)
    return rolled


def _values(traced: TracedGraph, model: Model, batch: Batch) -> dict[str, Tensor]:
    run = Execution(traced, residents_of(traced, model.module, *batch))
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
