# SPDX-License-Identifier: Apache-2.0
"""Operators that take several elements at a time: NaNs, infinities, subnormals and both zeros, in any number of them.

The references take one element after another, in single precision.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch
from poet_profiles.firmware.operators import OPERATORS, parse_params

from tests.support.firmware.host_operators import CSizes, Operators

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware.emulated_core import EmulatedCore

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]
RATE = 0.37
BACKWARD = "relu_backward(y0,x0,x1)"
PLANES = [(4, 4, 1), (5, 6, 2), (8, 9, 5), (9, 5, 12)]  # images, channels, filters
SHAPES = [(8, 3, 8, 8), (3, 5, 7, 5), (1, 1, 2, 2), (2, 3, 5, 6), (1, 1, 1, 3)]
WINDOWS = [(2, 2, 2, 2, 0, 0), (2, 2, 1, 3, 0, 0), (2, 2, 2, 2, 1, 1), (3, 2, 2, 1, 0, 0)]
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40, 3e38, -3e38], np.float32)


def drawn(seed: int, *shape: int, odd: float) -> Floats:
    """Normally distributed numbers, of which so large a share is replaced."""
    random = np.random.default_rng(seed)
    array = random.standard_normal(shape, np.float32)
    chosen = random.random(shape) < odd
    array[chosen] = random.choice(ODD, int(chosen.sum()))
    return array


def sum_in_order(terms: Floats) -> Floats:
    """Of (images, channels, elements), by channel: image after image, in each element after element."""
    total = np.zeros(terms.shape[1], np.float32)
    for image in terms:
        part = np.zeros(terms.shape[1], np.float32)
        for column in image.T:
            part = part + column
        total = total + part
    return total


def by_channel(values: Floats) -> Floats:
    return values[None, :, None]


def batch_norm(x: Floats, gamma: Floats, beta: Floats) -> list[Array]:
    count = np.float32(x.shape[0] * x.shape[2])
    mean = sum_in_order(x) / count
    centred = x - by_channel(mean)
    variance = sum_in_order(centred * centred) / count
    invstd = np.float32(1) / np.sqrt(variance + np.float32(10000) / np.float32(1e9))
    return [centred * by_channel(invstd) * by_channel(gamma) + by_channel(beta), mean, invstd]


def batch_norm_backward(gy: Floats, x: Floats, gamma: Floats, mean: Floats, invstd: Floats) -> list[Array]:
    count = np.float32(x.shape[0] * x.shape[2])
    z = (x - by_channel(mean)) * by_channel(invstd)
    gbeta, ggamma = sum_in_order(gy), sum_in_order(gy * z)
    rest = gy - by_channel(gbeta / count) - z * by_channel(ggamma / count)
    return [by_channel(gamma * invstd) * rest, ggamma, gbeta]


def max_pool(x: Floats, window: Sequence[int]) -> list[Array]:
    """PyTorch's maxima, and their places inside their windows."""
    kernel, stride, padding = window[:2], window[2:4], window[4:]
    y, at = torch.nn.functional.max_pool2d(torch.from_numpy(x), kernel, stride, padding, return_indices=True)
    rows, columns = np.divmod(at.numpy(), x.shape[3])
    top = np.arange(y.shape[2])[:, None] * stride[0] - padding[0]
    left = np.arange(y.shape[3]) * stride[1] - padding[1]
    return [y.numpy(), ((rows - top) * kernel[1] + columns - left).astype(np.uint8)]


def convolution(x: Floats, w: Floats, bias: Floats) -> Floats:
    """Padded by one; every sum begins with the bias, and takes channel after channel, row after row of the kernel."""
    n, c, h, width = x.shape
    padded = np.zeros((n, c, h + 2, width + 2), np.float32)
    padded[:, :, 1:-1, 1:-1] = x
    sums = np.broadcast_to(bias[None, :, None, None], (n, len(w), h, width)).astype(np.float32)
    for channel, r, s in np.ndindex(c, 3, 3):
        window = padded[:, None, channel, r : r + h, s : s + width]
        sums = sums + window * w[None, :, channel, r, s, None, None]
    return sums


