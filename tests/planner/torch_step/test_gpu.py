# SPDX-License-Identifier: Apache-2.0
"""Compiled steps on a GPU: refused in one line without one; where there is one, eager's numbers in less memory."""

from __future__ import annotations

import copy
from dataclasses import replace

import poet_planner as poet
import pytest
import torch
from poet_planner.torch_step import profile_here
from poet_planner.tracing import trace
from poet_planner.tracing.same_as_eager import refuse_other_results
from poet_profiles.errors import UserError
from poet_runtime.executor import residents_of
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.functional import cross_entropy

from tests.planner.torch_step.networks import small_resnet, tiny


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_a_model_on_one_is_refused_in_one_line() -> None:
    with FakeTensorMode():
        module, batch = nn.Module(), (torch.zeros(1, 2), torch.zeros(1, 2))
        module.weight = nn.Parameter(torch.empty(2, 2, device="cuda"))
        with pytest.raises(UserError, match=r"cuda:0: this PyTorch .* sees no GPU") as caught:
            poet.compile(module, cross_entropy, example=batch)
    assert "\n" not in str(caught.value)


def test_a_step_that_is_traced_wrongly_is_refused() -> None:
    module, batch = tiny()
    inputs, targets = (batch[0],), (batch[1],)
    traced = trace(module, inputs, targets, cross_entropy, "Tiny")
    residents = residents_of(traced, module, inputs, targets)
    before = copy.deepcopy(module.state_dict())
    refuse_other_results(traced, residents, module, cross_entropy, inputs, targets)
    assert all(torch.equal(tensor, before[id]) for id, tensor in module.state_dict().items())
    swapped = {**traced.gradients, "bn1.weight": traced.gradients["bn2.weight"]}
    with pytest.raises(UserError, match=r"the gradient of bn1.weight is not eager PyTorch's"):
        refuse_other_results(replace(traced, gradients=swapped), residents, module, cross_entropy, inputs, targets)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("pages", [None, "host"])
def test_three_steps_on_a_gpu_leave_eagers_numbers(pages: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that cost next to nothing are paged."""
    free = {"out_s": (1e-9, 0.0), "in_s": (1e-9, 0.0)}
    monkeypatch.setattr(profile_here, "_pinned", lambda device: free)
    monkeypatch.setattr(profile_here, "LEAST_PAGE_BYTES", 1024)
    module, (x, y) = small_resnet()
    module, x, y = module.cuda(), x.cuda(), y.cuda()
    other = copy.deepcopy(module)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.01) for part in (module, other)]
    with poet.compile(module, cross_entropy, example=(x, y), ram="75%", pages=pages, quiet=True) as step:
        for _ in range(3):
            torch.manual_seed(1)
            value = step(x, y)
            torch.manual_seed(1)
            loss = cross_entropy(other(x), y)
            loss.backward()
            torch.testing.assert_close(value, loss.detach())
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        assert step.report.peak_bytes is not None
        assert step.report.peak_bytes <= 1.05 * step.report.planned_peak_bytes
        assert (step.report.out_bytes > 0) == (pages is not None)
    for one, two in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_the_optimiser_steps_inside() -> None:
    module, (x, y) = small_resnet()
    module, x, y = module.cuda(), x.cuda(), y.cuda()
    other = copy.deepcopy(module)
    inside, outside = (torch.optim.AdamW(part.parameters(), lr=0.01) for part in (module, other))
    with poet.compile(module, cross_entropy, example=(x, y), ram="80%", optimizer=inside, quiet=True) as step:
        for _ in range(3):
            torch.manual_seed(1)
            step(x, y)
            torch.manual_seed(1)
            outside.zero_grad()
            cross_entropy(other(x), y).backward()
            outside.step()
    for one, two in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
