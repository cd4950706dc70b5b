# SPDX-License-Identifier: Apache-2.0
"""Small networks with a batch each."""

from __future__ import annotations

import torch
from poet_planner import models
from poet_planner.models.mobilenet import mobilenet_v2
from poet_planner.models.transformer import Bert, Size
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


def small_bert() -> tuple[nn.Module, Batch]:
    size = Size(layers=2, hidden=32, heads=2, vocabulary=50, positions=16, dropout=0.1)
    return Bert(size), (torch.randint(50, (4, 16)), torch.randint(2, (4,)))


def built_in(name: str) -> tuple[nn.Module, Batch]:
    model = models.load(name, 4)
    return model.module, (model.inputs[0], model.targets[0])


def narrow_mobilenet() -> tuple[nn.Module, Batch]:
    return mobilenet_v2(10), (torch.randn(2, 3, 32, 32), torch.randint(10, (2,)))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(torch.relu(self.bn2(self.conv2(x))).mean((2, 3)))


def tiny() -> tuple[nn.Module, Batch]:
    return Tiny(), (torch.randn(4, 2, 16, 16), torch.randint(10, (4,)))
