# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's keyword spotter and anomaly detector (Banbury et al., 2021); resnet and mobilenet have its others."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

from torch import nn

from poet_planner.models.mobilenet import depthwise_separable

SPECTROGRAM = (49, 10)
KEYWORDS = 12
ANOMALY_FEATURES = 640


def ds_cnn() -> nn.Module:
    """Depthwise-separable network of 64 channels over a spectrogram of 49 frames by 10 coefficients.

    Without the reference model's two dropouts: a microcontroller could not draw PyTorch's random numbers.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(1, 64, (10, 4), stride=2, padding=(5, 1), bias=False),
        bn1=nn.BatchNorm2d(64),
        relu1=nn.ReLU(inplace=True),
    )
    for index in range(1, 5):
        layers[f"block{index}"] = depthwise_separable(64, 64)
    layers.update(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(64, KEYWORDS))
    return nn.Sequential(layers)


def autoencoder() -> nn.Module:
    """Linear layers 640-128-128-128-128-8-128-128-128-128-640 with batch norm; it learns to repeat its input."""
    sizes = (ANOMALY_FEATURES, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for index, (features, wider) in enumerate(pairwise(sizes), start=1):
        layers[f"fc{index}"] = nn.Linear(features, wider)
        layers[f"bn{index}"] = nn.BatchNorm1d(wider)
        layers[f"relu{index}"] = nn.ReLU()
    layers[f"fc{len(sizes)}"] = nn.Linear(sizes[-1], ANOMALY_FEATURES)
    return nn.Sequential(layers)
