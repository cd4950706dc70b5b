# SPDX-License-Identifier: Apache-2.0
"""Convolutions over time, as a watch has them: kernels of 1 x 5 and 1 x 3 over six axes of movement."""

from __future__ import annotations

import torch
from poet_planner.models import Model
from torch import nn
from torch.nn.functional import cross_entropy

AXES, WINDOW, EXERCISES = 6, 64, 7


def make(batch: int | None) -> Model:
    """For `models.load`: 1,807 weights, windows of random numbers."""
    count = batch or 8
    module = nn.Sequential(
        *(nn.Conv2d(AXES, 8, (1, 5), stride=(1, 2), padding=(0, 2)), nn.ReLU()),
        *(nn.Conv2d(8, 16, (1, 5), stride=(1, 2), padding=(0, 2)), nn.ReLU()),
        *(nn.Conv2d(16, 16, (1, 3), stride=(1, 2), padding=(0, 1)), nn.ReLU()),
        *(nn.AvgPool2d((1, 8)), nn.Flatten(), nn.Linear(16, EXERCISES)),
    )
    inputs, targets = (torch.randn(count, AXES, 1, WINDOW),), (torch.randint(EXERCISES, (count,)),)
    return Model("watch", module, inputs, targets, cross_entropy)
