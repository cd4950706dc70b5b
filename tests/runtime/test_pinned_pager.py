# SPDX-License-Identifier: Apache-2.0
"""Pages of a GPU, with streams that do nothing before they are waited for, and hold no tensor of the step's."""

from __future__ import annotations

import weakref

import pytest
import torch
from poet_planner import models
from poet_planner.tracing import trace
from poet_profiles.schedule import Action
from poet_runtime.compiled_step import compile_steps
from poet_runtime.executor import residents_of
from poet_runtime.pinned_pager import PinnedPager
from torch import Tensor

from tests.runtime.test_executor import RandomSchedule
from tests.runtime.test_pager import LAYOUTS
from tests.support.networks.eager import differences, eager_step

Held = tuple[weakref.ReferenceType[torch.UntypedStorage], int, int]


class Late:
    """Copies are made, in order, when one of them is waited for; a tensor that is freed before is a fault."""

    def __init__(self) -> None:
        self._begun: list[tuple[Held, Held]] = []
        self._done = 0

    def pinned(self, size: int) -> Tensor:
        return torch.full((size,), 255, dtype=torch.uint8)

    def copy(self, into: Tensor, data: Tensor) -> int:
        self._begun.append((_held(into), _held(data)))
        return len(self._begun)

    def wait(self, done: int) -> None:
        while self._done < done:
            into, data = (_there(held) for held in self._begun[self._done])
            into.copy_(data)
            self._done += 1

    def finish(self) -> None:
        self.wait(len(self._begun))


def _held(tensor: Tensor) -> Held:
    assert (tensor.dtype, tensor.dim()) == (torch.uint8, 1)
    return weakref.ref(tensor.untyped_storage()), tensor.storage_offset(), len(tensor)


def _there(held: Held) -> Tensor:
    storage = held[0]()
    assert storage is not None, "freed under a transfer"
    return torch.empty(0, dtype=torch.uint8).set_(storage, held[1], (held[2],), (1,))


@pytest.mark.parametrize("tensor", LAYOUTS.values(), ids=LAYOUTS)
def test_a_value_comes_back_as_it_was(tensor: Tensor) -> None:
    pager = PinnedPager(Late())
    first, slot = pager.slot("first", 100), pager.slot("value", tensor.untyped_storage().nbytes())
    pager.open()
    one = torch.arange(25)
    pager.page_out(first, one[:12])
    pager.page_out(slot, tensor)
    found, other = pager.page_in(slot), pager.page_in(first)
    pager.drain()
    assert torch.equal(found, tensor)
    assert (found.dtype, found.stride()) == (tensor.dtype, tensor.stride())
    assert torch.equal(other, one[:12])


def test_a_paged_step_waits_for_what_it_reads_and_for_what_it_frees() -> None:
    model = models.load("digits_cnn", 2)
    graph = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    schedule = RandomSchedule(graph, seed=1, restless=0.9)
    assert sum(step.do is Action.PAGE_IN for step in schedule.steps) > 2
    pager = PinnedPager(Late())
    step = compile_steps(graph, schedule.steps, pager)
    residents = residents_of(graph, model.module, model.inputs, model.targets)
    for _ in range(2):
        assert differences(model, eager_step(model), step.result(graph, residents)) == []
    assert pager.traffic.out_bytes > 0 < pager.traffic.in_bytes
    pager.abandon()
    pager.close()
