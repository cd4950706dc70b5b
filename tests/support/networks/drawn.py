# SPDX-License-Identifier: Apache-2.0
"""Networks that nobody wrote: layers in any order, some frozen, some beside the loss."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

SCORES = 3
MOST_NUMBERS = 400
Step = Callable[[list[Tensor]], Tensor]


class Drawn(nn.Module):
    """Each step reads what steps before it made; a head reads one, and others are answers, too."""

    def __init__(self, random: Random, x: Tensor) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self._steps: list[Step] = []
        made = [x]
        while len(made) < random.randint(3, 9):
            step = self._draw(random, made)
            y = step(made)
            if y.dim() > 1 and 0 < prod(y.shape[1:]) <= MOST_NUMBERS:
                self._steps.append(step)
                made.append(y)
        self._head, self._beside = random.randrange(len(made)), random.sample(range(len(made)), random.randint(0, 2))
        self.head = nn.Linear(prod(made[self._head].shape[1:]), SCORES)
        self._scores_first = random.random() < 0.7

    def forward(self, x: Tensor) -> Tensor:
        made = [x]
        for step in self._steps:
            made.append(step(made))
        parts = [self.head(made[self._head].flatten(1)), *(made[place].flatten(1) for place in self._beside)]
        return torch.cat(parts, 1) if self._beside else parts[0]

    def _draw(self, random: Random, made: list[Tensor]) -> Step:
        at = random.randrange(len(made))
        x = made[at]
        alike = [place for place, one in enumerate(made) if one.shape == x.shape]
        other = random.choice(alike)
        known = [
            layer for layer in self.layers if isinstance(layer, nn.Linear) and layer.in_features == prod(x.shape[1:])
        ]
        if known and random.random() < 0.3:
            layer = random.choice(known)
            return random.choice(
                [
                    lambda m: layer(m[at].flatten(1)),
                    lambda m: linear(m[at].flatten(1), layer.weight.flatten(1), layer.bias).relu(),
                ]
            )
        steps: list[Callable[[], Step]] = [
            lambda: lambda m: m[at].relu(),
            lambda: lambda m: m[at].sigmoid() * m[other],
            lambda: lambda m: m[at] + m[other],
            lambda: lambda m: torch.cat([m[at], m[other]], 1),
            lambda: lambda m: m[at][:, 1:],
            lambda: lambda m: m[at].split([1, m[at].shape[1] - 1], 1)[1] if m[at].shape[1] > 1 else m[at],
            lambda: lambda m: m[at].flatten(1),
            lambda: self._of(nn.Dropout(0.3), at),
            lambda: self._of(nn.LayerNorm(x.shape[-1]), at),
            lambda: self._of(nn.Linear(x.shape[-1], random.randint(1, 6), bias=random.random() < 0.7), at),
        ]
        if x.dim() > 2:
            steps += [
                lambda: lambda m: m[at].transpose(1, -1),
                lambda: lambda m: m[at].mean(-1),
                lambda: lambda m: m[at][..., ::2],
                *[lambda: self._convolution(random, x, at)] * 4,
                lambda: self._of((nn.BatchNorm1d if x.dim() == 3 else nn.BatchNorm2d)(x.shape[1]), at),
                lambda: (
                    self._of((nn.MaxPool1d if x.dim() == 3 else nn.MaxPool2d)(1 + (x.shape[-1] > 1)), at)
                    if min(x.shape[2:]) > 1
                    else lambda m: m[at].tanh()
                ),
            ]
        else:
            steps += [lambda: self._columns(random, x, at)] * 3
        if x.dim() == 3:
            steps.append(lambda: self._of(nn.GRU(x.shape[2], 3, batch_first=True), at, 0))
        return random.choice(steps)()

    def _of(self, layer: nn.Module, at: int, result: int | None = None) -> Step:
        self.layers.append(layer)
        return lambda m: layer(m[at]) if result is None else layer(m[at])[result]

    def _convolution(self, random: Random, x: Tensor, at: int) -> Step:
        channels = x.shape[1]
        groups = random.choice([1, channels])
        kernel = random.randint(1, min(3, *x.shape[2:]))
        more = {"stride": random.randint(1, 2), "padding": random.randint(0, kernel - 1)}
        more |= {"groups": groups, "bias": random.random() < 0.7}
        make = nn.Conv1d if x.dim() == 3 else nn.Conv2d
        return self._of(make(channels, groups * random.randint(1, 4 if groups == 1 else 2), kernel, **more), at)

    def _columns(self, random: Random, x: Tensor, at: int) -> Step:
        """A convolution's weights as a product's, of some of the columns; or the columns as an image of its own."""
        taps = random.randint(1, min(3, x.shape[1]))
        channels = x.shape[1] // taps
        layer = nn.Conv1d(channels, random.randint(1, 4), taps)
        self.layers.append(layer)
        if random.random() < 0.5:
            return lambda m: linear(m[at][:, : channels * taps], layer.weight.flatten(1), layer.bias)
        return lambda m: layer(m[at][:, : channels * taps].reshape(-1, channels, taps)).flatten(1)


def drawn(random: Random) -> Model:
    """A model, partly frozen, whose weights may lie in any order of their axes."""
    torch.manual_seed(random.randrange(2**30))
    shape = random.choice([(6,), (12,), (3, 8), (4, 5), (2, 6, 6), (4, 3, 5)])
    x = torch.randn(random.choice([1, 2, 4]), *shape)
    module = Drawn(random, x)
    module.layers.train(random.random() < 0.3)
    share = random.random()
    for parameter in module.layers.parameters():
        parameter.requires_grad_(random.random() < share)
        if parameter.dim() > 1 and random.random() < 0.4:
            parameter.data = parameter.data.transpose(0, -1).contiguous().transpose(0, -1)
    module.head.weight.requires_grad_(random.random() < 0.8)

    def scores_alone(outputs: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(outputs[:, :SCORES], target)

    whole = len(module._beside) == 0 or random.random() < 0.3
    target = torch.randint(SCORES, (len(x),))
    return Model("drawn", module, (x,), (target,), cross_entropy if whole else scores_alone)
