# SPDX-License-Identifier: Apache-2.0
"""The operators on int8 against NumPy's f32, PyTorch's integer engine, and its graph of f32 operators."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tests.support.firmware.host_operators import Operators, StatusError
from tests.support.firmware.integer_references import from_bits

f32 = np.float32
NOT_FINITE = -12
EVERY_SUM = np.arange(-(1 << 20), 1 << 20, dtype=np.int32)
random = np.random.default_rng(0)
# Powers of two, whose ties are many; ties by halves of them; those of usual layers; and beyond what integers scale.
SCALES = [2.0**-e for e in range(-5, 21)] + [1.5 * 2.0**-e for e in range(3, 10)] + [0.75 / 255, 2.0**-30, 1e-38]
SCALES += np.exp(random.uniform(np.log(2.0**-17), np.log(20), 40)).tolist()


def bits(number: float) -> int:
    return int(f32(number).view(np.int32))


def results(operators: Operators, sums: npt.NDArray[np.int32], scale: float, zero: int) -> npt.NDArray[np.int8]:
    """Of a linear layer whose weights are 0: its sums are what they begin with."""
    params = {"m": 1, "k": 1, "n": len(sums), "zero_y": zero, "low": -128, "high": 127}
    inputs = np.ones(1, np.int8), np.zeros(len(sums), np.int8), sums, np.full(len(sums), scale, f32)
    (output,) = operators.run("linear_s8", params, inputs)
    return output.view(np.int8)


@pytest.mark.parametrize("scale", SCALES)
def test_every_sum_is_scaled_as_numpy_scales(operators: Operators, scale: float) -> None:
    for zero in (-128, 127):
        rounded = np.rint(EVERY_SUM.astype(f32) * f32(scale))
        expected = np.clip(rounded.astype(np.float64) + zero, -128, 127).astype(np.int8)
        assert np.array_equal(results(operators, EVERY_SUM, scale, zero), expected)


def test_large_sums_round_before_they_are_scaled(operators: Operators) -> None:
    """f32 holds whole numbers up to 2^24."""
    sums = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, 1 << 20).astype(np.int32)
    for scale in (2.0**-24, 2.0**-22, 1.3e-7, 3e-6, 1e-4):
        rounded = np.rint(sums.astype(f32) * f32(scale))
        expected = np.clip(rounded.astype(np.float64) - 3, -128, 127).astype(np.int8)
        assert np.array_equal(results(operators, sums, scale, -3), expected)


def _sums() -> list[tuple[float, float, float]]:
    """Two scales, and that of the sum."""
    usual = np.exp(random.uniform(np.log(0.003), np.log(0.05), (40, 3)))
    far_apart = [(1e-9, 0.01, 0.01), (0.5, 1e-4, 0.7), (1e-3, 1e-3, 1e3), (9.0, 7.0, 1e-3), (1e-38, 2e-38, 1e-38)]
    return [(0.02, 0.02, 0.04), (2.0**-7, 2.0**-7, 2.0**-6), (2.0**-5, 2.0**-8, 2.0**-6), *usual.tolist(), *far_apart]


@pytest.mark.parametrize("scales", _sums())
def test_every_pair_of_bytes_is_added_as_numpy_adds(operators: Operators, scales: tuple[float, float, float]) -> None:
    a, b = (x.ravel().astype(np.int8) for x in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    scale_a, scale_b, inverse = f32(scales[0]), f32(scales[1]), f32(1.0 / scales[2])
    za, zb, zy = np.random.default_rng(bits(scales[0])).integers(-128, 128, 3).tolist()
    params = {"size": a.size, "zero_a": za, "zero_b": zb, "zero_y": zy, "low": -128, "high": 127}
    params |= {"scale_a_f32": bits(scale_a), "scale_b_f32": bits(scale_b), "inverse_y_f32": bits(inverse)}
    (y,) = operators.run("add_s8", params, (a, b))
    with np.errstate(over="ignore"):
        total = (a.astype(f32) - f32(za)) * scale_a + (b.astype(f32) - f32(zb)) * scale_b
        expected = np.clip(np.rint(total * inverse).astype(np.float64) + zy, -128, 127)
    assert np.array_equal(y.view(np.int8), expected.astype(np.int8))


@pytest.mark.parametrize("layer", range(40))
def test_a_convolution_equals_qnnpack(operators: Operators, layer: int) -> None:
    """PyTorch's integer engine, which takes the bias as the firmware does."""
    if "qnnpack" not in torch.backends.quantized.supported_engines:
        pytest.skip("this PyTorch has no QNNPACK")
    draw = torch.Generator().manual_seed(layer)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=draw))

    stride, kernel, groups = integer(1, 2), integer(0, 1) * 2 + 1, integer(0, 1) * 7 + 1
    c, k, h, w, pad = 8, 16 if groups == 1 else 8, integer(3, 9), integer(3, 9), kernel // 2
    x_scale, y_scale = (float(s) for s in torch.rand(2, generator=draw) * 0.02 + 0.002)
    zx, zy = integer(-128, 127), integer(-128, 127)
    x = torch.randint(-128, 128, (2, c, h, w), generator=draw).to(torch.int8)
    weight = torch.randint(-127, 128, (k, c // groups, kernel, kernel), generator=draw).to(torch.int8)
    w_scale = torch.rand(k, generator=draw) * 0.004 + 0.0005
    bias = torch.randn(k, generator=draw) * 0.3

    sum_scale = torch.tensor(x_scale) * w_scale
    whole = torch.round(bias / sum_scale).to(torch.int64)
    start = (whole - zx * weight.long().sum((1, 2, 3))).to(torch.int32)
    scale = sum_scale / torch.tensor(y_scale)
    params = {"n": 2, "c": c, "h": h, "w": w, "k": k, "r": kernel, "s": kernel, "sh": stride, "sw": stride}
    params |= {"ph": pad, "pw": pad, "g": groups, "zero_x": zx, "zero_y": zy, "low": -128, "high": 127}
    operands = tuple(tensor.numpy() for tensor in (x, weight, start, scale))
    (y,) = operators.run("conv2d_s8", params, operands)
    assert np.array_equal(
        y.view(np.int8), _qnnpack(x, x_scale, zx, weight, w_scale, bias, stride, pad, groups, y_scale, zy)
    )


def _qnnpack(
    x: Tensor, x_scale: float, zx: int, w: Tensor, w_scale: Tensor, bias: Tensor, stride: int, pad: int, groups: int,
    y_scale: float, zy: int,
) -> npt.NDArray[np.int8]:  # fmt: skip
    """It takes uint8: bytes and zero points are 128 larger."""
    engine = torch.backends.quantized.engine
    try:
        torch.backends.quantized.engine = "qnnpack"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantised tensors are deprecated
            xq = torch._make_per_tensor_quantized_tensor((x.int() + 128).to(torch.uint8), x_scale, zx + 128)
            zeros = torch.zeros(len(w), dtype=torch.long)
            wq = torch._make_per_channel_quantized_tensor(w, w_scale.double(), zeros, 0)
            packed = torch.ops.quantized.conv2d_prepack(wq, bias, [stride] * 2, [pad] * 2, [1, 1], groups)
            y = torch.ops.quantized.conv2d(xq, packed, y_scale, zy + 128).int_repr()
        return (y.int() - 128).to(torch.int8).numpy().ravel()
    finally:
        torch.backends.quantized.engine = engine


@pytest.mark.parametrize("seed", range(20))
def test_edges_pools_sums_and_tables_equal_pytorchs_graph_of_f32(operators: Operators, seed: int) -> None:
    draw = np.random.default_rng(seed)
    scale, other, of_sum = np.exp(draw.uniform(np.log(1e-3), np.log(0.5), 3)).tolist()
    zero, z2, z3 = draw.integers(-128, 128, 3).tolist()
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    limits = (-128, 127, torch.int8)
    x = torch.from_numpy(draw.normal(0, 100 * scale, (2, 3, 6, 5)).astype(f32))
    q, b = quantize(x, scale, zero, *limits), torch.from_numpy(draw.integers(-128, 128, (2, 3, 6, 5), np.int8))

    def run(op: str, params: dict[str, int], *inputs: Tensor) -> npt.NDArray[np.uint8]:
        return operators.run(op, params, [tensor.numpy() for tensor in inputs])[0]

    size = {"size": x.numel()}
    edge = size | {"zero": zero}
    inverse = {"low": -128, "high": 127, "inverse_f32": bits(1.0 / scale)}
    assert np.array_equal(run("quantize_s8", edge | inverse, x).view(np.int8), q.numpy().ravel())
    back = run("dequantize_s8", edge | {"scale_f32": bits(scale)}, q).view(f32)
    assert np.array_equal(back, dequantize(q, scale, zero, *limits).numpy().ravel())

    total = dequantize(q, scale, zero, *limits) + dequantize(b, other, z2, *limits)
    params = size | {"zero_a": zero, "zero_b": z2, "zero_y": z3, "low": -128, "high": 127}
    params |= {"scale_a_f32": bits(scale), "scale_b_f32": bits(other), "inverse_y_f32": bits(1.0 / of_sum)}
    assert np.array_equal(
        run("add_s8", params, q, b).view(np.int8), quantize(total, of_sum, z3, *limits).numpy().ravel()
    )

    windows = {"n": 2, "c": 3, "h": 6, "w": 5, "r": 3, "s": 2, "sh": 2, "sw": 1, "ph": 1, "pw": 1}
    pooled = F.max_pool2d(dequantize(q, scale, zero, *limits), (3, 2), (2, 1), (1, 1))
    assert np.array_equal(
        run("max_pool2d_s8", windows, q).view(np.int8), quantize(pooled, scale, zero, *limits).ravel()
    )

    every = torch.arange(-128, 128).to(torch.int8)
    table = quantize(torch.sigmoid(dequantize(every, scale, zero, *limits)), 1 / 256, -128, *limits)
    mapped = quantize(torch.sigmoid(dequantize(q, scale, zero, *limits)), 1 / 256, -128, *limits)
    assert np.array_equal(run("map_s8", size, q, table).view(np.int8), mapped.numpy().ravel())


@pytest.mark.parametrize("seed", range(20))
def test_a_mean_is_within_a_step_of_pytorchs_graph_of_f32(operators: Operators, seed: int) -> None:
    """Which sums in f32, in an order of its own; equal to what exact sums give, to the bit."""
    draw = np.random.default_rng(seed)
    scale, of_mean = np.exp(draw.uniform(np.log(1e-3), np.log(0.5), 2)).tolist()
    zero, zero_y = draw.integers(-128, 128, 2).tolist()
    q = torch.from_numpy(draw.integers(-128, 128, (2, 3, 8, 8), np.int8))
    factor = f32(scale / (16 * of_mean))
    params = {"n": 2, "c": 3, "h": 8, "w": 8, "r": 4, "s": 4, "sh": 2, "sw": 2, "ph": 1, "pw": 1, "zero_x": zero}
    params |= {"zero_y": zero_y, "low": -128, "high": 127, "scale_f32": bits(factor)}
    y = operators.run("avg_pool2d_s8", params, [q.numpy()])[0].view(np.int8).astype(int)
    sums = F.avg_pool2d(q.double() - zero, 4, 2, 1, divisor_override=1).numpy()
    exact = np.clip(np.rint(sums.astype(f32) * from_bits(bits(factor))) + zero_y, -128, 127).ravel()
    assert np.array_equal(y, exact)
    mean = F.avg_pool2d((q.float() - zero) * scale, 4, 2, 1)
    in_f32 = torch.clamp(torch.round(mean / of_mean) + zero_y, -128, 127).numpy().ravel()
    assert np.abs(y - in_f32).max() <= 1


def test_what_is_no_number_has_no_byte(operators: Operators) -> None:
    params = {"size": 3, "zero": 4, "low": -100, "high": 120, "inverse_f32": bits(2.0)}
    ends = np.array([np.inf, -np.inf, 0.25], f32)  # a tie
    assert operators.run("quantize_s8", params, [ends])[0].view(np.int8).tolist() == [120, -100, 4]
    with pytest.raises(StatusError) as refused:
        operators.run("quantize_s8", params, [np.array([1, np.nan, 2], f32)])
    assert refused.value.status == NOT_FINITE
