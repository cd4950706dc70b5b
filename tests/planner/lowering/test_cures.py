# SPDX-License-Identifier: Apache-2.0
"""What the firmware lacks is named as it is written, and what to write instead is planned."""

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


# What is written, of vectors; words of the refusal; what it says to write.
OF_VECTORS: dict[str, tuple[Way, str, Way]] = {
    "x.repeat(1, 3).sort(1)": (
        lambda m, x: x.repeat(1, 3).sort(1).values,
        "order of more than 16 elements; use the greatest, a mean or a softmax",
        lambda m, x: x.amax(1) + x.mean(1) + (x * x.softmax(1)).sum(1),
    ),
    "x.mode(1)": (lambda m, x: x.mode(1).values, "use the median", lambda m, x: x.median(1).values),
    "x.cummax(1)": (
        lambda m, x: x.cummax(1).values,
        "use torch.stack([x[:, : k + 1].amax(1) for k in range(n)], 1)",
        lambda m, x: torch.stack([x[:, : k + 1].amax(1) for k in range(8)], 1),
    ),
    "x.cumprod(1)": (lambda m, x: x.cumprod(1), "x[:, 0] * x[:, 1]", lambda m, x: x[:, 0] * x[:, 1]),
    "x[x[:, :4].argmax(1), x.argmax(1)]": (
        lambda m, x: x[x[:, :4].argmax(1), x.argmax(1)],
        "F.one_hot(index, n).float()",
        lambda m, x: (x * F.one_hot(x.argmax(1), 8).float()).sum(1),
    ),
    "x.new_zeros(8, 8).index_copy(0, x.argmax(1), x)": (
        lambda m, x: x.new_zeros(8, 8).index_copy(0, x.argmax(1), x),
        "F.one_hot(index, n).float(), or its .T",
        lambda m, x: F.one_hot(x.argmax(1), 8).float().T @ x,
    ),
    "torch.fft.rfft(x)": (
        lambda m, x: torch.view_as_real(torch.fft.rfft(x)),
        "cosines and sines",
        lambda m, x: torch.stack([x @ ANGLES.cos(), -x @ ANGLES.sin()], -1),
    ),
    "torch.cdist(x, x[:2], 1)": (
        lambda m, x: torch.cdist(x, x[:2], 1),
        "(a[:, None] - b).abs().sum(-1)",
        lambda m, x: (x[:, None] - x[:2]).abs().sum(-1),
    ),
    "x.abs() ** x": (lambda m, x: x.abs() ** x, "(x.log() * y).exp()", lambda m, x: (x.abs().log() * x).exp()),
    "x.double()": (lambda m, x: x.double().float(), "leave it out", lambda m, x: x),
    "x.long()": (lambda m, x: x * x.long(), "leave them float32: torch.trunc(x)", lambda m, x: x * torch.trunc(x)),
    "torch.complex(x, x)": (
        lambda m, x: torch.view_as_real(torch.complex(x, x)),
        "real and imaginary parts as two tensors",
        lambda m, x: torch.stack([x, x], -1),
    ),
    "F.rrelu(x, training=True)": (
        lambda m, x: F.rrelu(x, training=True),
        "use LeakyReLU",
        lambda m, x: F.leaky_relu(x),
    ),
}
OF_PLANES: dict[str, tuple[Way, str, Way]] = {
    "F.fractional_max_pool2d(x, 2, output_size=3)": (
        lambda m, x: F.fractional_max_pool2d(x, 2, output_size=3),
        "use MaxPool2d",
        lambda m, x: F.max_pool2d(x, 2),
    ),
    'F.interpolate(x, size=9, mode="bicubic", antialias=True)': (
        lambda m, x: F.interpolate(x, size=9, mode="bicubic", antialias=True),
        "antialias=False",
        lambda m, x: F.interpolate(x, size=9, mode="bicubic"),
    ),
    "F.affine_grid(x[:, 0, :2, :3], [2, 4, 6, 6])": (
        lambda m, x: F.affine_grid(x[:, 0, :2, :3], [2, 4, 6, 6]),
        "begin with torch.zeros",
        lambda m, x: torch.zeros(2, 4, 6, 6) + x,
    ),
}
# What nothing else helps with, and its words.
ONLY_LINUX: dict[str, tuple[Way, bool, str]] = {
    "torch.linalg.inv(x[:4, :4])": (lambda m, x: torch.linalg.inv(x[:4, :4]), False, "linear algebra (inv)"),
    "F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1))": (
        lambda m, x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1)),
        True,
        "sampling at places that are computed",
    ),
    "torch.lgamma(x)": (lambda m, x: torch.lgamma(x), False, "operator for this (lgamma)"),
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
    "use dilation=1 and a larger kernel": (
        lambda: nn.ConvTranspose2d(4, 2, 3, dilation=2),
        True,
        lambda: nn.ConvTranspose2d(4, 2, 5),
    ),
}


@pytest.mark.parametrize(("written", "planes"), [*((w, False) for w in OF_VECTORS), *((w, True) for w in OF_PLANES)])
def test_what_is_written(written: str, planes: bool) -> None:
    way, words, cure = (OF_PLANES if planes else OF_VECTORS)[written]
    said = why(way, planes=planes)
    assert said is not None
    written = re.escape(f"`{written}` in Net (test_cures.py:" if len(written) <= 60 else f"`{written[:59]}…` in Net (")
    assert re.search(written + r"\S+: the firmware has no ", said), said
    assert words in said
    assert "Linux" not in said
    assert why(cure, planes=planes) is None


@pytest.mark.parametrize("written", ONLY_LINUX)
def test_only_a_linux_board_helps(written: str) -> None:
    way, planes, words = ONLY_LINUX[written]
    said = why(way, planes=planes)
    assert said is not None
    assert f"`{written}` in Net" in said
    assert f"no {words}; " in said
    assert said.endswith("train it on a Linux board")


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