def input_gradient(gy: Floats, w: Floats) -> Floats:
    """The same with padded gradients: filter after filter, and the kernel's rows likewise."""
    n, k, h, width = gy.shape
    padded = np.zeros((n, k, h + 2, width + 2), np.float32)
    padded[:, :, 1:-1, 1:-1] = gy
    sums = np.full((n, w.shape[1], h, width), -0.0, np.float32)
    for filter_, r, s in np.ndindex(k, 3, 3):
        window = padded[:, None, filter_, 2 - r : 2 - r + h, 2 - s : 2 - s + width]
        sums = sums + window * w[None, filter_, :, r, s, None, None]
    return sums


def weight_gradient(gy: Floats, x: Floats) -> Floats:
    """Image after image, in each result after result."""
    n, k, h, width = gy.shape
    padded = np.zeros((n, x.shape[1], h + 2, width + 2), np.float32)
    padded[:, :, 1:-1, 1:-1] = x
    sums = np.zeros((k, x.shape[1], 3, 3), np.float32)
    for image, row, column in np.ndindex(n, h, width):
        window = padded[image, None, :, row : row + 3, column : column + 3]
        sums = sums + gy[image, :, None, row, column, None, None] * window
    return sums


class OnCore:
    """Operators on an emulated core, run as those of the host are."""

    def __init__(self, core: EmulatedCore) -> None:
        self.core = core

    def run(self, name: str, params: dict[str, int], inputs: Sequence[Array], rate: float = 0.0) -> list[Array]:
        core = self.core
        core.free()
        values = core.words(OPERATORS[name].values(params))
        sizes_at = core.place(ctypes.sizeof(CSizes))
        assert core.call(f"poet_{name}_sizes", values, sizes_at)[0] == 0
        sizes = CSizes.from_buffer_copy(core.machine.read_memory(sizes_at, ctypes.sizeof(CSizes)))
        places = [core.place(np.ascontiguousarray(array)) for array in inputs]
        lengths = sizes.output_bytes[: sizes.outputs]
        outputs = places[-1:] if sizes.in_place else [core.place(length) for length in lengths]
        workspace, bits = core.place(sizes.workspace_bytes), int(np.float32(rate).view(np.uint32))
        arguments = core.words([values, core.words(places), core.words(outputs), workspace, bits, 0, 0])
        assert core.call(f"poet_{name}_run", arguments)[0] == 0
        read = [core.machine.read_memory(at, length) for at, length in zip(outputs, lengths, strict=True)]
        return [np.frombuffer(data, np.float32 if len(data) % 4 == 0 else np.uint8) for data in read]


Runner = Operators | OnCore


@pytest.fixture(scope="module", params=["host", "cortex-m4f", "cortex-m0plus"])
def runner(request: pytest.FixtureRequest, operators: Operators, core_with: Callable[..., EmulatedCore]) -> Runner:
    if request.param == "host":
        return operators
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("no arm-none-eabi-gcc")
    return OnCore(core_with(request.param, "poet_operators"))


