# SPDX-License-Identifier: Apache-2.0
"""Plans small enough for a test on a slow double."""

from __future__ import annotations

import poet_planner
import torch
from poet_planner.models import Model
from poet_planner.planning.plan import Plan
from torch import nn


def small_plan() -> Plan:
    """Of a frozen convolution and, behind its features, layers of most kinds."""
    torch.manual_seed(0)
    trained = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4, 4)]
    net = nn.Sequential(nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.ReLU(), *trained)
    net[0].requires_grad_(False)
    model = Model("small", net, (torch.randn(4, 1, 8, 8),), (torch.randint(0, 4, (4,)),), nn.functional.cross_entropy)
    return poet_planner.plan(model, profile="nrf52840", features="auto")
