# SPDX-License-Identifier: Apache-2.0
"""Dilated and transposed convolutions of drawn shapes, against autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from poet_planner.lowering import lower_for_firmware
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.tracing import trace
from torch import Tensor, nn

from tests.support import needs
from tests.support.firmware.against_autograd import equals_autograd
from tests.support.firmware.host_operators import Operators

pytestmark = needs.gcc

drawn = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
layers = st.fixed_dictionaries(
    {
        "axes": st.integers(1, 2),
        "channels": st.sampled_from([(1, 2), (4, 4), (3, 2), (4, 8)]),
        "groups": st.booleans(),
        "kernel": st.tuples(st.integers(1, 4), st.integers(1, 4)),
        "padding": st.tuples(st.integers(0, 4), st.integers(0, 4)),
        "extents": st.tuples(st.integers(2, 9), st.integers(2, 9)),
        "bias": st.booleans(),
    }
)


class Twice(nn.Module):
    """The layer behind a trained factor, so that its input has a gradient."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.factor, self.layer = nn.Parameter(torch.randn(shape)), layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x * self.factor)
        return y


def layer_of(kinds: list[Any], shape: dict[str, Any], **options: Any) -> tuple[nn.Module, Tensor]:
    axes, (c, k) = shape["axes"], shape["channels"]
    groups = int(np.gcd(c, k)) if shape["groups"] else 1
    numbers = {name: shape[name][:axes] for name in ("kernel", "padding")}
    options = {name: value[:axes] for name, value in options.items()}
    layer = kinds[axes - 1](
        c, k, numbers["kernel"], padding=numbers["padding"], groups=groups, bias=shape["bias"], **options
    )
    return layer, torch.randn(2, c, *shape["extents"][:axes])


@given(shape=layers, dilation=st.tuples(st.integers(1, 5), st.integers(1, 5)))
@drawn
def test_dilated(operators: Operators, shape: dict[str, Any], dilation: tuple[int, int]) -> None:
    """Paddings that the dilation divides, and others; extents likewise."""
    for extent, kernel, padding, step in zip(
        *(shape[n] for n in ("extents", "kernel", "padding")), dilation, strict=True
    ):
        assume(extent + 2 * padding > step * (kernel - 1))
    layer, x = layer_of([nn.Conv1d, nn.Conv2d], shape, dilation=dilation)
    equals_autograd(Twice(layer, tuple(x.shape)), x, operators)


@given(shape=layers, stride=st.tuples(st.integers(1, 3), st.integers(1, 3)), extra=st.integers(0, 2))
@drawn
def test_transposed(operators: Operators, shape: dict[str, Any], stride: tuple[int, int], extra: int) -> None:
    more = tuple(min(extra, step - 1) for step in stride)
    for extent, kernel, padding, step in zip(
        *(shape[n] for n in ("extents", "kernel", "padding")), stride, strict=True
    ):
        assume(padding < kernel and (extent - 1) * step + kernel > 2 * padding)
    layer, x = layer_of([nn.ConvTranspose1d, nn.ConvTranspose2d], shape, stride=stride, output_padding=more)
    equals_autograd(Twice(layer, tuple(x.shape)), x, operators)


@given(
    shape=layers, transposed=st.booleans(), samples=st.integers(1, 3), stride=st.integers(1, 3), trained=st.booleans()
)
@drawn
def test_of_one_place_they_are_products(
    operators: Operators, shape: dict[str, Any], transposed: bool, samples: int, stride: int, trained: bool
) -> None:
    """Of groups as well, where there is one sample; a frozen weight leaves the bias's gradient."""
    axes = shape["axes"]
    extents = shape["kernel"][:axes] if not transposed else (1,) * axes
    kinds = [nn.ConvTranspose1d, nn.ConvTranspose2d] if transposed else [nn.Conv1d, nn.Conv2d]
    layer, x = layer_of(kinds, {**shape, "padding": (0, 0), "extents": extents}, stride=(stride, stride))
    layer.weight.requires_grad_(trained)
    x = x[:1].expand(samples, *x.shape[1:]).clone() * torch.randn(samples, *(1,) * (axes + 1))
    graph = equals_autograd(Twice(layer, tuple(x.shape)), x, operators)
    used = {node.operation.op for node in graph.nodes if node.operation}
    products = samples == 1 or layer.groups == 1
    assert any(op.startswith("conv2d") for op in used) != products


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 2, 3, stride=(1, 400), padding=1),
        nn.Conv2d(2, 4, 1, padding=(20, 3)),
        nn.Conv2d(2, 2, 1, stride=30, padding=7),
        nn.AvgPool2d(2, stride=500),
        nn.MaxPool2d(3, stride=999, padding=1),
    ],
    ids=str,
)
def test_strides_and_paddings_beyond_the_planes(operators: Operators, layer: nn.Module) -> None:
    """PyTorch takes them; the firmware bounds both."""
    equals_autograd(Twice(layer, (2, 2, 6, 6)), torch.randn(2, 2, 6, 6), operators)


def test_a_padding_that_no_tensor_bounds_is_refused() -> None:
    layer, x = nn.Conv2d(2, 2, 1, stride=4000, padding=4000), torch.randn(2, 2, 6, 6)
    graph = lower_for_firmware(trace(layer, (x,), (torch.randn(layer(x).shape),), nn.functional.mse_loss, "drawn"))
    assert "the firmware has no convolution as here" in str(why_no_headers(graph))


def test_the_way_back_reads_the_phases_that_the_way_forward_has_made(operators: Operators) -> None:
    """The input, the result, and the gradients of both are copied once each."""
    x = torch.randn(2, 4, 8)
    copies = []
    for dilation in (1, 2):
        layer = nn.Conv1d(4, 4, 3, padding=dilation, dilation=dilation)
        graph = equals_autograd(Twice(layer, tuple(x.shape)), x, operators)
        copies.append([node.operation.op for node in graph.nodes if node.operation].count("strided_copy"))
    assert copies[1] - copies[0] == 4
