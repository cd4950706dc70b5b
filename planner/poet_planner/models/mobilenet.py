# SPDX-License-Identifier: Apache-2.0
"""MobileNets: version 1 (Howard et al., 2017; MLPerf Tiny's person detector) and version 2 (Sandler et al., 2018)."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

# Output channels at full width and stride of each depthwise-separable block.
_V1_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
)
# Expansion, output channels, repetitions and stride of each group of inverted residuals.
_V2_GROUPS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v1(width: float, classes: int) -> nn.Module:
    """Thirteen depthwise-separable blocks; ``width`` scales the channels."""
    channels = int(32 * width)
    layers = _conv_bn_relu(3, channels, 3, 2, nn.ReLU)
    for index, (wide, stride) in enumerate(_V1_BLOCKS, start=1):
        wider = int(wide * width)
        layers[f"block{index}"] = depthwise_separable(channels, wider, stride)
        channels = wider
    layers.update(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(channels, classes))
    return nn.Sequential(layers)


def depthwise_separable(channels: int, width: int, stride: int = 1) -> nn.Module:
    """A depthwise 3x3 and a pointwise 1x1 convolution, each with batch norm and ReLU."""
    return nn.Sequential(
        OrderedDict(
            depthwise=nn.Sequential(_conv_bn_relu(channels, channels, 3, stride, nn.ReLU, groups=channels)),
            pointwise=nn.Sequential(_conv_bn_relu(channels, width, 1, 1, nn.ReLU)),
        )
    )


class InvertedResidual(nn.Module):
    """Widen, convolve depthwise, narrow again; beside a shortcut where the shapes allow it."""

    def __init__(self, channels: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if expansion != 1:
            layers["expand"] = nn.Sequential(_conv_bn_relu(channels, hidden, 1, 1, nn.ReLU6))
        layers["depthwise"] = nn.Sequential(_conv_bn_relu(hidden, hidden, 3, stride, nn.ReLU6, groups=hidden))
        layers["project"] = nn.Conv2d(hidden, width, 1, bias=False)
        layers["bn"] = nn.BatchNorm2d(width)
        self.branch = nn.Sequential(layers)
        self.residual = stride == 1 and channels == width

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(x)
        return x + y if self.residual else y


def mobilenet_v2(classes: int) -> nn.Module:
    """Seventeen inverted residuals between a 3x3 stem and a 1x1 convolution to 1280 channels."""
    layers = _conv_bn_relu(3, 32, 3, 2, nn.ReLU6)
    channels = 32
    for group, (expansion, width, count, stride) in enumerate(_V2_GROUPS, start=1):
        for index in range(1, count + 1):
            layers[f"block{group}_{index}"] = InvertedResidual(channels, width, stride if index == 1 else 1, expansion)
            channels = width
    layers["head"] = nn.Sequential(_conv_bn_relu(channels, 1280, 1, 1, nn.ReLU6))
    layers.update(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), dropout=nn.Dropout(0.2))
    layers["fc"] = nn.Linear(1280, classes)
    return nn.Sequential(layers)


def _conv_bn_relu(
    channels: int,
    width: int,
    kernel: int,
    stride: int,
    activation: type[nn.ReLU] | type[nn.ReLU6],
    groups: int = 1,
) -> OrderedDict[str, nn.Module]:
    convolution = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return OrderedDict(conv=convolution, bn=nn.BatchNorm2d(width), relu=activation(inplace=True))
