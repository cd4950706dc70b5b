# SPDX-License-Identifier: Apache-2.0
"""Residual networks (He et al., 2016): for ImageNet, for CIFAR-10 as POET has them, and MLPerf Tiny's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(channels, width, stride)
        self.relu2 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        total: Tensor = self.relu2(y + self.shortcut(x))
        return total


class PoetBlock(nn.Module):
    """Two 3x3 convolutions, rectified, beside a third one in the place of a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv3 = nn.Conv2d(channels, width, 3, stride=stride, padding=1)
        self.bn3 = nn.BatchNorm2d(width)
        self.relu3 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        total: Tensor = self.relu3(y + self.bn3(self.conv3(x)))
        return total


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a widening 1x1 convolution beside a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.shortcut = _shortcut(channels, width * self.expansion, stride)
        self.relu3 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        total: Tensor = self.relu3(y + self.shortcut(x))
        return total


def resnet18(width: int = 64, classes: int = 1000) -> nn.Module:
    """For ImageNet: a 7x7 stem of stride 2 and a max-pooling, then four stages of two blocks."""
    return _resnet(BasicBlock, (2, 2, 2, 2), width, classes, pool=True)


def resnet18_cifar(width: int = 64, classes: int = 10) -> nn.Module:
    """For 32x32 images, as the POET paper has it: the same stem without the pooling, so that stage 1 is 16x16."""
    return _resnet(BasicBlock, (2, 2, 2, 2), width, classes, pool=False)


def poet_resnet18(classes: int = 10) -> nn.Module:
    """For 32x32 images, as POET's open code has it: 16, 32 and 64 channels, three convolutions in each of six blocks.

    247,370 parameters and 1,376 running statistics: the 248,746 that POET's code counts for its CIFAR-10 ResNet-18.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv1=nn.Conv2d(3, 16, 3, padding=1), bn1=nn.BatchNorm2d(16))
    channels = 16
    for stage, width in enumerate((16, 32, 64), start=1):
        for index in range(2):
            layers[f"block{stage}_{index + 1}"] = PoetBlock(channels, width, 2 if stage > 1 and not index else 1)
            channels = width
    layers.update(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(channels, classes))
    return nn.Sequential(layers)


def resnet50(width: int = 64, classes: int = 1000) -> nn.Module:
    """For ImageNet: bottleneck blocks, 3, 4, 6 and 3 in the stages."""
    return _resnet(Bottleneck, (3, 4, 6, 3), width, classes, pool=True)


def resnet8(classes: int = 10) -> nn.Module:
    """MLPerf Tiny's image classifier: a 3x3 stem of 16 channels, then three stages of one block."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, 16, 3, padding=1, bias=False), bn1=nn.BatchNorm2d(16), relu1=nn.ReLU(inplace=True)
    )
    channels = 16
    for stage, width in enumerate((16, 32, 64), start=1):
        layers[f"block{stage}"] = BasicBlock(channels, width, 1 if stage == 1 else 2)
        channels = width
    layers.update(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(64, classes))
    return nn.Sequential(layers)


def _resnet(
    block: type[BasicBlock] | type[Bottleneck], blocks: Sequence[int], width: int, classes: int, pool: bool
) -> nn.Module:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
        bn1=nn.BatchNorm2d(width),
        relu1=nn.ReLU(inplace=True),
    )
    if pool:
        layers["pool1"] = nn.MaxPool2d(3, stride=2, padding=1)
    channels = width
    for stage, count in enumerate(blocks):
        members = []
        for index in range(count):
            members.append(block(channels, width * 2**stage, 2 if stage and not index else 1))
            channels = width * 2**stage * block.expansion
        layers[f"layer{stage + 1}"] = nn.Sequential(*members)
    layers.update(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(channels, classes))
    return nn.Sequential(layers)


def _shortcut(channels: int, width: int, stride: int) -> nn.Module:
    if stride == 1 and channels == width:
        return nn.Identity()
    return nn.Sequential(
        OrderedDict(conv=nn.Conv2d(channels, width, 1, stride=stride, bias=False), bn=nn.BatchNorm2d(width))
    )
