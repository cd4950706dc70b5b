# SPDX-License-Identifier: Apache-2.0
"""Cycles per multiply-accumulate on the Cortex-M4F of operators that read their weights tile by tile.

Only the computing is counted: the weights lie in RAM. The last column of a shape is the operator that takes them whole.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.firmware.operators import output_extent, rows_together
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.kernels import Bench, Case, Layer

TILES = (4, 8, 16, 32)
BLOCK_FLOATS = 128
# What the tensors that are streamed look like in ResNet-18, VGG16, MobileNet and BERT.
LAYERS = (
    Layer(16, 16, 32, 32, 3),
    Layer(64, 64, 8, 8, 3),
    Layer(128, 128, 4, 4, 3),
    Layer(64, 128, 16, 16, 3, 2),
    Layer(64, 64, 12, 12, 1),
    Layer(256, 256, 3, 3, 1),
    Layer(128, 128, 2, 2, 3),
)
PRODUCTS = ((32, 128, 512), (1, 1024, 64))  # rows, inputs, outputs


@dataclass(frozen=True)
class Shape:
    """One tensor of weights, its three operators, and the operators that take it whole."""

    label: str
    rows: int
    row_floats: int
    params: dict[str, dict[str, int]]
    whole: dict[str, tuple[str, dict[str, int]]]


def convolution(layer: Layer) -> Shape:
    p = layer.params
    names = ("", "_backward_input", "_update")
    streamed = {f"streamed_conv2d{name}": p for name in names}
    whole = {f"streamed_conv2d{name}": (f"conv2d{name}", p) for name in names}
    whole["streamed_conv2d_update"] = ("conv2d_update", p | {"tile": layer.filters})
    return Shape(layer.label, layer.filters, layer.channels * layer.kernel**2, streamed, whole)


def product(m: int, k: int, n: int) -> Shape:
    p = {"m": m, "k": k, "n": n}
    streamed = {
        "streamed_linear": p | {"bias": 0},
        "streamed_linear_backward_input": p,
        "streamed_linear_update": p | {"bias": 0},
    }
    whole = {
        "streamed_linear": ("linear", p | {"bias": 0}),
        "streamed_linear_backward_input": ("matmul", {"b": 1, "m": m, "k": n, "n": k, "ta": 0, "tb": 0}),
        "streamed_linear_update": ("linear_update", p | {"bias": 0, "tile": n}),
    }
    return Shape(f"linear, {m} x {k} -> {n}", n, k, streamed, whole)


def macs(op: str, params: dict[str, int]) -> int:
    """Of a tensor of weights and one pass over it."""
    if "r" not in params:
        return params["m"] * params["k"] * params["n"]
    rows, columns = (output_extent(params[x], params["r"], params["sh"], params["ph"]) for x in ("h", "w"))
    return params["n"] * rows * columns * params["k"] * params["c"] // params["g"] * params["r"] * params["s"]


def cycles(bench: Bench, shape: Shape, tile: int | None) -> Iterator[str]:
    """Forward, input gradient and update."""
    for op, params in shape.params.items():
        if "backward_input" in op and tile and tile % rows_together(op, params) != 0:
            yield "-"  # it sums over whole parts
            continue
        name, configuration = (op, params | {"tile": tile}) if tile else shape.whole[op]
        case = Case(name, configuration, (0, 0, 0), shape.label, None)
        yield f"{bench.operator(case) * case.macs / macs(op, params):.2f}"


def tiles(shape: Shape) -> Iterable[int]:
    return [tile for tile in TILES if tile < shape.rows and tile * shape.row_floats % BLOCK_FLOATS == 0]


def main() -> int:
    title = "forward / input gradient / update (emulated)"
    table = Table("shape", *(str(tile) for tile in TILES), "whole", title=title)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench("cortex-m4f", None, Path(folder))
        for shape in (*map(convolution, LAYERS), *(product(*sizes) for sizes in PRODUCTS)):
            measured = {tile: " / ".join(cycles(bench, shape, tile)) for tile in tiles(shape)}
            whole = " / ".join(cycles(bench, shape, None))
            table.add_row(shape.label, *(measured.get(tile, "") for tile in TILES), whole)
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
