# SPDX-License-Identifier: Apache-2.0
"""Convolutional classifiers of handwritten 8x8 digits, and the digits that come inside scikit-learn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from poet_profiles.errors import UserError
from torch import Tensor, nn


class Residual(nn.Module):
    """x + relu(conv(x)): both addends and the sum are in RAM at once, so its input is expensive to recompute."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.relu(self.conv(x)))


def digits_cnn(channels: int = 8) -> nn.Module:
    """Four convolutions at full size and one after a pooling: its activations, not its parameters, need the RAM.

    Convolutions start as He et al. (2015) propose, residual branches at 0.3 of that, so that a few dozen steps of
    plain SGD are enough to see the loss fall.
    """
    module = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, channels, 3, padding=1),
            relu1=nn.ReLU(),
            block2=Residual(channels),
            block3=Residual(channels),
            block4=Residual(channels),
            pool1=nn.MaxPool2d(2),
            conv5=nn.Conv2d(channels, 2 * channels, 3, padding=1),
            relu5=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc=nn.Linear(2 * channels * 4, 10),
        )
    )
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(cast(Tensor, layer.bias))
            if name.startswith("block"):
                layer.weight.data.mul_(0.3)
    return module


def cnn_40k(hidden: int = 60) -> nn.Module:
    """Three convolutions of 16, 32 and 64 channels and two linear layers: its 39,326 parameters need the RAM."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 16, 3, padding=1),
            relu1=nn.ReLU(inplace=True),
            conv2=nn.Conv2d(16, 32, 3, stride=2, padding=1),
            relu2=nn.ReLU(inplace=True),
            conv3=nn.Conv2d(32, 64, 3, stride=2, padding=1),
            relu3=nn.ReLU(inplace=True),
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 2 * 2, hidden),
            relu4=nn.ReLU(inplace=True),
            fc2=nn.Linear(hidden, 10),
        )
    )


def digits_batches(batch: int, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Images in [0, 1], shape (batch, 1, 8, 8), and labels, shape (batch,), in an order that the seed decides."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise UserError("the digits come with scikit-learn: pip install scikit-learn") from None
    digits = load_digits()
    if batch > len(digits.target):
        raise UserError(f"--batch {batch}: there are {len(digits.target)} digits")
    order = np.random.default_rng(seed)
    for _ in range(steps):
        chosen = order.choice(len(digits.target), size=batch, replace=False)
        images = torch.from_numpy(digits.images[chosen].astype(np.float32) / 16.0)
        yield images[:, None], torch.from_numpy(digits.target[chosen].astype(np.int64))
