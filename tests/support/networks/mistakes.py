# SPDX-License-Identifier: Apache-2.0
"""Small models whose training step no plan can repeat, and a word of the line that refuses each."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

CLASSES = 4
_CALLS = 0
_SEEN: list[int] = []


def _model(module: nn.Module, loss: Callable[..., Tensor] = cross_entropy, *inputs: Tensor) -> Model:
    given = inputs or (torch.randn(3, 6),)
    return Model("mistake", module, given, (torch.arange(3) % CLASSES,), loss)


class _Bad(nn.Linear):
    """One linear layer, and something before it that goes wrong."""

    def __init__(self, before: Callable[[_Bad, Tensor], Tensor]) -> None:
        super().__init__(6, CLASSES)
        self.before = before
        self.calls = 0
        self.flag = False
        self.kept: Tensor | None = None
        self.history: list[object] = []
        self.counter = itertools.count()
        self.own = torch.Generator()
        self.dice = random.Random(0)
        self.rng = np.random.default_rng(0)
        self.scale = torch.ones(6)
        self.loose = [torch.ones(6, requires_grad=True)]
        self.register_buffer("centre", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.before(self, x))


def _bad(before: Callable[[_Bad, Tensor], Tensor]) -> Callable[[], Model]:
    return lambda: _model(_Bad(before))


def _loop(m: _Bad, x: Tensor) -> Tensor:
    while x.norm() > 1:
        x = x / 2
    return x


def _range(m: _Bad, x: Tensor) -> Tensor:
    for _ in range((x > 0).sum()):
        x = x + 1
    return x


def _counter(m: _Bad, x: Tensor) -> Tensor:
    m.calls += 1
    return x * 2 if m.calls > 5 else x


def _warm_up(m: _Bad, x: Tensor) -> Tensor:
    m.calls += 1
    return x * min(1.0, m.calls / 10)


def _toggle(m: _Bad, x: Tensor) -> Tensor:
    m.flag = not m.flag
    return x


def _global_counter(m: _Bad, x: Tensor) -> Tensor:
    global _CALLS
    _CALLS += 1
    return x * 2 if _CALLS % 7 == 0 else x


def _global_list(m: _Bad, x: Tensor) -> Tensor:
    _SEEN.append(len(_SEEN))
    return x


def _closure() -> Model:
    calls = 0

    def before(m: _Bad, x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x

    return _model(_Bad(before))


def _class_counter(m: _Bad, x: Tensor) -> Tensor:
    type(m).count = getattr(type(m), "count", 0) + 1  # type: ignore[attr-defined]
    return x


def _history(m: _Bad, x: Tensor) -> Tensor:
    m.history.append(x.detach())
    return x


def _memory(m: _Bad, x: Tensor) -> Tensor:
    if m.kept is not None:
        x = x + m.kept
    m.kept = x.detach() * 0.5
    return x


def _memory_attached(m: _Bad, x: Tensor) -> Tensor:
    if m.kept is not None:
        x = x * m.kept
    m.kept = (x * m.weight.mean()).mean()
    return x


def _lazy_constant(m: _Bad, x: Tensor) -> Tensor:
    if m.kept is None:
        m.kept = torch.linspace(0, 1, 6)
    return x * m.kept


def _seeded(m: _Bad, x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return dropout(x)


def _assigned_data(m: _Bad, x: Tensor) -> Tensor:
    m.weight.data = m.weight.data * 0.9
    return x


def _new_parameter(m: _Bad, x: Tensor) -> Tensor:
    m.weight = nn.Parameter(m.weight.detach() * 0.9)
    return x


def _made_parameter(m: _Bad, x: Tensor) -> Tensor:
    m.latest = nn.Parameter(x.detach())
    return x


def _made_buffer(m: _Bad, x: Tensor) -> Tensor:
    m.register_buffer("latest", x.detach())
    return x


def _attached_buffer(m: _Bad, x: Tensor) -> Tensor:
    m.centre = m.centre + x.mean(0) * m.weight.mean()
    return x


def _buffer_grows(m: _Bad, x: Tensor) -> Tensor:
    m.centre = torch.cat([m.centre, x[0]])
    return x


def _constant_written(m: _Bad, x: Tensor) -> Tensor:
    m.scale.mul_(0.9)
    return x * m.scale


def _formatted(m: _Bad, x: Tensor) -> Tensor:
    assert f"{x.sum():.3f}"
    return x


def _backward_hook() -> Model:
    module = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, CLASSES))
    module[1].register_full_backward_hook(lambda *_: None)
    return _model(module)


def _backward_pre_hook() -> Model:
    module = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, CLASSES))
    module[1].register_full_backward_pre_hook(lambda *_: None)
    return _model(module)


def _gradient_hook() -> Model:
    module = nn.Linear(6, CLASSES)
    module.weight.register_hook(lambda gradient: gradient * 2)
    return _model(module)


def _post_hook() -> Model:
    module = nn.Linear(6, CLASSES)
    module.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    return _model(module)


def _loss_hook() -> Model:
    loss = _Centres()
    loss.centres.register_hook(lambda gradient: gradient * 2)
    return _model(nn.Linear(6, CLASSES), loss)


class _Centres(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(CLASSES))

    def forward(self, y: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(y + self.centres, labels)


class _Counting(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(context: object, x: Tensor) -> Tensor:
        _Counting.calls += 1
        return x * 2

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        return gradient * 2


def _counting_function(m: _Bad, x: Tensor) -> Tensor:
    return _Counting.apply(x * m.weight.mean())  # type: ignore[no-untyped-call, no-any-return]


class _LossThatCounts(nn.CrossEntropyLoss):
    calls = 0

    def forward(self, y: Tensor, labels: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(y, labels) * (1 if self.calls < 9 else 2)


class _LossThatLearns(nn.Module):
    """Keeps a running scale in a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, y: Tensor, labels: Tensor) -> Tensor:
        loss = cross_entropy(y, labels)
        self.scale.mul_(0.9).add_(loss.detach(), alpha=0.1)
        return loss / self.scale


