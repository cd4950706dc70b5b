# SPDX-License-Identifier: Apache-2.0
"""A backward pass in pieces leaves the bits of eager PyTorch's, however small they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from poet_planner.tracing.in_pieces import Step, backward_in_pieces
from poet_planner.tracing.snapshot import Snapshot
from poet_runtime.peak import allocations
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from tests.planner.tracing.test_saved import BATCH, Net, Swish, on_cpu, penalised

X, Y = BATCH


class Counting(Net):
    """What it does depends on a count, which each pass begins anew."""

    def forward(self, x: Tensor) -> Tensor:
        self.count = getattr(self, "count", 0) + 1
        return super().forward(x * self.count)


def taken(net: nn.Module, limit_bytes: float) -> tuple[list[Tensor], int]:
    """Loss, buffers and gradients; and how often the forward pass was begun."""
    before, random = Snapshot(net, data=False), torch.get_rng_state()
    buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
    left: list[Tensor] = []

    def again() -> None:
        gradients = [parameter.grad for parameter in net.parameters()]
        before.restore()
        torch.set_rng_state(random)
        for parameter, gradient in zip(net.parameters(), gradients, strict=True):
            parameter.grad = gradient
        for name, buffer in net.named_buffers():
            buffer.copy_(buffers[name])

    def between(loss: Tensor) -> None:
        left[:] = [loss.detach(), *(buffer.clone() for buffer in net.buffers())]
        net.zero_grad()

    step = Step(
        lambda: cross_entropy(net(X), Y),
        between,
        again,
        lambda: [buffer._version for buffer in net.buffers()],
        [*net.parameters(), *net.buffers(), X, Y],
    )
    passes = backward_in_pieces(step, limit_bytes)
    if passes == 1:
        left[1:] = net.buffers()
    return [*left, *(p.grad for p in net.parameters() if p.grad is not None)], passes


def checkpointed(reentrant: bool, x: Tensor) -> Tensor:
    return checkpoint(torch.tanh, x, use_reentrant=reentrant)  # type: ignore[no-any-return]


class Again(Net):
    """Eager PyTorch takes the batch norm twice, and its statistics move twice."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(checkpoint(nn.Sequential(nn.Conv2d(2, 2, 1), self.norm2), x, use_reentrant=False))

    def __init__(self, middle: Callable[[Tensor], Tensor]) -> None:
        super().__init__(middle)
        self.norm2 = nn.BatchNorm2d(2)


@pytest.mark.parametrize(
    ("kind", "middle", "whole"),
    [
        (Net, lambda x: x.exp().softmax(1), False),
        (Net, lambda x: Swish.apply(x, True), False),
        (Net, on_cpu, False),
        (Net, partial(checkpointed, False), False),
        (Net, partial(checkpointed, True), False),
        (Counting, torch.tanh, False),
        (Net, penalised, True),
        (Again, torch.tanh, True),
    ],
    ids=["plain", "function", "on cpu", "checkpoint", "reentrant", "counter", "gradient in forward", "writes backward"],
)
def test_bits_are_eagers(kind: Any, middle: Callable[[Tensor], Tensor], whole: bool) -> None:
    torch.manual_seed(0)
    net = kind(middle)
    own = copy.deepcopy(net)
    torch.manual_seed(1)
    expected, once = taken(own, float("inf"))
    torch.manual_seed(1)
    found, passes = taken(net, 2000.0)
    assert once == 1 and (passes == 1) is whole
    assert all(map(torch.equal, found, expected)) and len(found) == len(expected)


def test_it_takes_the_memory_of_a_piece() -> None:
    net = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(256, 256), nn.Tanh())))
    x = torch.randn(512, 256)
    before = Snapshot(net, data=False)
    step = Step(lambda: net(x).sum(), lambda _: None, lambda: None, lambda: None, [*net.parameters(), x])
    with allocations() as whole:
        backward_in_pieces(step, float("inf"))
    before.restore()
    with allocations() as peak:
        assert backward_in_pieces(step, 3.0 * x.nbytes) <= 5
    gradients = sum(parameter.nbytes for parameter in net.parameters())
    assert peak.bytes < gradients + 7 * x.nbytes < whole.bytes
