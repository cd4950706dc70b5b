# SPDX-License-Identifier: Apache-2.0
"""Networks of one dimension of which the last parts alone are trained: the rest is frozen, in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

CHANNELS, LENGTH, CLASSES = 12, 25, 9


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a, self.b = _block(channels, channels), _block(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.b(self.a(x))
        return result


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=2)


def badge_head(batch: int | None = None) -> Model:
    """18,000 weights, which flash has room for."""
    return _trained(_badge(), ("head",), batch or 6)


def badge_last_block(batch: int | None = None) -> Model:
    return _trained(_badge(), ("block3", "head"), batch or 6)


def wide_head(batch: int | None = None) -> Model:
    """1.09 million frozen weights, which flash has no room for."""
    parts = {
        "stem": nn.Sequential(_block(CHANNELS, 128), _block(128, 256, 2)),
        **{"res1": Residual(256), "res2": Residual(256), "res3": _block(256, 256, 2)},
        **{"mean": Mean(), "head": nn.Linear(256, CLASSES)},
    }
    return _trained(parts, ("head",), batch or 4)


def _badge() -> dict[str, nn.Module]:
    blocks = {"block1": _block(CHANNELS, 32), "block2": _block(32, 48, 2), "block3": _block(48, 64, 2)}
    return {**blocks, "mean": Mean(), "head": nn.Linear(64, CLASSES)}


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    convolution = nn.Conv1d(inputs, outputs, 3, padding=1, stride=stride, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm1d(outputs), nn.ReLU())


def _trained(parts: dict[str, nn.Module], trained: Iterable[str], batch: int) -> Model:
    """With numbers of its own in each tensor, which the parts' making does not give running statistics."""
    torch.manual_seed(0)
    module = nn.Sequential()
    for name, part in parts.items():
        module.add_module(name, part)
        for layer in part.modules():
            if isinstance(layer, nn.BatchNorm1d) and layer.running_var is not None and layer.running_mean is not None:
                nn.init.uniform_(layer.running_var, 0.8, 1.2)
                nn.init.normal_(layer.running_mean, std=0.1)
            if isinstance(layer, nn.Conv1d | nn.Linear):
                layer.reset_parameters()
        if name not in trained:
            part.requires_grad_(False).eval()
    inputs, labels = torch.randn(batch, CHANNELS, LENGTH), torch.randint(CLASSES, (batch,))
    return Model("job", module, (inputs,), (labels,), cross_entropy)
