# SPDX-License-Identifier: Apache-2.0
"""What the firmware lacks is named as it is written.

What the refusal tells people to write instead is planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.tracing import trace
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations, parametrize

Way = Callable[[Any, Tensor], Tensor]
INDEX = torch.tensor([3, 1, 0])
REVERSED = torch.eye(8).flip(1)
ANGLES = torch.outer(torch.arange(8.0), torch.arange(5.0)) * (2 * torch.pi / 8)


class Net(nn.Module):
    """Features of vectors or of planes, and a layer for what is done with them."""

    def __init__(self, way: Way, layer: nn.Module | None, planes: bool) -> None:
        super().__init__()
        self.features = nn.Conv2d(1, 4, 3, padding=1) if planes else nn.Linear(6, 8)
        self.way, self.layer = way, layer or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, self.features(x))


def why(way: Way, layer: Callable[[], nn.Module] | None = None, planes: bool = False) -> str | None:
    torch.manual_seed(0)
    net = Net(way, layer and layer(), planes)
    x = torch.randn(2, 1, 6, 6) if planes else torch.randn(4, 6)
    target = torch.zeros_like(net(x).detach())
    return why_no_headers(lower_for_firmware(trace(net, (x,), (target,), F.mse_loss, "own")))


def put(x: Tensor) -> Tensor:
    y = torch.zeros(4, 10)
    y[:, 1:9] = x
    return y


# What is written, of vectors; words of the refusal; what it says to write.
OF_VECTORS: dict[str, tuple[Way, str, Way]] = {
    "x.topk(3)": (lambda m, x: x.topk(3).values, "a mean or a softmax", lambda m, x: x * x.softmax(1)),
    "x.cumsum(1)": (lambda m, x: x.cumsum(1), "torch.ones(n, n).triu()", lambda m, x: x @ torch.ones(8, 8).triu()),
    "x.prod(1)": (lambda m, x: x.prod(1), "x[:, 0] * x[:, 1]", lambda m, x: x[:, 0] * x[:, 1]),
    "x.flip(1)": (lambda m, x: x.flip(1), "a matrix of zeros and ones", lambda m, x: x @ REVERSED),
    "x.roll(2, 1)": (lambda m, x: x.roll(2, 1), "torch.cat", lambda m, x: torch.cat([x[:, -2:], x[:, :-2]], 1)),
    "x[:, INDEX]": (lambda m, x: x[:, INDEX], "its .T", lambda m, x: x @ F.one_hot(INDEX, 8).float().T),
    "x[INDEX]": (lambda m, x: x[INDEX], "F.one_hot(index, n)", lambda m, x: F.one_hot(INDEX, 4).float() @ x),
    "x[:, :3].new_zeros(4, 8).index_add(1, INDEX, x[:, :3])": (
        lambda m, x: x[:, :3].new_zeros(4, 8).index_add(1, INDEX, x[:, :3]),
        "F.one_hot(index, n)",
        lambda m, x: x[:, :3] @ F.one_hot(INDEX, 8).float(),
    ),
    "torch.fft.rfft(x)": (
        lambda m, x: torch.view_as_real(torch.fft.rfft(x)),
        "cosines and sines",
        lambda m, x: torch.stack([x @ ANGLES.cos(), -x @ ANGLES.sin()], -1),
    ),
    "torch.tril(x)": (lambda m, x: torch.tril(x), "a mask", lambda m, x: x * torch.ones(4, 8).tril()),
    "torch.diag(x[:, :4])": (
        lambda m, x: torch.diag(x[:, :4]),
        "an identity",
        lambda m, x: (x[:, :4] * REVERSED[:4, 4:].flip(1)).sum(1),
    ),
    "x.unfold(1, 4, 2)": (
        lambda m, x: x.unfold(1, 4, 2),
        "torch.stack of slices",
        lambda m, x: torch.stack([x[:, 0:4], x[:, 2:6], x[:, 4:8]], 1),
    ),
    "y[:, 1:9] = x": (lambda m, x: put(x), "F.pad", lambda m, x: F.pad(x, (1, 1))),
    "torch.cdist(x, x[:2])": (
        lambda m, x: torch.cdist(x, x[:2]),
        "((a[:, None] - b) ** 2).sum(-1)",
        lambda m, x: ((x[:, None] - x[:2]) ** 2).sum(-1),
    ),
    "x.double()": (lambda m, x: x.double().float(), "leave it out", lambda m, x: x),
    "F.rrelu(x, training=True)": (
        lambda m, x: F.rrelu(x, training=True),
        "use LeakyReLU",
        lambda m, x: F.leaky_relu(x),
    ),
}
OF_PLANES: dict[str, tuple[Way, str, Way]] = {
    "F.max_pool2d(x, 4, ceil_mode=True)": (
        lambda m, x: F.max_pool2d(x, 4, ceil_mode=True),
        "ceil_mode=False",
        lambda m, x: F.max_pool2d(x, 4),
    ),
    "F.adaptive_avg_pool2d(x, 4)": (
        lambda m, x: F.adaptive_avg_pool2d(x, 4),
        "divides 6 x 6",
        lambda m, x: F.adaptive_avg_pool2d(x, 3),
    ),
    "F.max_pool2d(F.pad(x, (6, 6, 6, 6)), 18)": (
        lambda m, x: F.max_pool2d(F.pad(x, (6, 6, 6, 6)), 18),
        "pool twice",
        lambda m, x: F.max_pool2d(F.max_pool2d(F.pad(x, (6, 6, 6, 6)), 9), 2),
    ),
    "F.fractional_max_pool2d(x, 2, output_size=3)": (
        lambda m, x: F.fractional_max_pool2d(x, 2, output_size=3),
        "use MaxPool2d",
        lambda m, x: F.max_pool2d(x, 2),
    ),
    "F.max_pool3d(x, 2)": (lambda m, x: F.max_pool3d(x, 2), "pool planes", lambda m, x: F.max_pool2d(x, 2)),
    'F.interpolate(x, size=9, mode="bicubic")': (
        lambda m, x: F.interpolate(x, size=9, mode="bicubic"),
        "mode='nearest'",
        lambda m, x: F.interpolate(x, scale_factor=2, mode="nearest"),
    ),
    'F.pad(x, (1, 1, 1, 1), mode="reflect")': (
        lambda m, x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad with zeros",
        lambda m, x: torch.cat([x[..., 1:2], x, x[..., -2:-1]], -1),
    ),
    "F.pad(x, (1, 1, 1, 1), value=0.5)": (
        lambda m, x: F.pad(x, (1, 1, 1, 1), value=0.5),
        "F.pad(x - number, …) + number",
        lambda m, x: F.pad(x - 0.5, (1, 1, 1, 1)) + 0.5,
    ),
    "F.pixel_shuffle(x, 2)": (
        lambda m, x: F.pixel_shuffle(x, 2),
        ".reshape(…).permute(…).reshape(…)",
        lambda m, x: x.reshape(2, 1, 2, 2, 6, 6).permute(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 12),
    ),
    "F.unfold(x, 3)": (
        lambda m, x: F.unfold(x, 3),
        "F.conv2d with an identity",
        lambda m, x: F.conv2d(x, torch.ones(36).diag().view(36, 4, 3, 3)).flatten(2),
    ),
    "F.local_response_norm(x, 2)": (
        lambda m, x: F.local_response_norm(x, 2),
        "use GroupNorm",
        lambda m, x: F.group_norm(x, 2),
    ),
}
# Of layers: their words, and what to put in their place.
LAYERS: dict[str, tuple[Callable[[], nn.Module], bool, Callable[[], nn.Module]]] = {
    "use eps=1e-09": (lambda: nn.BatchNorm1d(8, eps=1e-12), False, lambda: nn.BatchNorm1d(8, eps=1e-9)),
    "use Conv2d, with depth among the channels": (lambda: nn.Conv3d(1, 2, 3), True, lambda: nn.Conv2d(4, 2, 3)),
    "remove_parametrizations": (
        lambda: parametrizations.spectral_norm(nn.Linear(8, 8)),
        False,
        lambda: parametrize.remove_parametrizations(parametrizations.spectral_norm(nn.Linear(8, 8)), "weight"),
    ),
    "use nn.Linear on": (lambda: Pairs(nn.Bilinear(8, 8, 3)), False, lambda: Products(nn.Linear(64, 3))),
    "use one of its own each time": (lambda: Twice(nn.BatchNorm1d(8)), False, lambda: nn.BatchNorm1d(8)),
    "use dilation=1 and a larger kernel": (
        lambda: nn.ConvTranspose2d(4, 2, 3, dilation=2),
        True,
        lambda: nn.ConvTranspose2d(4, 2, 5),
    ),
}


class Pairs(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x + 1)


class Products(Pairs):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner((x[:, :, None] * (x + 1)[:, None]).flatten(1))


class Twice(Pairs):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x))


@pytest.mark.parametrize(("written", "planes"), [*((w, False) for w in OF_VECTORS), *((w, True) for w in OF_PLANES)])
def test_what_is_written(written: str, planes: bool) -> None:
    way, words, cure = (OF_PLANES if planes else OF_VECTORS)[written]
    said = why(way, planes=planes)
    assert said is not None
    assert re.match(rf"`{re.escape(written)}` in \w+ \(test_cures.py:\d+\): the firmware has no ", said) or (
        said.startswith(f"`{written[:50]}") and "test_cures.py" in said
    )
    assert words in said
    assert "Linux" not in said
    assert why(cure, planes=planes) is None


@pytest.mark.parametrize("words", LAYERS)
def test_layers(words: str) -> None:
    layer, planes, instead = LAYERS[words]
    said = why(lambda m, x: m.layer(x[:, None] if words.startswith("use Conv2d") else x), layer, planes)
    assert said is not None
    assert words in said
    assert re.match(r"layer[\w.]* \(\w+, test_cures.py:\d+\): the firmware has no ", said), said
    assert why(lambda m, x: m.layer(x), instead, planes) is None


def test_random_numbers_come_with_the_batch() -> None:
    said = why(lambda m, x: x + torch.randn_like(x))
    assert said is not None
    assert "`torch.randn_like(x)` in Net" in said
    assert "draw them with the batch" in said


def test_a_loss_is_named_and_a_gradient_knows_of_what() -> None:
    net = Net(lambda m, x: x, None, False)
    x, target = torch.randn(4, 6), torch.randn(4, 8)
    said = why_no_headers(lower_for_firmware(trace(net, (x,), (target,), F.multilabel_soft_margin_loss, "own")))
    assert said is None or said.startswith("the loss (multilabel_soft_margin_loss): ")
    traced = trace(net, (x,), (target,), lambda y, t: ((y - t) ** 2).sum(), "own")
    gradients = [one.written for one in traced.operators if one.backward and one.written.in_loss]
    assert {(one.text, one.line.partition(":")[0]) for one in gradients} == {("(y - t) ** 2", "test_cures.py")}
