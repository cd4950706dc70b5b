# SPDX-License-Identifier: Apache-2.0
"""A backward kernel asked for one gradient gives the bits that it gives when asked for all of them."""

from __future__ import annotations

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.support.levels import examples

aten = torch.ops.aten


def poison(tensor: Tensor) -> Tensor:
    return torch.full_like(tensor, float("nan"))


def same(joint: tuple[Tensor | None, ...], *halves: tuple[Tensor | None, ...]) -> bool:
    for index, expected in enumerate(joint):
        found = next((half[index] for half in halves if half[index] is not None), None)
        if expected is not None and (found is None or not torch.equal(expected, found)):
            return False
    return True


@settings(max_examples=examples(150), deadline=None)
@given(
    batch=st.integers(1, 4),
    groups=st.sampled_from([1, 2, 4]),
    per_group=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    size=st.tuples(st.integers(5, 12), st.integers(5, 12)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    transposed=st.booleans(),
    bias=st.booleans(),
    channels_last=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_convolution(
    batch: int,
    groups: int,
    per_group: tuple[int, int],
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    padding: int,
    dilation: int,
    transposed: bool,
    bias: bool,
    channels_last: bool,
    seed: int,
) -> None:
    assume(all(extent + 2 * padding > dilation * (k - 1) for extent, k in zip(size, kernel, strict=True)))
    assume(not transposed or all(padding <= dilation * (k - 1) for k in kernel))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    channels, filters = (groups * count for count in per_group)
    x = torch.randn(batch, channels, *size)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    first, second = (channels, per_group[1]) if transposed else (filters, per_group[0])
    weight = torch.randn(first, second, *kernel)
    rest = ([stride] * 2, [padding] * 2, [dilation] * 2, transposed, [0, 0], groups)
    gradient = torch.randn_like(aten.convolution.default(x, weight, None, *rest))
    sizes = [filters] if bias else [0]

    def backward(x: Tensor, weight: Tensor, mask: list[bool]) -> tuple[Tensor | None, ...]:
        return aten.convolution_backward.default(gradient, x, weight, sizes, *rest, mask)

    joint = backward(x, weight, [True, True, bias])
    inputs = backward(poison(x), weight, [True, False, False])
    parameters = backward(x, poison(weight), [False, True, bias])
    assert same(joint, inputs, parameters)


@settings(max_examples=examples(60), deadline=None)
@given(rows=st.integers(1, 40), features=st.integers(1, 70), seed=st.integers(0, 2**16))
def test_layer_norm(rows: int, features: int, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, gradient = torch.randn(2, rows, features)
    weight, bias = torch.randn(2, features)
    _, mean, rstd = aten.native_layer_norm.default(x, [features], weight, bias, 1e-5)

    def backward(mask: list[bool]) -> tuple[Tensor | None, ...]:
        return aten.native_layer_norm_backward.default(gradient, x, [features], mean, rstd, weight, bias, mask)

    assert same(backward([True, True, True]), backward([True, False, False]), backward([False, True, True]))


@settings(max_examples=examples(60), deadline=None)
@given(
    batch=st.integers(1, 4),
    channels=st.integers(1, 9),
    pixels=st.integers(1, 30),
    channels_last=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_batch_norm_in_evaluation(batch: int, channels: int, pixels: int, channels_last: bool, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    x, gradient = (each.contiguous(memory_format=layout) for each in torch.randn(2, batch, channels, pixels, 2))
    weight, bias, mean = torch.randn(3, channels)
    variance = torch.rand(channels) + 0.1
    _, saved_mean, saved_invstd = aten.native_batch_norm.default(x, weight, bias, mean, variance, False, 0.1, 1e-5)

    def backward(x: Tensor, weight: Tensor, mask: list[bool]) -> tuple[Tensor | None, ...]:
        return aten.native_batch_norm_backward.default(
            gradient, x, weight, mean, variance, saved_mean, saved_invstd, False, 1e-5, mask
        )

    joint = backward(x, weight, [True, True, True])
    assert same(
        joint, backward(poison(x), weight, [True, False, False]), backward(x, poison(weight), [False, True, True])
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    batch=st.integers(1, 4),
    groups=st.integers(1, 4),
    per_group=st.integers(1, 4),
    pixels=st.integers(1, 30),
    seed=st.integers(0, 2**16),
)
def test_group_norm(batch: int, groups: int, per_group: int, pixels: int, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    channels = groups * per_group
    x, gradient = torch.randn(2, batch, channels, pixels)
    weight, bias = torch.randn(2, channels)
    _, mean, rstd = aten.native_group_norm.default(x, weight, bias, batch, channels, pixels, groups, 1e-5)

    def backward(mask: list[bool]) -> tuple[Tensor | None, ...]:
        return aten.native_group_norm_backward.default(
            gradient, x, mean, rstd, weight, batch, channels, pixels, groups, mask
        )

    assert same(backward([True, True, True]), backward([True, False, False]), backward([False, True, True]))