def assert_bits(found: Sequence[Array], expected: Sequence[Array]) -> None:
    """Of all numbers; a NaN is one, whichever it is."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        values = np.frombuffer(one.tobytes(), other.dtype)
        if other.dtype == np.float32:
            assert np.array_equal(np.isnan(values), np.isnan(other.ravel()))
            values, other = (np.where(np.isnan(numbers), np.float32(0), numbers) for numbers in (values, other))
        assert values.tobytes() == other.tobytes()


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
class TestOddNumbers:
    def test_relu(self, runner: Runner, shape: tuple[int, ...], odd: float) -> None:
        gy, x = drawn(1, *shape, odd=odd), drawn(2, *shape, odd=odd)
        relu, backward = (parse_params(f"size={x.size} steps={one}") for one in ("relu(y0,x0)", BACKWARD))
        assert_bits(runner.run("pointwise", relu, [x]), [np.where(x <= 0, np.float32(0), x)])
        assert_bits(runner.run("pointwise", backward, [gy, x]), [np.where(x <= 0, np.float32(0), gy)])

    def test_sgd(self, runner: Runner, shape: tuple[int, ...], odd: float) -> None:
        gradient, weights = drawn(1, *shape, odd=odd), drawn(2, *shape, odd=odd)
        expected = weights - np.float32(RATE) * gradient
        assert_bits(runner.run("sgd", {"size": weights.size}, [gradient, weights], RATE), [expected])

    def test_batch_norm(self, runner: Runner, shape: tuple[int, ...], odd: float) -> None:
        n, c, h, w = shape
        params = {"n": n, "c": c, "size": h * w, "eps_nano": 10000}
        x, gy = drawn(1, n, c, h * w, odd=odd), drawn(2, n, c, h * w, odd=odd)
        gamma, beta, mean = drawn(3, c, odd=odd / 2), drawn(4, c, odd=odd / 2), drawn(5, c, odd=0.0)
        invstd = np.abs(drawn(6, c, odd=0.0)) + np.float32(0.1)
        assert_bits(runner.run("batch_norm", params, [x, gamma, beta]), batch_norm(x, gamma, beta))
        found = runner.run("batch_norm_backward", params, [gy, x, gamma, mean, invstd])
        assert_bits(found, batch_norm_backward(gy, x, gamma, mean, invstd))

    def test_max_pool(self, runner: Runner, shape: tuple[int, ...], odd: float) -> None:
        for window in WINDOWS:
            kernel, padding = window[:2], window[4:]
            if any(extent + 2 * pad < k for extent, k, pad in zip(shape[2:], kernel, padding, strict=True)):
                continue
            params = dict(zip(("n", "c", "h", "w", "r", "s", "sh", "sw", "ph", "pw"), (*shape, *window), strict=True))
            for x in (drawn(1, *shape, odd=odd), np.round(drawn(2, *shape, odd=odd))):  # many are equal, and zeros
                expected = max_pool(x, window)
                assert_bits(runner.run("max_pool2d", params, [x]), expected)
                assert_bits(runner.run("max_pool2d_infer", params, [x]), expected[:1])


@pytest.mark.parametrize("odd", [0.0, 0.002, 0.1])
@pytest.mark.parametrize("shape", PLANES)
@pytest.mark.parametrize("zeros", [0.0, 0.5, 1.0])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_convolutions_of_small_planes(runner: Runner, shape: tuple[int, ...], zeros: float, odd: float) -> None:
    """A share of the inputs are zeros of either sign; some filters and channels are negative, or zeros, throughout."""
    n, c, k = shape
    x, gy, w = (drawn(seed, *dims, odd=odd) for seed, dims in enumerate([(n, c, 2, 2), (n, k, 2, 2), (k, c, 3, 3)]))
    random, bias = np.random.default_rng(9), drawn(4, k, odd=0.5)
    for planes in (x, gy):
        chosen = random.random(planes.shape) < zeros
        planes[chosen] = random.choice(np.array([0.0, -0.0], np.float32), int(chosen.sum()))
    w[::2] = -np.abs(w[::2])
    w[:, 1] = np.float32(-0.0)
    params = {"n": n, "c": c, "h": 2, "w": 2, "k": k, "r": 3, "s": 3, "sh": 1, "sw": 1, "ph": 1, "pw": 1, "g": 1}
    plain, nothing = {**params, "bias": 0}, np.full(k, -0.0, np.float32)
    assert_bits(runner.run("conv2d", {**params, "bias": 1}, [x, w, bias]), [convolution(x, w, bias)])
    assert_bits(runner.run("conv2d", plain, [x, w]), [convolution(x, w, nothing)])
    assert_bits(runner.run("conv2d_backward_input", plain, [gy, w]), [input_gradient(gy, w)])
    assert_bits(runner.run("conv2d_backward_weight", plain, [gy, x]), [weight_gradient(gy, x)])
    half = c // 2
    if half >= 4:  # as many channels as are computed so
        first = runner.run("conv2d", {**plain, "c": half}, [x[:, :half], w[:, :half]])
        rest = {**plain, "c": c - half}
        found = runner.run("conv2d_accumulate", rest, [x[:, half:], w[:, half:], first[0]])
        assert_bits(found, [convolution(x, w, nothing)])
    half = k // 2
    if half >= 1:
        first = runner.run("conv2d_backward_input", {**plain, "k": half}, [gy[:, :half], w[:half]])
        rest = {**plain, "k": k - half}
        found = runner.run("conv2d_backward_input_accumulate", rest, [gy[:, half:], w[half:], first[0]])
        assert_bits(found, [input_gradient(gy, w)])
