# SPDX-License-Identifier: Apache-2.0
"""What the planner predicts of small shapes that nobody profiled, beside what the emulated cores take for them.

    .venv/bin/python -m benchmarks.firmware.predicted [--seed 0] [--count 30] [--list 15]

Of each operator so many shapes are drawn; those of which the shipped profile has rows are left out. --list N prints
each that is off by more than N %. benchmarks.firmware.composed tells it of operators tile by tile.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from poet_harness.profiling.configurations import Configuration
from poet_planner.costs.cost_model import Basis, CostModel
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import OPERATORS, params_key
from poet_profiles.graph import Graph, Node, Operation, Value
from poet_profiles.profile import read_profile
from poet_profiles.shipped import shipped_profile
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.elements import cycles_of
from benchmarks.firmware.emulated_core import OPERATOR_SOURCES, EmulatedCore

CORES = {"nrf52840": "cortex-m4f", "mkr1000": "cortex-m0plus"}
CONVOLUTIONS = ("conv2d", "conv2d_relu", "conv2d_backward_input", "conv2d_backward_weight")
POOLINGS = ("max_pool2d", "max_pool2d_backward", "max_pool2d_infer", "avg_pool2d", "avg_pool2d_backward")
DEPTHWISE = "depthwise "
BYTES = 6000  # of the largest tensor
KERNELS = ((3, 3), (3, 3), (3, 3), (1, 1), (1, 1), (5, 5), (1, 3), (2, 2), (1, 5))


def predicted(costs: CostModel, shape: Configuration) -> float | None:
    """Seconds; None if the profile has a row of it."""
    node = Node("n", 0, 0, (Value("n", 4),), operation=Operation(shape.op, shape.params, (), ("n",)))
    costed = costs.apply(Graph("one", (node,)))
    return costed.graph.nodes[0].time_s if costed.basis["n"] is Basis.FITTED else None


def shipped_costs(name: str) -> CostModel:
    """Of a board, by name."""
    board = load_board(name)
    return CostModel(read_profile(shipped_profile(name)), board.storage_block_bytes, board.dma_overlap, fpu=board.fpu)


def cores(folder: Path) -> dict[str, EmulatedCore]:
    """With all operators, by their boards."""
    sources = OPERATOR_SOURCES
    return {name: EmulatedCore(core, sources, ["poet_operators"], folder) for name, core in CORES.items()}


def drawn(label: str, count: int, seed: int) -> Iterator[Configuration]:
    """Shapes of an operator, or of its convolutions of single channels."""
    op, choose, seen = label.removeprefix(DEPTHWISE), random.Random(f"{label} {seed}"), set()
    while len(seen) < count:
        p = _product(choose, op) if op in ("linear", "matmul") else _windows(choose, op, label != op)
        if p is None:
            continue
        sizes = OPERATORS[op].sizes(p)
        if max(*sizes.inputs, *sizes.outputs) <= BYTES and (key := params_key(op, p)) not in seen:
            seen.add(key)
            yield Configuration(op, key)


def _product(choose: random.Random, op: str) -> dict[str, int]:
    m, k = choose.choice((1, 1, 2, 3, 4, 6, 8, 15)), choose.choice((4, 8, 10, 20, 48, 60, 64, 100, 200, 256))
    n = choose.choice((2, 3, 4, 5, 8, 9, 10, 12, 24, 32))
    if op == "linear":
        return {"m": m, "k": k, "n": n, "bias": choose.randrange(2)}
    shape, (ta, tb) = choose.choice((((m, n, k), (0, 0)), ((n, m, k), (1, 0)), ((m, k, n), (0, 1))))
    return {"b": 1, **dict(zip("mkn", shape, strict=True)), "ta": ta, "tb": tb}


def _windows(choose: random.Random, op: str, alone: bool) -> dict[str, int] | None:
    h = choose.choice((1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14))
    w = choose.choice((h, h, h, 1, 2, 4, 8, 12, 24))
    p = {"n": choose.choice((1, 1, 2, 4, 8)), "c": choose.choice((1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 32)), "h": h}
    if op in POOLINGS:
        window, stride = choose.choice(((2, 2), (2, 2), (3, 2), (3, 3)))
        return None if min(h, w) < window else {**p, "w": w, **_window(window, window, stride, 0)}
    (r, s), k = choose.choice(KERNELS), choose.choice((1, 2, 3, 4, 6, 8, 9, 10, 12, 16, 24, 32))
    k, groups = (p["c"], p["c"]) if alone else (k, 1)
    p |= {"w": w, "k": k, **_window(r, s, choose.choice((1, 1, 1, 2)), choose.randrange(2)), "g": groups}
    fits = h + 2 * p["ph"] >= r and w + 2 * p["pw"] >= s
    return {**p, "bias": choose.randrange(2)} if fits else None


def _window(r: int, s: int, stride: int, padding: int) -> dict[str, int]:
    return {"r": r, "s": s, "sh": stride, "sw": stride, "ph": padding * (r // 2), "pw": padding * (s // 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=30, help="shapes of each operator")
    parser.add_argument("--list", type=float, metavar="N", help="each that is off by more than N %%")
    options = parser.parse_args()
    heads = ("operator", "shapes", "lowest", "tenth", "median", "tenth", "highest", "within 8 %")
    labels = (
        "linear",
        "matmul",
        *CONVOLUTIONS,
        *(DEPTHWISE + op for op in CONVOLUTIONS if "relu" not in op),
        *POOLINGS,
    )
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as folder:
        for board, core in cores(Path(folder)).items():
            costs, hz = shipped_costs(board), load_board(board).clock_hz
            table = Table(*heads, title=f"{board} (emulated): predicted cycles of a call are off by, %")
            listed = []
            for label in labels:
                wanted = [(shape, predicted(costs, shape)) for shape in drawn(label, options.count, options.seed)]
                offs = [(100 * (s * hz / cycles_of(core, shape) - 1), shape) for shape, s in wanted if s is not None]
                found = [off for off, _ in offs]
                spread = (f"{each:+.1f}" for each in np.quantile(found, (0, 0.1, 0.5, 0.9, 1)))
                table.add_row(label, str(len(found)), *spread, f"{100 * np.mean(np.abs(found) <= 8):.0f} %")
                listed += [(off, shape) for off, shape in offs if options.list and abs(off) > options.list]
            console.print(table)
            for off, shape in listed:
                console.print(f"{off:+.1f} % {shape.op} {shape.params}", soft_wrap=True)


if __name__ == "__main__":
    main()
