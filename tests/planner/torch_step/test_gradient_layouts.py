# SPDX-License-Identifier: Apache-2.0
"""Gradients lie as autograd lays them, and the copies that this takes are within the budget."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import poet_planner as poet
import pytest
import torch
from poet_runtime.executor import accumulate
from torch import Tensor, nn

CHANNELS_LAST = torch.channels_last


def chain() -> nn.Module:
    return nn.Sequential(*(layer for _ in range(8) for layer in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())))


class ChannelsLastInside(nn.Module):
    """As ConvNeXt's blocks; a depthwise weight has an axis of one element, too."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return x + self.down(torch.relu(self.up(self.norm(y)))).permute(0, 3, 1, 2)


class Mixed(nn.Module):
    """A parameter with gaps, a transposed one, and one that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps = nn.Parameter(torch.randn(6, 8)[:, ::2])
        self.turned = nn.Parameter(torch.randn(5, 4).t())
        self.twice = nn.Parameter(torch.randn(5, 5).t())

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.gaps @ self.turned @ self.twice @ self.twice.t()


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "channels-last batch": (chain, torch.randn(4, 32, 8, 8).contiguous(memory_format=CHANNELS_LAST)),
    "channels-last weights": (lambda: chain().to(memory_format=CHANNELS_LAST), torch.randn(4, 32, 8, 8)),  # type: ignore[call-overload]
    "channels last inside": (ChannelsLastInside, torch.randn(4, 3, 32, 32)),
    "gaps and turns": (Mixed, torch.randn(3, 6)),
}


def loss(y: Tensor) -> Tensor:
    return y.square().mean()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_seen_is_what_was_planned(name: str, inside: bool) -> None:
    make, x = NETWORKS[name]
    model = make()
    own = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9) for module in (model, own)]
    optimizer = {"optimizer": optimizers[0]} if inside else {}
    asked: dict[str, Any] = {"ram": "100%", "quiet": True, **optimizer}
    with poet.compile(model, loss, (x,), options=poet.OptimiseOptions(time_limit_s=60, gap=0.5), **asked) as step:
        for _ in range(3):
            step(x)
            optimizers[1].zero_grad()
            loss(own(x)).backward()
            optimizers[1].step()
            if not inside:
                for mine, eager in zip(model.parameters(), own.parameters(), strict=True):
                    assert mine.grad is not None and eager.grad is not None
                    assert mine.grad.stride() == eager.grad.stride()
                    assert torch.equal(mine.grad, eager.grad)
                optimizers[0].step()
                optimizers[0].zero_grad()
            assert all(map(torch.equal, model.parameters(), own.parameters()))
    report = step.report
    assert report.peak_bytes is not None and report.budget_bytes is not None
    assert report.peak_bytes <= report.planned_peak_bytes + 1024
    assert report.planned_peak_bytes <= report.budget_bytes


def test_a_boards_profile_has_a_price_for_the_copies() -> None:
    make, x = NETWORKS["channels-last batch"]
    with poet.compile(make(), loss, (x,), profile="a72", quiet=True) as step:
        assert any(id.endswith("..layout") for id in (node.id for node in step.planned.graph.nodes))
        step(x)


LAYOUTS: list[Callable[[], Tensor]] = [
    lambda: torch.randn(4, 3, 2, 2),
    lambda: torch.randn(4, 3, 2, 2).contiguous(memory_format=CHANNELS_LAST),
    lambda: torch.randn(4, 3, 2, 4)[..., ::2],
    lambda: torch.randn(3, 4, 2, 2).transpose(0, 1),
    lambda: torch.randn(1, 3, 2, 2).expand(4, 3, 2, 2),
    lambda: torch.empty_strided((4, 3, 2, 2), (12, 1, 6, 3)).normal_(),
]
THIN: list[Callable[[], Tensor]] = [
    lambda: torch.randn(4, 1, 2, 2),
    lambda: torch.randn(4, 1, 2, 2).contiguous(memory_format=CHANNELS_LAST),
    lambda: torch.empty_strided((4, 1, 2, 2), (4, 77, 2, 1)).normal_(),
]


@pytest.mark.parametrize("layouts", [LAYOUTS, THIN], ids=["full", "an axis of one element"])
def test_every_layout_is_kept_or_copied_as_autograd_does(layouts: list[Callable[[], Tensor]]) -> None:
    class Given(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, parameter: Tensor, gradient: Tensor) -> Tensor:
            ctx.save_for_backward(gradient)
            return parameter.sum()

        @staticmethod
        def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            (gradient,) = ctx.saved_tensors
            return torch.empty_strided(gradient.shape, gradient.stride()).copy_(gradient), None

    for make_parameter in layouts:
        for make_gradient in layouts:
            parameter, gradient = nn.Parameter(make_parameter()), make_gradient()
            if 0 in gradient.stride():
                continue
            Given.apply(parameter, gradient).backward()
            mine = nn.Parameter(make_parameter())
            accumulate(mine, torch.empty_strided(gradient.shape, gradient.stride()).copy_(gradient))
            assert parameter.grad is not None and mine.grad is not None
            assert mine.grad.stride() == parameter.grad.stride()
            assert torch.equal(mine.grad, parameter.grad)
