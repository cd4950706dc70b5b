# SPDX-License-Identifier: Apache-2.0
"""What the firmware's operators on int8 compute, to the bit, as operators of PyTorch (docs/SPEC.md, section 1).

A tensor of int8 stands for ``(q - zero) * scale``. Sums are whole numbers in f64, which holds them exactly; they are
rounded to f32, multiplied by an f32, and rounded to the nearest whole number, ties to even. Importing this module
registers ``torch.ops.poet.conv2d_s8`` and the others. ``ends`` are the zero of the result, and what it is clamped to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def _results(sums: Tensor, scale: Tensor | float, ends: Sequence[int]) -> Tensor:
    zero, low, high = ends
    factor = torch.as_tensor(scale, dtype=torch.float32)
    return (torch.round(sums.float() * factor) + zero).clamp(low, high).to(torch.int8)


def _f32(number: float) -> float:
    """The nearest f32."""
    return float(torch.tensor(number, dtype=torch.float32))


@torch.library.custom_op("poet::quantize_s8", mutates_args=())
def quantize_s8(x: Tensor, inverse: float, ends: Sequence[int]) -> Tensor:
    """``inverse`` is 1 / scale, rounded to f32."""
    return _results(x, inverse, ends)


@torch.library.custom_op("poet::dequantize_s8", mutates_args=())
def dequantize_s8(x: Tensor, scale: float, zero: int) -> Tensor:
    return (x.float() - zero) * _f32(scale)


@torch.library.custom_op("poet::conv2d_s8", mutates_args=())
def conv2d_s8(
    x: Tensor,
    w: Tensor,
    start: Tensor,
    scale: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    zero_x: int,
    ends: Sequence[int],
) -> Tensor:
    """``start`` is what each filter's sum begins with: the bias, less ``zero_x`` times the sum of its weights."""
    (ph, pw), raw = padding, x.double()
    padded = functional.pad(raw, (pw, pw, ph, ph), value=float(zero_x))
    sums = functional.conv2d(padded, w.double(), start.double(), list(stride), 0, 1, groups)
    return _results(sums, scale[:, None, None], ends)


@torch.library.custom_op("poet::linear_s8", mutates_args=())
def linear_s8(x: Tensor, w: Tensor, start: Tensor, scale: Tensor, ends: Sequence[int]) -> Tensor:
    return _results(functional.linear(x.double(), w.double(), start.double()), scale, ends)


@torch.library.custom_op("poet::max_pool2d_s8", mutates_args=())
def max_pool2d_s8(x: Tensor, window: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    return functional.max_pool2d(x.float(), list(window), list(stride), list(padding)).to(torch.int8)


@torch.library.custom_op("poet::avg_pool2d_s8", mutates_args=())
def avg_pool2d_s8(
    x: Tensor,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    scale: float,
    zero_x: int,
    ends: Sequence[int],
) -> Tensor:
    """``scale`` is that of x, divided by the places of a window and by the scale of y."""
    places = functional.avg_pool2d(x.double() - zero_x, list(window), list(stride), list(padding), divisor_override=1)
    return _results(places, scale, ends)


@torch.library.custom_op("poet::add_s8", mutates_args=())
def add_s8(
    a: Tensor,
    b: Tensor,
    scale_a: float,
    zero_a: int,
    scale_b: float,
    zero_b: int,
    inverse_y: float,
    ends: Sequence[int],
) -> Tensor:
    sums = (a.float() - zero_a) * _f32(scale_a) + (b.float() - zero_b) * _f32(scale_b)
    return _results(sums, inverse_y, ends)


@torch.library.custom_op("poet::map_s8", mutates_args=())
def map_s8(x: Tensor, table: Tensor) -> Tensor:
    """Of 256 numbers, that of -128 first."""
    return table[x.long() + 128]


@torch.library.custom_op("poet::look_up", mutates_args=())
def look_up(x: Tensor, table: Tensor) -> Tensor:
    """Of 256 f32: of a byte as it lies, whatever number that is."""
    return table[x.view(torch.uint8).long()]


@torch.library.custom_op("poet::levels_s8", mutates_args=())
def levels_s8(x: Tensor, levels: Tensor, low: int) -> Tensor:
    """Of numbers of int16: ``low``, and 1 more for each of the rising levels below it."""
    return (torch.searchsorted(levels, x.contiguous()) + low).to(torch.int8)


@torch.library.custom_op("poet::widen", mutates_args=())
def widen(x: Tensor) -> Tensor:
    """Of numbers of int16, as f32."""
    return x.float()


@quantize_s8.register_fake
def _(x: Tensor, *_args: object) -> Tensor:
    return torch.empty_like(x, dtype=torch.int8)


@dequantize_s8.register_fake
def _(x: Tensor, *_args: object) -> Tensor:
    return torch.empty_like(x, dtype=torch.float32)


@conv2d_s8.register_fake
def _(
    x: Tensor, w: Tensor, _start: Tensor, _scale: Tensor, stride: Sequence[int], padding: Sequence[int], *_args: object
) -> Tensor:
    return x.new_empty((x.shape[0], w.shape[0], *_extents(x, w.shape[2:], stride, padding)))


@linear_s8.register_fake
def _(x: Tensor, w: Tensor, *_args: object) -> Tensor:
    return x.new_empty((*x.shape[:-1], w.shape[0]))


@max_pool2d_s8.register_fake
def _(x: Tensor, window: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    return x.new_empty((*x.shape[:-2], *_extents(x, window, stride, padding)))


@avg_pool2d_s8.register_fake
def _(x: Tensor, window: Sequence[int], stride: Sequence[int], padding: Sequence[int], *_args: object) -> Tensor:
    return x.new_empty((*x.shape[:-2], *_extents(x, window, stride, padding)))


@widen.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, dtype=torch.float32)


@levels_s8.register_fake
def _(x: Tensor, *_args: object) -> Tensor:
    return torch.empty_like(x, dtype=torch.int8)


@look_up.register_fake
def _(x: Tensor, table: Tensor) -> Tensor:
    return torch.empty_like(x, dtype=table.dtype)


@add_s8.register_fake
def _(a: Tensor, *_args: object) -> Tensor:
    return torch.empty_like(a)


@map_s8.register_fake
def _(x: Tensor, _table: Tensor) -> Tensor:
    return torch.empty_like(x)


def _extents(x: Tensor, window: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> list[int]:
    sizes = zip(x.shape[-2:], window, stride, padding, strict=True)
    return [(extent + 2 * pad - kernel) // step + 1 for extent, kernel, step, pad in sizes]
