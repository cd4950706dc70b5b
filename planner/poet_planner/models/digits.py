"""A small convolutional classifier of handwritten 8x8 digits, and the digits that come inside scikit-learn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn


def digits_cnn(channels: int = 8) -> nn.Module:
    """Four convolutions at full size and one behind a pooling: its activations, not its parameters, need the RAM."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index in range(1, 5):
        layers[f"conv{index}"] = nn.Conv2d(1 if index == 1 else channels, channels, 3, padding=1)
        layers[f"relu{index}"] = nn.ReLU()
    layers["pool1"] = nn.MaxPool2d(2)
    layers["conv5"] = nn.Conv2d(channels, 2 * channels, 3, padding=1)
    layers["relu5"] = nn.ReLU()
    layers["pool2"] = nn.MaxPool2d(2)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(2 * channels * 4, 10)
    return nn.Sequential(layers)


def digits_batches(batch: int, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Images in [0, 1], shape (batch, 1, 8, 8), and labels, shape (batch,), in an order that the seed decides."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(seed)
    for _ in range(steps):
        chosen = order.choice(len(digits.target), size=batch, replace=False)
        images = torch.from_numpy(digits.images[chosen].astype(np.float32) / 16.0)
        yield images[:, None], torch.from_numpy(digits.target[chosen].astype(np.int64))
