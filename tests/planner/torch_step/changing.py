# SPDX-License-Identifier: Apache-2.0
"""A network and a loss that read Python's state in many ways; each test executes this file anew."""

from __future__ import annotations

import argparse
import contextvars
import enum
import functools
import threading
import types
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

OFFSET = 0.0
TABLE = {"scale": 1.0}
SETTINGS = types.SimpleNamespace(shift=0.0)
ARGUMENTS = argparse.Namespace(gain=1.0)
INNER = {"gain": 1.0}
PROXIED = types.MappingProxyType(INNER)
OF_THREAD = threading.local()
OF_THREAD.gain = 1.0
CONTEXT: contextvars.ContextVar[float] = contextvars.ContextVar("CONTEXT", default=1.0)
other_file = types.ModuleType("other_file")
other_file.TEMPERATURE = 1.0
other_file.inner = types.ModuleType("inner")
other_file.inner.GAIN = 1.0


class Config:
    beta = 1.0

    class Deeper:
        gamma = 1.0


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLED = 2


@dataclass
class Options:
    slope: float = 0.1
    powers: list[float] = field(default_factory=lambda: [1.0, 1.0])
    unread: int = 3


class Slotted:
    __slots__ = ("bias",)

    def __init__(self) -> None:
        self.bias = 0.0


class Schedule:
    floor = 0.0

    def __init__(self) -> None:
        self.now = 1.0

    def value(self) -> float:
        return max(self.now, self.floor)


class Share:
    def __init__(self, share: float) -> None:
        self.share = share

    def __mul__(self, x: Tensor) -> Tensor:
        return x * self.share


class Proxy:
    """Gives what it holds under other names."""

    def __init__(self) -> None:
        self._held = {"weight": 1.0}

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["_held"][name]
        except KeyError:
            raise AttributeError(name) from None


def made_partly() -> tuple[Any, Any]:
    state = {"gain": 1.0, "step": 0}

    def read(x: Tensor) -> Tensor:
        return x * state["gain"]

    def put(value: float, key: str = "step") -> None:
        state[key] = value

    return read, put


partly, PARTLY = made_partly()


class Bank:
    """Called as containers are, and no container."""

    def __init__(self) -> None:
        self.gain = 1.0
        self.entries: dict[str, float] = {}

    def add(self, x: Tensor) -> Tensor:
        return x * self.gain

    def __setitem__(self, key: str, value: float) -> None:
        self.entries[key] = value * self.gain


class Described:
    def __init__(self) -> None:
        self.value = 1.0

    def __get__(self, thing: Any, kind: Any) -> float:
        return self.value


class Same(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return gradient * 1.0


class Hook:
    def __init__(self) -> None:
        self.gain = 1.0

    def __call__(self, module: nn.Module, given: Any, output: Tensor) -> Tensor:
        return output * self.gain


def scaled(x: Tensor, by: list[float] = [1.0], *, plus: float = 0.0) -> Tensor:  # noqa: B006
    return x * by[0] + plus


def decorated(function: Any) -> Any:
    state = [1.0]

    @functools.wraps(function)
    def wrapper(x: Tensor) -> Any:
        return function(x) * state[0]

    wrapper.state = state
    return wrapper


@decorated
def same(x: Tensor) -> Tensor:
    return x * 1.0


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return x * vars(self)["factor"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act, self.repeats = nn.LeakyReLU(0.1), 1

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.repeats):
            x = self.act(x)
        return x


class Net(nn.Module):
    power = 1.0
    described = Described()

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.drop = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout(0.5)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.tail = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
        self.one, self.two, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 5)
        self.two.weight = self.one.weight
        self.hidden, self.weights = Hidden(), nn.ParameterList([torch.ones(8)])
        self.scale, self.add, self.kind, self.count, self.mode = 1.0, True, "tanh", 1, Mode.PLAIN
        self.options, self.slotted, self.schedule, self.proxy = Options(), Slotted(), Schedule(), Proxy()
        self.parts, self.shifts, self.named = [Share(1.0), Share(1.0)], [0.0, 0.0], {"a": 1.0}
        self.steps, self.chosen, self.pair = deque([1.0]), {1.0}, (1.0, (0.0,))
        self.array, self.functions = np.ones(5, np.float32), [lambda x: x * 1.0]
        self.doubled = functools.partial(scaled, plus=0.0)
        self.watched = weakref.ref(self.schedule)
        self.configuration = Config
        self.bound = self.schedule.value
        self.length_3 = 1.0
        self.bank, self.shift, self.log = Bank(), torch.zeros(8), {}
        self.hook, self.options_read = Hook(), {"of": {"gain": 1.0, "step": 0}, "step": 0}
        self.head.register_forward_hook(self.hook)
        self.unused, self.unread = nn.Linear(8, 8), 0
        self.seen: dict[str, Any] = {}
        self.evaluations = 0

    @property
    def factor(self) -> float:
        return self.ratio if hasattr(self, "ratio") else 1.0

    def helped(self, x: Tensor) -> Tensor:
        return x * 1.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.evaluations += 1
            self.seen["last"] = x
        x = self.bn(self.conv(x)) * self.scale
        for block in self.blocks:
            x = block(x)
        x = self.drop(x + 0.5 if self.add else x)
        x = self.tail(torch.nn.functional.max_pool2d(x, 2))
        x = self.two(torch.tanh(self.one(x)))
        x = torch.tanh(x) if self.kind == "tanh" else torch.relu(x)
        x = self.hidden(x) * self.weights[0] * self.factor * self.power
        x = self.helped(x) * (2.0 if self.mode is Mode.DOUBLED else 1.0) * self.count
        x = nn.functional.leaky_relu(x, self.options.slope) * self.options.powers[1] + self.slotted.bias
        x = x * self.schedule.value() * self.proxy.weight * self.watched().now * self.bound()
        x = self.parts[1] * x + sum(self.shifts) + sum(self.steps) + sum(self.chosen) + self.pair[1][0]
        x = x * next(iter(self.named.values())) * len(self.named) * getattr(self, "length_" + str(len("abc")))
        x = Same.apply(x) * self.described * PROXIED["gain"] * OF_THREAD.gain
        self.log["shape"] = x.shape
        x = self.shift.add(self.bank.add(x))
        x = partly(x) * self.options_read["of"]["gain"]
        x = self.functions[0](self.doubled(x)) * self.configuration.Deeper.gamma
        return self.head(same(x) + torch.ones(8)) * torch.from_numpy(self.array)


class Loss:
    def __init__(self) -> None:
        self.smoothing = 0.0
        self.reduction = "mean"

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        output = scaled(output) * TABLE["scale"] + OFFSET + SETTINGS.shift
        output = output * ARGUMENTS.gain * CONTEXT.get() * Config.beta / other_file.TEMPERATURE * other_file.inner.GAIN
        value = cross_entropy(output, target, label_smoothing=self.smoothing, reduction=self.reduction)
        return value * weighed.weight * closed()


def weighed() -> None:
    """Has an attribute."""


weighed.weight = 1.0


def made_closure() -> Any:
    value = 1.0

    def inner() -> float:
        return value

    def change(other: float) -> None:
        nonlocal value
        value = other

    inner.change = change
    return inner


closed = made_closure()
