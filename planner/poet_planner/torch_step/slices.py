# SPDX-License-Identifier: Apache-2.0
"""Slices of a batch, one after the other through one planned step, with gradients added up.

So bits are those of a loop that accumulates: ``for x, y in slices: (loss(model(x), y) / k).backward()``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.devices import device_named
from poet_runtime.executor import accumulate, storage_bytes
from poet_runtime.nested import tensors_in, with_tensors
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor

from poet_planner.torch_step.inner_optimizer import UpdateCost
from poet_planner.tracing.micro_batches import cut, divisors

AUTO = "auto"
_ELEMENTS = 1 << 21  # more than fits into most caches, where a parameter's sum is not
_ROUNDS = 5


@dataclass(frozen=True)
class Slices:
    """In how many slices a batch is taken; each has ``divisor`` as its loss's.

    ``plain_bytes`` is what a step on the whole batch allocates that keeps everything, where it is known already,
    ``sums_bytes`` what the sums over the slices before take.
    """

    count: int = 1
    divisor: int = 1
    plain_bytes: int | None = None
    sums_bytes: int = 0


WHOLE = Slices()


def first_slice(batch: Any, count: int) -> Any:
    """The first of so many slices, as nested as the batch."""
    return batch if count == 1 else with_tensors(batch, cut(tensors_in(batch), count)[0])


def counts_for(batch: Any) -> list[int]:
    """In how many equal slices it can be cut."""
    first = tensors_in(batch)[0]
    return divisors(first.shape[0] if first.dim() else 1)


def sums_bytes(traced: TracedGraph) -> int:
    """What the sums over slices take: of all gradients of a step, and of its loss."""
    return sum(traced.values[ref.source].bytes for ref in (*traced.gradients.values(), traced.loss))


class Sums:
    """In an optimiser's place: adds each gradient to its parameter's as soon as may be."""

    name = "accumulate"

    def __init__(self) -> None:
        self._parameters: Mapping[str, Tensor] = {}
        self._added = 0
        self._element_s = 0.0

    def holds(self, parameter: Tensor) -> bool:
        return True

    def cost(self, parameter: Tensor) -> UpdateCost:
        """Of an addition, in proportion to one that was measured outside of the caches."""
        self._element_s = self._element_s or _addition_s(parameter) / _ELEMENTS
        return UpdateCost(parameter.numel() * self._element_s, 0)

    @contextmanager
    def step(self, parameters: Mapping[str, Tensor], left: Mapping[str, Tensor]) -> Iterator[None]:
        """Within, `update` may be called for each of these parameters, by id, once a slice."""
        self._parameters, self._added = parameters, 0
        try:
            yield
        except UserError as error:
            if not self._added:
                raise
            raise UserError(f"{error}; gradients of a part of the batch have been added: call zero_grad()") from None
        finally:
            self._parameters = {}

    def update(self, name: str, gradient: Tensor) -> None:
        """Add a gradient to those of the slices before."""
        parameter = self._parameters[name]
        if parameter.grad is None and storage_bytes(gradient) > gradient.nbytes:
            gradient = gradient.clone()
        accumulate(parameter, gradient)
        self._added += 1


def _addition_s(parameter: Tensor) -> float:
    """Seconds of adding so many numbers to others, in the place of a parameter."""
    clock = device_named(str(parameter.device)).clock()
    sums, more = (torch.zeros(_ELEMENTS, dtype=parameter.dtype, device=parameter.device) for _ in range(2))
    times_ns = []
    for _ in range(_ROUNDS):
        started = clock()
        sums += more
        times_ns.append(clock() - started)
    return median(times_ns) * 1e-9
