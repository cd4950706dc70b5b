# SPDX-License-Identifier: Apache-2.0
"""Random numbers on the firmware (docs/SPEC.md, section 1): a generator among the state, and what draws from it.

What an operator draws follows from the generator's seed and step and from the operator's place among those that draw.
So a recomputation draws the same, and the generator moves on once a step, when everything else is done.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch
from poet_runtime.traced_graph import Blank, Kind, Ref, TracedGraph, TracedOperator, TracedResident

from poet_planner.lowering.operators.rules import Lowered, aten_name, nano

WORDS = 2  # seed and step


def generator_of(traced: TracedGraph) -> str | None:
    """Id of the resident that is the generator's state, where something draws."""
    return next((resident.id for resident in traced.residents if resident.kind is Kind.STATE), None)


def with_own_generator(traced: TracedGraph) -> TracedGraph:
    """The same graph with the firmware's generator in place of PyTorch's."""
    residents = (
        TracedResident(resident.id, Kind.STATE, 4 * WORDS, (WORDS,), torch.int32)
        if resident.kind is Kind.STATE
        else resident
        for resident in traced.residents
    )
    return replace(traced, residents=tuple(residents))


def drawn(operator: TracedOperator, traced: TracedGraph) -> Lowered | None:
    """The firmware's operator for one of PyTorch's that draws a mask."""
    generator = generator_of(traced)
    if aten_name(operator) != "bernoulli_.float" or generator is None or not isinstance(operator.args[0], Blank):
        return None
    mask, keep = (*operator.args, 0.5)[:2]
    keep_nano = nano(keep)
    if keep_nano is None:
        return None
    stream = [other.id for other in traced.operators if other.random].index(operator.id)
    params = {"size": prod(mask.shape), "keep_nano": keep_nano, "stream": stream}
    state = Ref(generator, (), (WORDS,), (1,), torch.int32)
    advance = Lowered("advance", {"steps": 1}, (state,), (generator,))
    return Lowered("bernoulli", params, (state,), (operator.writes[0].value,), update=None if stream else advance)
