# SPDX-License-Identifier: Apache-2.0
"""Small networks with a batch each."""

from __future__ import annotations

import torch
from poet_planner import models
from poet_planner.models.mobilenet import InvertedResidual
from poet_planner.models.resnet import BasicBlock
from poet_planner.models.transformer import Bert, Size
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


def small_bert() -> tuple[nn.Module, Batch]:
    size = Size(layers=1, hidden=32, heads=2, vocabulary=50, positions=16, dropout=0.1)
    return Bert(size), (torch.randint(50, (4, 16)), torch.randint(2, (4,)))


def small_resnet() -> tuple[nn.Module, Batch]:
    stem = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
    module = nn.Sequential(*stem, BasicBlock(8, 8, 1), BasicBlock(8, 16, 2), *_classifier(16))
    return module, (torch.randn(4, 3, 16, 16), torch.randint(10, (4,)))


def small_mobilenet() -> tuple[nn.Module, Batch]:
    stem = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)
    blocks = InvertedResidual(8, 8, 1, 1), InvertedResidual(8, 12, 2, 6), InvertedResidual(12, 12, 1, 6)
    return nn.Sequential(*stem, *blocks, *_classifier(12)), (torch.randn(4, 3, 16, 16), torch.randint(10, (4,)))


class Rms(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class GroupedAttention(nn.Module):
    """With fewer heads of keys and values than of queries, and rotary positions."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.width, bias=False) for _ in range(2))

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (heads, self.width)).transpose(1, 2)
            for part, heads in ((self.q, self.heads), (self.k, self.groups), (self.v, self.groups))
        )
        mixed = nn.functional.scaled_dot_product_attention(
            self.turned(q, turns), self.turned(k, turns), v, is_causal=True, enable_gqa=True
        )
        return self.o(mixed.transpose(1, 2).flatten(2))

    @staticmethod
    def turned(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        one, other = x.chunk(2, -1)
        return x * turns[0] + torch.cat((-other, one), -1) * turns[1]


class LlamaLayer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = Rms(width), GroupedAttention(width, heads, groups), Rms(width)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down, self.act = nn.Linear(inner, width, bias=False), nn.SiLU()

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attention(self.norm1(x), turns)
        y = self.norm2(x)
        return x + self.down(self.act(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Built as LLaMA is (Touvron et al., 2023), its head tied to its embedding."""

    def __init__(self, words: int = 512, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), Rms(width)
        self.layers = nn.ModuleList([LlamaLayer(width, 172, 8, 2) for _ in range(layers)])
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("pace", 10000.0 ** -torch.linspace(0, 1, width // 16), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        angles = torch.arange(tokens.shape[1])[:, None] * self.pace
        turns = torch.cat((angles, angles), -1)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, (turns.cos(), turns.sin()))
        return self.head(self.norm(x)).transpose(1, 2)


def small_llama() -> tuple[nn.Module, Batch]:
    tokens = torch.randint(512, (4, 64))
    return Llama(), (tokens, tokens.roll(-1, 1))


def small_vgg() -> tuple[nn.Module, Batch]:
    model = models.load("vgg16_cifar_w4", 4)
    return model.module, (model.inputs[0], model.targets[0])


def _classifier(channels: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(channels, 10)


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(torch.relu(self.bn2(self.conv2(x))).mean((2, 3)))


def tiny() -> tuple[nn.Module, Batch]:
    return Tiny(), (torch.randn(4, 2, 16, 16), torch.randint(10, (4,)))
