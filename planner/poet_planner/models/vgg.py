# SPDX-License-Identifier: Apache-2.0
"""VGG16 (Simonyan and Zisserman, 2014), as the POET paper trains it."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

_CONVOLUTIONS = (2, 2, 3, 3, 3)


def vgg16(image: int, classes: int, width: int = 64, hidden: int = 4096, dropout: bool = False) -> nn.Module:
    """Thirteen convolutions in five blocks, then three linear layers.

    Parameters
    ----------
    image : int
        Height and width of the three-channel input; a multiple of 32.
    width : int
        Channels of the first block; every block doubles them, up to eight times as many. VGG16 has 64.
    hidden : int
        Features of the two hidden linear layers.
    dropout : bool
        Whether half of them are dropped, as the paper has it; a microcontroller could not draw PyTorch's numbers.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 3
    for block, count in enumerate(_CONVOLUTIONS, start=1):
        wider = width * min(2 ** (block - 1), 8)
        for index in range(1, count + 1):
            layers[f"conv{block}_{index}"] = nn.Conv2d(channels, wider, 3, padding=1)
            layers[f"relu{block}_{index}"] = nn.ReLU(inplace=True)
            channels = wider
        layers[f"pool{block}"] = nn.MaxPool2d(2)
    layers["flatten"] = nn.Flatten()
    features = channels * (image // 32) ** 2
    for index in (6, 7):
        layers[f"fc{index}"] = nn.Linear(features, hidden)
        layers[f"relu{index}"] = nn.ReLU(inplace=True)
        if dropout:
            layers[f"dropout{index}"] = nn.Dropout(0.5)
        features = hidden
    layers["fc8"] = nn.Linear(hidden, classes)
    return nn.Sequential(layers)
