# SPDX-License-Identifier: Apache-2.0
"""What PyTorch computes for the operators on int8 in exact sums, from inputs that a seed gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import poet_runtime.integers
import torch
from torch import Tensor

Params = Mapping[str, int]
S8 = torch.ops.poet
assert poet_runtime.integers.__doc__  # the import registers them


def from_bits(word: int) -> float:
    return float(np.int32(word).view(np.float32))


def int8s(draw: Any, *shape: int) -> Tensor:
    return torch.randint(-128, 128, shape, generator=draw.generator).to(torch.int8)


def weights(draw: Any, *shape: int) -> Tensor:
    """Each fourth time the largest, of either sign; single ones of -128, no two side by side."""
    filters = int8s(draw, *shape).reshape(shape[0], -1)
    if torch.randint(4, (1,), generator=draw.generator) == 0:
        filters = torch.where(filters < 0, -128, 127).to(torch.int8)
    filters[:, 1::2] = filters[:, 1::2].clamp_min(-127)
    return filters.reshape(shape)


def of_filters(draw: Any, filters: int, taps: int) -> tuple[Tensor, Tensor]:
    """What sums begin with; and scales, with which about half of the results are within a byte, or any."""
    start = torch.randint(-2000, 2000, (filters,), generator=draw.generator).to(torch.int32)
    usual = (0.5 + torch.rand(filters, generator=draw.generator)) * 60 / (74 * 74 * math.sqrt(taps))
    kinds = torch.randint(6, (filters,), generator=draw.generator)
    powers = 2.0 ** -torch.randint(-5, 22, (filters,), generator=draw.generator)
    return start, torch.where(kinds == 0, powers, usual).float()


def _pool(p: Params) -> tuple[list[int], list[int], list[int]]:
    return [p["r"], p["s"]], [p["sh"], p["sw"]], [p["ph"], p["pw"]]


def _range(p: Params) -> list[int]:
    return [p["zero_y"], p["low"], p["high"]]


Operands = tuple[tuple[Tensor, ...], Tensor]


def quantize_s8(p: Params, draw: Any) -> Operands:
    inverse = from_bits(p["inverse_f32"])
    x = (draw.normal(p["size"]) * 100 / inverse).float()
    x[::7] *= 1e4
    return (x,), S8.quantize_s8(x, inverse, [p["zero"], p["low"], p["high"]])


def dequantize_s8(p: Params, draw: Any) -> Operands:
    x = int8s(draw, p["size"])
    return (x,), S8.dequantize_s8(x, from_bits(p["scale_f32"]), p["zero"])


def conv2d_s8(p: Params, draw: Any) -> Operands:
    x, channels = int8s(draw, p["n"], p["c"], p["h"], p["w"]), p["c"] // p["g"]
    w = weights(draw, p["k"], channels, p["r"], p["s"])
    start, scale = of_filters(draw, p["k"], channels * p["r"] * p["s"])
    _, stride, padding = _pool(p)
    return (x, w, start, scale), S8.conv2d_s8(x, w, start, scale, stride, padding, p["g"], p["zero_x"], _range(p))


def linear_s8(p: Params, draw: Any) -> Operands:
    x, w = int8s(draw, p["m"], p["k"]), weights(draw, p["n"], p["k"])
    start, scale = of_filters(draw, p["n"], p["k"])
    return (x, w, start, scale), S8.linear_s8(x, w, start, scale, _range(p))


def max_pool2d_s8(p: Params, draw: Any) -> Operands:
    x = int8s(draw, p["n"], p["c"], p["h"], p["w"])
    return (x,), S8.max_pool2d_s8(x, *_pool(p))


def avg_pool2d_s8(p: Params, draw: Any) -> Operands:
    x = int8s(draw, p["n"], p["c"], p["h"], p["w"])
    return (x,), S8.avg_pool2d_s8(x, *_pool(p), from_bits(p["scale_f32"]), p["zero_x"], _range(p))


def add_s8(p: Params, draw: Any) -> Operands:
    a, b = int8s(draw, p["size"]), int8s(draw, p["size"])
    scale_a, scale_b, inverse = (from_bits(p[f"{name}_f32"]) for name in ("scale_a", "scale_b", "inverse_y"))
    return (a, b), S8.add_s8(a, b, scale_a, p["zero_a"], scale_b, p["zero_b"], inverse, _range(p))


def map_s8(p: Params, draw: Any) -> Operands:
    x, table = int8s(draw, p["size"]), int8s(draw, 256)
    return (x, table), S8.map_s8(x, table)


def shift_s8(p: Params, draw: Any) -> Operands:
    x, held = int8s(draw, p["rows"], p["count"]), int8s(draw, p["rows"], p["kept"] + p["count"])
    return (x, held), torch.cat([held, x], 1)[:, p["count"] :].contiguous()


def levels_s8(p: Params, draw: Any) -> Operands:
    """Levels and numbers that meet at times, and the ends of int16."""
    choices = torch.randperm(1 << 16, generator=draw.generator)[: p["levels"]] - (1 << 15)
    levels = choices.sort().values.to(torch.int16)
    x = torch.randint(-(1 << 15), 1 << 15, (p["size"],), generator=draw.generator).to(torch.int16)
    for place, number in enumerate((int(levels[0]), int(levels[-1]), -(1 << 15), (1 << 15) - 1)):
        x[place::5] = number
    return (x, levels), ((x[:, None] > levels).sum(1) + p["low"]).to(torch.int8)


INTEGER_REFERENCES: dict[str, Callable[[Params, Any], Operands]] = {
    reference.__name__: reference
    for reference in (
        *(quantize_s8, dequantize_s8, conv2d_s8, linear_s8, max_pool2d_s8, avg_pool2d_s8, add_s8, map_s8),
        *(levels_s8, shift_s8),
    )
}
