# SPDX-License-Identifier: Apache-2.0
"""Circles, squares and crosses of 96x96 bytes, and a network that tells them apart."""

from __future__ import annotations

import numpy as np
import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

NAMES = ("circle", "square", "cross")
SIDE = 96


class Numbers(nn.Module):
    """Numbers of 0 to 1: poet reads the bytes as they come from a camera."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def network(batch: int | None) -> Model:
    """Two convolutions and a dense layer, 2,355 parameters."""
    layers = nn.Sequential(
        *(Numbers(), nn.Conv2d(3, 4, 3), nn.LeakyReLU(0.1), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.MaxPool2d(5), nn.Flatten(), nn.Linear(8 * 9 * 9, len(NAMES))),
    )
    x, y = pictures(batch or 3, seed=int(torch.randint(1 << 31, ())))
    return Model("camera", layers, (torch.from_numpy(x),), (torch.from_numpy(y),), cross_entropy, NAMES)


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Drawn pictures, bytes (count, 3, 96, 96), and what each shows, one shape after the other."""
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 128, (count, 3, SIDE, SIDE), dtype=np.uint8)
    y = np.arange(count) % len(NAMES)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    for picture, shape in zip(x, y, strict=True):
        row, column = generator.integers(30, SIDE - 30, 2)
        size, colour = generator.integers(16, 28), generator.integers(160, 256, 3)
        down, across = abs(rows - row), abs(columns - column)
        inside = (
            down**2 + across**2 <= size**2,
            np.maximum(down, across) <= size,
            np.minimum(down, across) <= size // 3,
        )
        near = np.maximum(down, across) <= size
        picture[:, inside[shape] & near] = colour[:, None]
    return x, y
