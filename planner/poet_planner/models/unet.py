# SPDX-License-Identifier: Apache-2.0
"""U-Net (Ronneberger et al., 2015), padded, with batch norm."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn


class UNet(nn.Module):
    """Labels every pixel; every level halves the image and doubles the channels.

    Parameters
    ----------
    channels, classes : int
        Of the input and of the output.
    width : int
        Channels of the first level.
    levels : int
        How often the image is halved; its sides are multiples of ``2 ** levels``.
    """

    def __init__(self, channels: int, classes: int, width: int = 32, levels: int = 4) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(
            _double(before, after) for before, after in zip([channels, *widths], widths, strict=False)
        )
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * wide, wide, 2, stride=2) for wide in reversed(widths[:-1]))
        self.merge = nn.ModuleList(_double(2 * wide, wide) for wide in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for level, down in enumerate(self.down):
            x = down(x if level == 0 else self.pool(x))
            skipped.append(x)
        skipped.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat((skipped.pop(), up(x)), dim=1))
        logits: Tensor = self.head(x)
        return logits


def _double(channels: int, width: int) -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, width, 3, padding=1, bias=False),
            bn1=nn.BatchNorm2d(width),
            relu1=nn.ReLU(inplace=True),
            conv2=nn.Conv2d(width, width, 3, padding=1, bias=False),
            bn2=nn.BatchNorm2d(width),
            relu2=nn.ReLU(inplace=True),
        )
    )
