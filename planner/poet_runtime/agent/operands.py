# SPDX-License-Identifier: Apache-2.0
"""Data for a step that nobody has data for: random, within what its operators take, and never denormal."""

from __future__ import annotations

import math

import torch
from poet_profiles.protocol.status import Status
from torch import Tensor

from poet_runtime.agent import system
from poet_runtime.agent.server import RefusedError
from poet_runtime.traced_graph import Kind, TracedGraph, TracedResident

SEED = 1
GIVEN = frozenset({Kind.PARAMETER, Kind.BUFFER, Kind.INPUT, Kind.TARGET})
# Away from zero: a variance, or what a root or a logarithm is taken of.
POSITIVE = (0.1, 1.0)
AROUND_ZERO = (-0.5, 0.5)


def random_residents(graph: TracedGraph) -> dict[str, Tensor]:
    """A tensor for each parameter, buffer, input and target; integers within the range of the program's example."""
    generator = torch.Generator().manual_seed(SEED)
    return {
        resident.id: random_tensor(
            resident.shape,
            resident.stride,
            resident.dtype,
            graph.ranges.get(resident.id) or _range(resident),
            generator,
        )
        for resident in graph.residents
        if resident.kind in GIVEN
    }


def random_tensor(
    shape: tuple[int, ...],
    stride: tuple[int, ...] | None,
    dtype: torch.dtype,
    limits: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """A tensor of a layout, uniform between two limits; elements that share memory share their number."""
    extents = [] if stride is None else [(size - 1) * step for size, step in zip(shape, stride, strict=True)]
    count = math.prod(shape) if stride is None else 1 + sum(extents) if all(shape) else 0
    if dtype.is_floating_point or dtype.is_complex:
        check_room(count * dtype.itemsize, "an operand needs")
        base = torch.rand(count, dtype=dtype, generator=generator).mul_(limits[1] - limits[0]).add_(limits[0])
    else:
        check_room(count * (torch.int64.itemsize + dtype.itemsize), "an operand needs")
        base = torch.randint(int(limits[0]), int(limits[1]) + 1, (count,), generator=generator).to(dtype)
    return base.reshape(shape) if stride is None else base.as_strided(shape, stride)


def check_room(needed_bytes: int, what: str) -> None:
    """Refuse what the board has not the RAM for: the system would end the agent."""
    there_bytes = system.available_bytes()
    if needed_bytes > there_bytes:
        raise RefusedError(Status.E_MEMORY, f"{what} {needed_bytes} B, of which {there_bytes} are free on the board")


def _range(resident: TracedResident) -> tuple[float, float]:
    """Weights as they are when training begins, so that nothing in the step vanishes or overflows."""
    if not (resident.dtype.is_floating_point or resident.dtype.is_complex):
        return (0, 1)
    if resident.kind is Kind.PARAMETER and len(resident.shape) > 1:
        bound = math.sqrt(3 / max(1, math.prod(resident.shape[1:])))
        return (-bound, bound)
    return POSITIVE if resident.kind in (Kind.PARAMETER, Kind.BUFFER) else AROUND_ZERO
