# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning: networks of which all is frozen but the end.

Their frozen weights are no pretrained ones. The seed draws them, so that equal names have equal weights, in the scale
that He et al. (2015) propose, and batch norms get statistics as training would leave them, none of them 0 or 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from poet_planner.models.mobilenet import mobilenet_v1

_LAST_BLOCK = "block13"
_POOL = 0  # among the widths of a backbone


def finetune_cnn() -> nn.Module:
    """Six frozen convolutions with batch norms, 416 KB, over digits of 8x8; a linear head is trained."""
    return _with_head(_backbone((16, 32, _POOL, 64, 64, _POOL, 72), 32), 4 * 32)


def finetune_cnn_small() -> nn.Module:
    """The same for a board of 32 KB: 124 KB are frozen."""
    return _with_head(_backbone((8, 16, _POOL, 32, 32, _POOL, 52), 16), 4 * 16)


def mobilenet_v1_last_block(width: float, classes: int) -> nn.Module:
    """MobileNetV1 with all but its last block and its classifier frozen."""
    module = mobilenet_v1(width, classes)
    trained = False
    for name, layer in module.named_children():
        trained = trained or name == _LAST_BLOCK
        if not trained:
            _freeze(layer)
    return module


def _backbone(widths: Sequence[int], features: int) -> nn.Module:
    """3x3 convolutions of these widths and poolings, then a 1x1 convolution whose results may be negative."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 1
    for index, width in enumerate(widths, start=1):
        if width == _POOL:
            layers[f"pool{index}"] = nn.MaxPool2d(2)
            continue
        layers[f"conv{index}"] = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        layers[f"bn{index}"] = nn.BatchNorm2d(width)
        layers[f"relu{index}"] = nn.ReLU()
        channels = width
    layers.update(conv=nn.Conv2d(channels, features, 1, bias=False), bn=nn.BatchNorm2d(features), flatten=nn.Flatten())
    return nn.Sequential(layers)


def _with_head(backbone: nn.Module, features: int) -> nn.Module:
    _freeze(backbone)
    return nn.Sequential(OrderedDict(backbone=backbone, head=nn.Linear(features, 10)))


def _freeze(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.8, 1.2)
            nn.init.normal_(layer.bias, std=0.1)
            nn.init.normal_(cast(Tensor, layer.running_mean), std=0.1)
            nn.init.uniform_(cast(Tensor, layer.running_var), 0.8, 1.2)
    module.requires_grad_(False).eval()