def _loss_over_a_loose_parameter() -> Callable[..., Tensor]:
    weight = torch.ones(CLASSES, requires_grad=True)
    return lambda y, labels: cross_entropy(y * weight, labels)


MISTAKES: dict[str, tuple[Callable[[], Model], str]] = {
    "item": (_bad(lambda m, x: x * x.mean().item()), "number out of a tensor"),
    "item that steers": (_bad(lambda m, x: x * 2 if x.mean().item() > 0 else x), "number out of a tensor"),
    "float": (_bad(lambda m, x: x * float(x.abs().max())), "number out of a tensor"),
    "int": (_bad(lambda m, x: x[:, : int(x.argmax()) % 6 + 1].repeat(1, 6)[:, :6]), "number out of a tensor"),
    "tolist": (_bad(lambda m, x: x * torch.tensor(x[0].tolist())), "number out of a tensor"),
    "numpy": (_bad(lambda m, x: x * torch.from_numpy(x.detach().numpy().copy())), "numbers out of a tensor"),
    "format": (_bad(_formatted), "numbers out of a tensor"),
    "truth": (_bad(lambda m, x: x * 2 if (x > 0).any() else x), "looks at its data"),
    "truth of a number": (_bad(lambda m, x: x * 2 if x.sum() else x), "number out of a tensor"),
    "contains": (_bad(lambda m, x: x * 2 if 0 in x else x), "looks at its data"),
    "equal": (_bad(lambda m, x: x * 2 if torch.equal(x, x.abs()) else x), "looks at its data"),
    "loop": (_bad(_loop), "looks at its data"),
    "range": (_bad(_range), "number out of a tensor"),
    "mask index": (_bad(lambda m, x: x + x[x > 0].mean()), "depends on its data"),
    "nonzero": (_bad(lambda m, x: x + torch.nonzero(x > 0).sum()), "depends on its data"),
    "unique": (_bad(lambda m, x: x + torch.unique(x > 0).sum()), "depends on its data"),
    "counter": (_bad(_counter), "changes calls each time"),
    "warm-up": (_bad(_warm_up), "changes calls each time"),
    "toggle": (_bad(_toggle), "changes flag each time"),
    "global counter": (_bad(_global_counter), "_CALLS each time"),
    "global list": (_bad(_global_list), "_SEEN"),
    "closure": (_closure, "calls each time"),
    "class counter": (_bad(_class_counter), "count each time"),
    "iterator": (_bad(lambda m, x: x * (1 + next(m.counter) // 10)), "changes counter each time"),
    "history": (_bad(_history), "history each time"),
    "memory": (_bad(_memory), "kept from an earlier step"),
    "attached memory": (_bad(_memory_attached), "kept from an earlier step"),
    "lazy constant": (_bad(_lazy_constant), "in __init__"),
    "python random": (_bad(lambda m, x: x * random.random()), "Python's random generator"),
    "stochastic depth": (_bad(lambda m, x: x if random.random() < 0.5 else x * 2), "Python's random generator"),
    "numpy random": (_bad(lambda m, x: x + float(np.random.rand())), "NumPy's random generator"),
    "own dice": (_bad(lambda m, x: x if m.dice.random() < 0.5 else x * 2), "changes dice each time"),
    "own numpy generator": (_bad(lambda m, x: x + float(m.rng.random())), "changes rng each time"),
    "own generator": (_bad(lambda m, x: x + torch.rand(6, generator=m.own)), "torch.Generator of its own"),
    "own generator in place": (
        _bad(lambda m, x: x * torch.empty(6).bernoulli_(0.5, generator=m.own)),
        "torch.Generator of its own",
    ),
    "seeded": (_bad(_seeded), "PyTorch's random generator"),
    "clock": (_bad(lambda m, x: x * time.perf_counter()), "something else the second time"),
    "assigned data": (_bad(_assigned_data), "assigns weight.data"),
    "new parameter": (_bad(_new_parameter), "replaces the parameter weight"),
    "made parameter": (_bad(_made_parameter), "makes the parameter latest"),
    "made buffer": (_bad(_made_buffer), "makes the buffer latest"),
    "attached buffer": (_bad(_attached_buffer), "detach"),
    "growing buffer": (_bad(_buffer_grows), "the buffer centre from shape"),
    "constant written": (_bad(_constant_written), "register_buffer"),
    "loose parameter": (_bad(lambda m, x: x * m.loose[0]), "ParameterList"),
    "backward hook": (_backward_hook, "1 has a backward hook"),
    "backward pre-hook": (_backward_pre_hook, "1 has a backward hook"),
    "gradient hook": (_gradient_hook, "weight has a hook"),
    "post-accumulate hook": (_post_hook, "weight has a hook"),
    "hook in the loss": (_loss_hook, "loss.centres has a hook"),
    "counting function": (_bad(_counting_function), "calls each time"),
    "loss that counts": (lambda: _model(nn.Linear(6, CLASSES), _LossThatCounts()), "calls each time"),
    "loss that learns": (lambda: _model(nn.Linear(6, CLASSES), _LossThatLearns()), "register_buffer"),
    "loss over loose parameter": (
        lambda: _model(nn.Linear(6, CLASSES), _loss_over_a_loose_parameter()),
        "ParameterList",
    ),
    "input with gradient": (
        lambda: _model(nn.Linear(6, CLASSES), cross_entropy, torch.randn(3, 6, requires_grad=True)),
        "detach",
    ),
    "sparse table": (
        lambda: _model(
            nn.Sequential(nn.Embedding(9, 6, sparse=True), nn.Flatten(), nn.Linear(12, CLASSES)),
            cross_entropy,
            torch.randint(9, (3, 2)),
        ),
        "sparse=False",
    ),
    "unreduced loss": (lambda: _model(nn.Linear(6, CLASSES), partial(cross_entropy, reduction="none")), "scalar"),
    "nothing to train": (lambda: _model(nn.Linear(6, CLASSES).requires_grad_(False)), "nothing to train"),
}


def mistake(name: str) -> tuple[Model, str]:
    torch.manual_seed(0)
    make, word = MISTAKES[name]
    return make(), word
