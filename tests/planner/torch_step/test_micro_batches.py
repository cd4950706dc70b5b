# SPDX-License-Identifier: Apache-2.0
"""Slices of a batch are named as a cure only where taking it leaves the batch's gradients within the memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import poet_planner as poet
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from tests.planner.torch_step.networks import Batch, tiny

RAM = "30%"
Loss = Callable[[Tensor, Tensor], Tensor]


def convolutions(*more: nn.Module) -> tuple[nn.Module, Batch]:
    first = nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
    module = nn.Sequential(*first, *more, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return module, (torch.randn(8, 2, 16, 16), torch.randint(10, (8,)))


def summed(y: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(y, labels, reduction="sum")


def weighted(y: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(y, labels, weight=torch.arange(1.0, 11.0))


def contrasting(y: Tensor, labels: Tensor) -> Tensor:
    rows = normalize(y, dim=1)
    return cross_entropy(rows @ rows.t(), torch.arange(len(rows)))


def refusal(module: nn.Module, loss: Loss, batch: Batch) -> poet.NoScheduleError:
    options = poet.OptimiseOptions(time_limit_s=1.0)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(poet.NoScheduleError) as caught:
        poet.compile(module, loss, example=batch, ram=RAM, options=options, quiet=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert "\n" not in str(caught.value)
    assert caught.value.printed == str(caught.value)
    return caught.value


@pytest.mark.parametrize("loss", [cross_entropy, summed])
def test_the_cure_does(loss: Loss) -> None:
    module, (x, y) = convolutions()
    budget = int(0.3 * poet.compile(module, loss, example=(x, y), quiet=True).report.plain_peak_bytes)
    said = str(refusal(module, loss, (x, y)))
    found = re.search(r"steps on (\d+) of its 8 samples at a time do: compile for these(.*), and the", said)
    assert found
    samples, divided = int(found[1]), found[2]
    assert divided == ("" if loss is summed else f" with a loss divided by {8 // samples}")
    divisor = int(divided.rpartition(" ")[2] or 1)
    eager = copy.deepcopy(module)
    loss(eager(x), y).backward()
    slices = [*zip(x.split(samples), y.split(samples), strict=True)]
    step = poet.compile(
        module, lambda out, target: loss(out, target) / divisor, example=slices[0], ram=budget, quiet=True
    )
    for one in slices:
        step(*one)
    assert step.report.peak_bytes <= budget
    for ours, theirs in zip(module.parameters(), eager.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


class Fixed(nn.Module):
    """Works with batches of eight only."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(8, 8, 16, 16)


@pytest.mark.parametrize(
    ("network", "loss"),
    [
        (tiny, cross_entropy),
        (lambda: convolutions(nn.BatchNorm2d(8, track_running_stats=False)), cross_entropy),
        (lambda: convolutions(nn.Dropout(0.1)), cross_entropy),
        (lambda: convolutions(Fixed()), cross_entropy),
        (convolutions, contrasting),
        (convolutions, weighted),
    ],
    ids=["batch norm", "batch norm without buffers", "dropout", "fixed size", "contrasting loss", "weights of classes"],
)
def test_where_the_samples_matter_to_each_other_or_nobody_can_tell_it_is_not_named(
    network: Callable[[], tuple[nn.Module, Batch]], loss: Loss
) -> None:
    module, batch = network()
    assert "at a time" not in str(refusal(module, loss, batch))
