# SPDX-License-Identifier: Apache-2.0
"""Cycles of the operators on int8, against the most that each may take; every result against exact integers.

    .venv/bin/python -m benchmarks.firmware.integers

Runs on both emulated cores, so every figure is `emulated`. Exits with 1 where a limit is missed, or a bit differs from
what PyTorch computes in f64. A network's backbone is its convolutions and pools, with weights and inputs at random,
and scales with which half of the results are a ReLU's zeros.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import poet_runtime.integers
import torch
from poet_profiles.firmware.operators import OPERATORS
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.firmware.emulated_core import OPERATOR_SOURCES, EmulatedCore

S8 = torch.ops.poet
M0PLUS, M4F = "cortex-m0plus", "cortex-m4f"
MILLION = 1_000_000
ZERO_X, ZERO_Y = -7, -128
assert poet_runtime.integers.__doc__  # the import registers the operators

Params = dict[str, int]
Operands = tuple[tuple[Tensor, ...], Tensor]


@dataclass(frozen=True)
class Layer:
    op: str
    params: Params


@dataclass(frozen=True)
class Case:
    """Layers of a network, or one, and the most that they may take: cycles, or cycles a multiply-accumulate."""

    label: str
    core: str
    layers: tuple[Layer, ...]
    most: float
    each: bool = False


def conv(n: int, c: int, h: int, w: int, k: int, kernel: int, stride: int = 1, groups: int = 1) -> Layer:
    window = {"r": kernel, "s": kernel, "sh": stride, "sw": stride, "ph": kernel // 2, "pw": kernel // 2}
    ends = {"zero_x": ZERO_X, "zero_y": ZERO_Y, "low": ZERO_Y, "high": 127}
    return Layer("conv2d_s8", {"n": n, "c": c, "h": h, "w": w, "k": k, **window, "g": groups, **ends})


def pool(n: int, c: int, extent: int) -> Layer:
    window = {"r": 2, "s": 2, "sh": 2, "sw": 2, "ph": 0, "pw": 0}
    return Layer("max_pool2d_s8", {"n": n, "c": c, "h": extent, "w": extent, **window})


def linear(m: int, k: int, n: int) -> Layer:
    return Layer("linear_s8", {"m": m, "k": k, "n": n, "zero_y": 3, "low": -128, "high": 127})


def backbone(n: int, widths: Sequence[int], features: int) -> tuple[Layer, ...]:
    """Of finetune_cnn and its smaller copy: 3x3 convolutions, with a pool in place of a width of 0."""
    layers, channels, extent = [], 1, 8
    for width in widths:
        if width:
            layers.append(conv(n, channels, extent, extent, width, 3))
            channels = width
        else:
            layers.append(pool(n, channels, extent))
            extent //= 2
    return (*layers, conv(n, channels, extent, extent, features, 1))


def mobilenet() -> tuple[Layer, ...]:
    """MobileNetV1 0.25 of images of 96x96, up to its twelfth block."""
    blocks = [(8, 16, 48, 1), (16, 32, 48, 2), (32, 32, 24, 1), (32, 64, 24, 2), (64, 64, 12, 1), (64, 128, 12, 2)]
    blocks += [*((128, 128, 6, 1),) * 5, (128, 256, 6, 2)]
    layers = [conv(1, 3, 96, 96, 8, 3, 2)]
    for c, k, extent, stride in blocks:
        layers.append(conv(1, c, extent, extent, c, 3, stride, groups=c))
        layers.append(conv(1, c, extent // stride, extent // stride, k, 1))
    return tuple(layers)


def cases() -> list[Case]:
    small = backbone(2, (8, 16, 0, 32, 32, 0, 52), 16)
    big = backbone(8, (16, 32, 0, 64, 64, 0, 72), 32)
    whole = [
        Case("backbone of finetune_cnn_small, batch 2", M0PLUS, small, 4.2 * MILLION),
        Case("backbone of finetune_cnn, batch 8", M4F, big, 23 * MILLION),
        Case("MobileNetV1 0.25, frozen part", M4F, mobilenet(), 24 * MILLION),
    ]
    m0plus = [
        ("3x3, 32 to 52, 2x2", conv(2, 32, 2, 2, 52, 3), 5.2),
        ("3x3, 32 to 32, 4x4", conv(2, 32, 4, 4, 32, 3), 5.2),
        ("3x3, 64 to 64, 4x4", conv(1, 64, 4, 4, 64, 3), 5.2),
        ("1x1, 64 to 64, 25x5", conv(1, 64, 25, 5, 64, 1), 6.2),
        ("depthwise 3x3, 24x24", conv(1, 16, 24, 24, 16, 3, groups=16), 23),
        ("depthwise 3x3, stride 2, 24x24", conv(1, 16, 24, 24, 16, 3, 2, groups=16), 23),
        ("linear 64 to 32, batch 8", linear(8, 64, 32), 8),
    ]
    m4f = [
        ("1x1, 64 to 64, 25x5", conv(1, 64, 25, 5, 64, 1), 2.5),
        ("depthwise 3x3, 24x24", conv(1, 32, 24, 24, 32, 3, groups=32), 6.5),
        ("linear 64 to 32, batch 8", linear(8, 64, 32), 5),
    ]
    single = [Case(label, M0PLUS, (layer,), most, True) for label, layer, most in m0plus]
    return [*whole, *single, *(Case(label, M4F, (layer,), most, True) for label, layer, most in m4f)]


def _filters(filters: int, taps: int, draw: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    w = np.clip(np.round(draw.normal(0, 36, (filters, taps))), -127, 127).astype(np.int8)
    scale = draw.uniform(0.7, 1.4, filters) * 40 / (74 * 36 * math.sqrt(taps))
    start = draw.integers(-2000, 2000, filters).astype(np.int32)
    return torch.from_numpy(w), torch.from_numpy(start), torch.from_numpy(scale.astype(np.float32))


def operands(layer: Layer, draw: np.random.Generator) -> Operands:
    """Inputs, and what they should give."""
    p = layer.params

    def numbers(*shape: int) -> Tensor:
        return torch.from_numpy(draw.integers(-128, 128, shape, np.int8))

    ends = [p.get(name, 0) for name in ("zero_y", "low", "high")]
    if layer.op == "linear_s8":
        x = numbers(p["m"], p["k"])
        w, start, scale = _filters(p["n"], p["k"], draw)
        return (x, w, start, scale), S8.linear_s8(x, w, start, scale, ends)
    x = numbers(p["n"], p["c"], p["h"], p["w"])
    window, stride, padding = [p["r"], p["s"]], [p["sh"], p["sw"]], [p["ph"], p["pw"]]
    if layer.op == "max_pool2d_s8":
        return (x,), S8.max_pool2d_s8(x, window, stride, padding)
    channels = p["c"] // p["g"]
    w, start, scale = _filters(p["k"], channels * p["r"] * p["s"], draw)
    start = (start - p["zero_x"] * w.int().sum(1)).to(torch.int32)
    w = w.reshape(p["k"], channels, *window)
    return (x, w, start, scale), S8.conv2d_s8(x, w, start, scale, stride, padding, p["g"], p["zero_x"], ends)


def macs(layer: Layer) -> int:
    return 0 if "pool" in layer.op else OPERATORS[layer.op].sizes(layer.params).flops // 2


class Runs:
    """Layers on a core. Weights are constants in its flash, where a training step has them."""

    def __init__(self, core: str, layers: Sequence[Layer], folder: Path) -> None:
        draw = np.random.default_rng(1)
        self._operands = [operands(layer, draw) for layer in layers]
        table = folder / "tables.c"
        table.write_text("\n".join(self._tables()))
        sources = [*OPERATOR_SOURCES, table]
        names = [f"t_{i}_{j}" for i, (inputs, _) in enumerate(self._operands) for j in range(1, len(inputs))]
        self._core = EmulatedCore(core, sources, ["poet_operators", *names], folder)
        self._layers = layers

    def _tables(self) -> Iterator[str]:
        yield "#include <stdint.h>"
        for i, (inputs, _) in enumerate(self._operands):
            for j, tensor in enumerate(inputs[1:], 1):
                kind = "int8_t" if tensor.dtype == torch.int8 else "int32_t"
                words: npt.NDArray[np.generic] = tensor.numpy().ravel()
                whole = words.view(np.int32) if words.dtype == np.float32 else words
                yield f"_Alignas(4) const {kind} t_{i}_{j}[] = {{{','.join(map(str, whole.tolist()))}}};"

    def cycles(self, index: int) -> tuple[int, int]:
        """Of one call, and how many results differ."""
        layer, (inputs, expected) = self._layers[index], self._operands[index]
        core, sizes = self._core, OPERATORS[layer.op].sizes(layer.params)
        core.free()
        params = core.words([layer.params[name] for name in OPERATORS[layer.op].params])
        places = [core.place(inputs[0].numpy()), *(core.address(f"t_{index}_{j}") for j in range(1, len(inputs)))]
        (output,) = (core.place(size) for size in sizes.outputs)
        arguments = [params, core.words(places), core.words([output]), core.place(sizes.workspace), 0, 0, 0]
        status, cycles = core.call(f"poet_{layer.op}_run", core.words(arguments))
        assert status == 0, layer
        got = np.frombuffer(core.machine.read_memory(output, sum(sizes.outputs)), np.int8)
        return cycles, int((got != expected.numpy().ravel()).sum())


def main() -> int:
    table = Table("what", "core", "cycles", "each", "most", "differ", title="operators on int8 (emulated)")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for core in (M0PLUS, M4F):
            mine = [case for case in cases() if case.core == core]
            runs = Runs(core, [layer for case in mine for layer in case.layers], Path(folder))
            index = 0
            for case in mine:
                found = [runs.cycles(index + place) for place in range(len(case.layers))]
                index += len(case.layers)
                cycles, differing = (sum(column) for column in zip(*found, strict=True))
                each = cycles / sum(macs(layer) for layer in case.layers)
                missed = (each if case.each else cycles) > case.most or differing > 0
                failed |= missed
                row = [case.label, core, f"{cycles:,}", f"{each:.2f}", f"{case.most:,.10g}", str(differing)]
                table.add_row(*row, style="red" if missed else None)
    Console(width=130).print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
