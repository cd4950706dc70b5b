# SPDX-License-Identifier: Apache-2.0
"""Three gestures in ten samples of a sensor with six axes: the network that Gesture.ino trains.

poet-plan --model gesture:network --profile nrf52840 --optimizer adam --library gesture --out build
"""

from __future__ import annotations

import torch
from poet_planner.models import Model
from torch import nn
from torch.nn.functional import cross_entropy

NAMES = ("up", "down", "circle")


def network(batch: int | None) -> Model:
    """60-4-3, and a batch of random numbers: five of each gesture."""
    x, y = torch.randn(batch or 15, 60), torch.randint(len(NAMES), (batch or 15,))
    layers = nn.Sequential(nn.Linear(60, 4), nn.Sigmoid(), nn.Linear(4, len(NAMES)))
    return Model("gesture", layers, (x,), (y,), cross_entropy, NAMES)
