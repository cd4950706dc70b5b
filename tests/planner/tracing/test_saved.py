# SPDX-License-Identifier: Apache-2.0
"""A step that lets go what autograd saves is the step that holds it, or is not taken so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from poet_planner.tracing import saved, trace
from poet_profiles.errors import UserError
from poet_runtime.peak import allocations
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

capture = sys.modules["poet_planner.tracing.capture"]
BATCH = torch.randn(4, 2, 8, 8), torch.tensor([0, 1, 2, 0])


class Swish(torch.autograd.Function):
    """Saves for itself; if it is told to, the backward pass asks a question about its numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, asks: bool) -> Tensor:
        ctx.save_for_backward(x)
        ctx.asks = asks
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        y = x.sigmoid()
        return gradient * (y + 1 if ctx.asks and (x != 0).any() else y + x * y * (1 - y)), None


def on_cpu(x: Tensor) -> Tensor:
    with save_on_cpu():
        return x.exp().softmax(1)


def penalised(x: Tensor) -> Tensor:
    """A gradient within the forward pass."""
    return torch.autograd.grad(x.tanh().square().sum(), x, create_graph=True)[0]


def asking(x: Tensor) -> Tensor:
    y = penalised(x)
    return y if (y != 0).any() else x


class Net(nn.Module):
    def __init__(self, middle: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.norm, self.fc, self.middle = nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 3), middle

    def forward(self, x: Tensor) -> Tensor:
        x = self.middle(torch.relu_(self.norm(self.conv(x))))
        y: Tensor = self.fc(torch.dropout(torch.max_pool2d(x, 2), 0.3, self.training).mean((2, 3)))
        return y


def outcome(middle: Callable[[Tensor], Tensor]) -> tuple[Any, bool]:
    """The step, or why there is none; and whether saved tensors were let go."""
    torch.manual_seed(0)
    try:
        graph = trace(Net(middle), BATCH[:1], BATCH[1:], cross_entropy, "net")
    except UserError as refusal:
        return str(refusal), False
    return (graph.operators, graph.values, graph.gradients), graph.lets_go


@pytest.mark.parametrize(
    ("middle", "lets_go"),
    [
        (lambda x: x.exp().softmax(1), True),
        (lambda x: checkpoint(torch.exp, x, use_reentrant=False), True),
        (lambda x: Swish.apply(x, False), True),
        (on_cpu, True),
        (penalised, True),
        (lambda x: Swish.apply(x, True), False),
        (asking, False),
        (lambda x: x.exp().add_(1), False),
    ],
    ids=[
        "plain",
        "checkpoint",
        "function",
        "on cpu",
        "gradient in forward",
        "asks backward",
        "asks forward",
        "written",
    ],
)
def test_the_step_and_its_refusals_are_those_of_one_that_holds_everything(
    middle: Callable[[Tensor], Tensor], lets_go: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "LEAST_BYTES", 0)
    found, went = outcome(middle)
    monkeypatch.setattr(capture, "let_go", lambda *_: nullcontext())
    expected, _ = outcome(middle)
    assert found == expected
    assert went is lets_go


def test_it_takes_the_memory_of_a_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(256, 256), nn.GELU())), nn.Linear(256, 3))
    x, y = torch.randn(512, 256), torch.randint(3, (512,))

    def peak_bytes() -> int:
        with allocations() as peak:
            trace(module, (x,), (y,), cross_entropy, "net")
        return peak.bytes

    gradients = sum(parameter.nbytes for parameter in module.parameters())
    assert peak_bytes() < gradients + 5 * x.nbytes
    monkeypatch.setattr(capture, "let_go", lambda *_: nullcontext())
    assert peak_bytes() > gradients + 12 * x.nbytes
