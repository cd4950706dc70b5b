# SPDX-License-Identifier: Apache-2.0
"""Small networks with a batch each."""

from __future__ import annotations

import torch
from poet_planner import models
from poet_planner.models.mobilenet import InvertedResidual
from poet_planner.models.resnet import BasicBlock
from poet_planner.models.transformer import Bert, Size
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


def small_bert() -> tuple[nn.Module, Batch]:
    size = Size(layers=1, hidden=32, heads=2, vocabulary=50, positions=16, dropout=0.1)
    return Bert(size), (torch.randint(50, (4, 16)), torch.randint(2, (4,)))


def small_resnet() -> tuple[nn.Module, Batch]:
    stem = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
    module = nn.Sequential(*stem, BasicBlock(8, 8, 1), BasicBlock(8, 16, 2), *_classifier(16))
    return module, (torch.randn(4, 3, 16, 16), torch.randint(10, (4,)))


def small_mobilenet() -> tuple[nn.Module, Batch]:
    stem = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)
    blocks = InvertedResidual(8, 8, 1, 1), InvertedResidual(8, 12, 2, 6), InvertedResidual(12, 12, 1, 6)
    return nn.Sequential(*stem, *blocks, *_classifier(12)), (torch.randn(4, 3, 16, 16), torch.randint(10, (4,)))


def small_vgg() -> tuple[nn.Module, Batch]:
    model = models.load("vgg16_cifar_w4", 4)
    return model.module, (model.inputs[0], model.targets[0])


def _classifier(channels: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(channels, 10)


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
