# SPDX-License-Identifier: Apache-2.0
"""Networks of our own that `benchmarks.planner.refusals` plans beside built-in ones: each takes a batch size."""

from __future__ import annotations

import torch
from poet_planner import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss


def speakers(batch: int | None = None) -> Model:
    """Who speaks: three blocks of Conv1d and 18,000 weights."""
    blocks: list[nn.Module] = []
    for inputs, outputs in ((13, 32), (32, 48), (48, 64)):
        blocks += [nn.Conv1d(inputs, outputs, 3, stride=2, padding=1), nn.ReLU()]
    module = nn.Sequential(*blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))
    return _classifier("speakers", module, (13, 96), 10, batch or 6)


def ecg(batch: int | None = None) -> Model:
    """An autoencoder of heartbeats."""
    module = nn.Sequential(
        nn.Conv1d(1, 8, 7, stride=2, padding=3), nn.ReLU(),
        nn.Conv1d(8, 16, 7, stride=2, padding=3), nn.ReLU(),
        nn.Upsample(scale_factor=2), nn.Conv1d(16, 8, 7, padding=3), nn.ReLU(),
        nn.Upsample(scale_factor=2), nn.Conv1d(8, 1, 7, padding=3),
    )  # fmt: skip
    x = torch.randn(batch or 4, 1, 128)
    return Model("ecg", module, (x,), (x.clone(),), mse_loss)


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(channels, channels, 3, padding=1)
        self.second = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


def residual(batch: int | None = None) -> Model:
    """A residual network of Conv1d."""
    layers = [nn.Conv1d(6, 24, 7, stride=2, padding=3), nn.ReLU(), *(_Residual(24) for _ in range(4))]
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 6))
    return _classifier("residual", module, (6, 128), 6, batch or 4)


def wide(batch: int | None = None) -> Model:
    """Few values and many weights: 70,000."""
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(256, 192), nn.ReLU(), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 5)
    )
    return _classifier("wide", module, (1, 256), 5, batch or 8)


def normed(batch: int | None = None) -> Model:
    """With a batch norm in training mode, which couples its samples."""
    module = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24 * 16, 10),
    )  # fmt: skip
    return _classifier("normed", module, (1, 16, 16), 10, batch or 8)


def _classifier(name: str, module: nn.Module, shape: tuple[int, ...], classes: int, batch: int) -> Model:
    torch.manual_seed(0)
    return Model(name, module, (torch.randn(batch, *shape),), (torch.arange(batch) % classes,), cross_entropy)
