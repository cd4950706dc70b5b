# SPDX-License-Identifier: Apache-2.0
"""Cycles an element of every operator that is no convolution and no matrix product, and of convolutions on 2x2 planes.

    .venv/bin/python -m benchmarks.firmware.elements [OPERATOR …]

Runs on both emulated cores, so every figure is `emulated`. An element is one of the largest tensor that an operator
reads or writes. Of the benchmark grid's shapes, each operator runs the one whose largest tensor is nearest to 4 KB.
Soft floats take longer for some numbers than for others: tensors are normally distributed here, statistics and
probabilities between 0.05 and 0.95. Convolutions on planes of 2x2 are counted by multiply-accumulates, those with the
zeros around the plane included; benchmarks.firmware.kernels has the others. Exits 1 if an operator takes more than its
limit on the M4F. Without operators named, all of them go into elements.csv, too.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator
from ctypes import sizeof
from pathlib import Path

import numpy as np
import numpy.typing as npt
from poet_harness.profiling.configurations import Configuration
from poet_harness.profiling.grid import grid
from poet_profiles.firmware.compiled_operators import CSizes
from poet_profiles.firmware.operators import OPERATORS, params_key, parse_params
from poet_profiles.firmware.steps import POINTWISE, only_step
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.emulated_core import HERE, OPERATOR_SOURCES, EmulatedCore

BYTES = 4096
TABLE = HERE / "elements.csv"
CORES = ("cortex-m4f", "cortex-m0plus")
SMALL_PLANES = {"n": 8, "c": 64, "h": 2, "w": 2, "k": 72, "r": 3, "s": 3, "sh": 1, "sw": 1, "ph": 1, "pw": 1, "g": 1}
LIMITS = {  # cycles on the M4F, at most
    "conv2d": 2.4,
    "conv2d_backward_input": 3.2,
    "conv2d_backward_weight": 3.2,
    "max_pool2d": 14.5,
    "batch_norm": 21.0,
    "batch_norm_backward": 24.0,
    "relu": 9.5,
    "relu_backward": 11.0,
    "sgd": 9.0,
}
PRODUCTS = ("conv2d", "linear", "matmul")
CONVOLUTIONS = ("conv2d", "conv2d_backward_input", "conv2d_backward_weight")
OF_BYTES = ("max_pool2d_s8", "avg_pool2d_s8", "add_s8", "map_s8")
SIZES_WORDS = sizeof(CSizes) // 4
WORKSPACE, IN_PLACE, INDEX_INPUT, INDEX_BYTES, INDEX_BOUND, NOT_NEGATIVE, S8 = (
    getattr(CSizes, name).offset // 4
    for name in ["workspace_bytes", "in_place", "index_input", "index_bytes", "index_bound", "not_negative", "s8"]
)


def main() -> int:
    measured = list(dict.fromkeys(name_of(shape) for shape in grid() if shape.op in OPERATORS))
    wanted = sys.argv[1:] or [
        name for name in measured if name in CONVOLUTIONS or not any(product in name for product in PRODUCTS)
    ]
    unknown = sorted(set(wanted) - set(measured))
    if unknown:
        print(f"elements: no operator {', '.join(unknown)}", file=sys.stderr)
        return 2
    columns = ("operator", "shape", "elements or products", "at most", *CORES)
    table, above, rows = Table(*columns, title="cycles of each (emulated)"), [], []
    with tempfile.TemporaryDirectory() as folder:
        sources = OPERATOR_SOURCES
        cores = [EmulatedCore(core, sources, ["poet_operators"], Path(folder)) for core in CORES]
        for shape in shapes(wanted):
            count = OPERATORS[shape.op].sizes(parse_params(shape.params)).flops // 2
            if shape.op not in CONVOLUTIONS:
                count = largest(shape) // (1 if shape.op in OF_BYTES else 4)
            cycles = [cycles_of(core, shape) / count for core in cores]
            name = name_of(shape)
            limit = LIMITS.get(name)
            cells = [f"{each:.2f}" for each in cycles]
            table.add_row(name, extents(shape), str(count), str(limit or ""), *cells)
            rows.append([name, extents(shape), *cells])
            if limit is not None and cycles[0] > limit:
                above.append(f"{name}: {cycles[0]:.2f} cycles on the {CORES[0]}, more than {limit}")
    Console(width=150).print(table)
    if not sys.argv[1:]:
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([["operator", "shape", *CORES], *rows])
    for line in above:
        print(line, file=sys.stderr)
    return 1 if above else 0


def shapes(names: list[str]) -> Iterator[Configuration]:
    """For each operator, one of the benchmark grid's shapes, with windows of 2x2; of a convolution, planes of 2x2."""
    every = [shape for shape in grid() if "pool" not in shape.op or halves(parse_params(shape.params))]
    for name in names:
        if name in CONVOLUTIONS:
            yield Configuration(name, params_key(name, {**SMALL_PLANES, "bias": 0}))
            continue
        yield min((shape for shape in every if name_of(shape) == name), key=lambda shape: abs(largest(shape) - BYTES))


