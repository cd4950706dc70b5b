# SPDX-License-Identifier: Apache-2.0
"""A small network as one fine-tunes it: a frozen layer, a batch norm that is trained, tied weights, an unused layer."""

from __future__ import annotations

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Pretrained(nn.Module):
    """On images of 8x8."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.one, self.other = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.other.weight = self.one.weight
        self.head, self.unused = nn.Linear(4 * 16, 5), nn.Linear(2, 2)
        self.stem.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.one(torch.relu(self.stem(x)))))
        x = nn.functional.avg_pool2d(torch.relu(self.other(x)), 2)
        scores: Tensor = self.head(x.flatten(1))
        return scores


def make(batch: int | None) -> Model:
    """For `models.load`."""
    count = batch or 4
    inputs, targets = (torch.randn(count, 1, 8, 8),), (torch.randint(5, (count,)),)
    return Model("pretrained", Pretrained(), inputs, targets, cross_entropy)