def name_of(shape: Configuration) -> str:
    """Of the operator, or of its only step."""
    return only_step(shape.params) or shape.op


def halves(pool: dict[str, int]) -> bool:
    """Whether its windows of 2x2 are side by side, and meet every element."""
    return {pool[name] for name in ("r", "s", "sh", "sw")} == {2} and pool["h"] % 2 == pool["w"] % 2 == 0


def largest(shape: Configuration) -> int:
    sizes = OPERATORS[shape.op].sizes(parse_params(shape.params))
    return max(*sizes.inputs, *sizes.outputs, 4)


def extents(shape: Configuration) -> str:
    if shape.op == POINTWISE:
        return shape.params
    return " ".join(
        f"{name}={value}" for name, value in parse_params(shape.params).items() if not name.endswith(("_nano", "_f32"))
    )


def cycles_of(core: EmulatedCore, shape: Configuration) -> int:
    """Cycles of one call."""
    core.free()
    params = core.words(OPERATORS[shape.op].values(parse_params(shape.params)))
    place = core.place(4 * SIZES_WORDS)
    assert core.call(f"poet_{shape.op}_sizes", params, place)[0] == 0, shape
    words = np.frombuffer(core.machine.read_memory(place, 4 * SIZES_WORDS), np.uint32).tolist()
    sizes = OPERATORS[shape.op].sizes(parse_params(shape.params))
    inputs = [core.place(operand(shape, words, index, size)) for index, size in enumerate(sizes.inputs)]
    outputs = inputs[-len(sizes.outputs) :] if words[IN_PLACE] else [core.place(size) for size in sizes.outputs]
    outputs[:1] = [inputs[place] for place in OPERATORS[shape.op].takes_over[:1] if place] or outputs[:1]
    rate = int(np.float32(0.125).view(np.uint32))
    arguments = [params, core.words(inputs), core.words(outputs), core.place(words[WORKSPACE]), rate, 0, 0]
    status, cycles = core.call(f"poet_{shape.op}_run", core.words(arguments))
    assert status == 0, shape
    return cycles


def operand(shape: Configuration, words: list[int], index: int, size: int) -> npt.NDArray[np.generic]:
    random = np.random.default_rng(index)
    if words[INDEX_BOUND] and index == words[INDEX_INPUT]:
        kind = np.uint8 if words[INDEX_BYTES] == 1 else np.int32
        return random.integers(words[INDEX_BOUND], size=size // words[INDEX_BYTES]).astype(kind)
    if words[S8] >> index & 1:
        return random.integers(-127, 128, size).astype(np.int8)
    if size < largest(shape) or "cross_entropy" in shape.op:
        return random.uniform(0.05, 0.95, size // 4).astype(np.float32)
    if words[NOT_NEGATIVE] >> index & 1:
        return np.abs(random.standard_normal(size // 4, np.float32))
    return random.standard_normal(size // 4, np.float32)


if __name__ == "__main__":
    sys.exit(main())
