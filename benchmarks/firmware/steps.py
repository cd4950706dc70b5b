# SPDX-License-Identifier: Apache-2.0
"""Seconds of whole training steps on the nRF52840, and what its instruction cache may add.

    .venv/bin/python -m benchmarks.firmware.steps [MODEL ...]
    .venv/bin/python -m benchmarks.firmware.steps --layers

A step is the sum of its operators, each run once on the emulated core with all tensors in RAM: nothing is recomputed or
paged, and the schedule's runner is not counted (runner_overhead.py). The cache and its penalty are assumptions
(instruction_cache.py). --layers tells it for each shape of kernels.py, by operator.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poet_harness.profiling.configurations import Configuration
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import params_key
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.elements import cycles_of
from benchmarks.firmware.emulated_core import FIRMWARE, OPERATOR_SOURCES, EmulatedCore
from benchmarks.firmware.instruction_cache import InstructionCache, cached
from benchmarks.firmware.kernels import DS_CNN, MOBILENET, RESNET8, convolutions, products

MODELS = ("digits_cnn", "mlperf_resnet8", "mlperf_ds_cnn", "poet_resnet18")
HZ = 64e6


class Bench:
    """One image of all operators, and its cache."""

    def __init__(self, core: EmulatedCore, cache: InstructionCache) -> None:
        self._core, self._cache = core, cache
        self._known: dict[tuple[str, str], tuple[int, float]] = {}

    def cycles(self, shape: Configuration) -> tuple[int, float]:
        """Of one call, and what the cache adds to them."""
        key = shape.op, shape.params
        if key not in self._known:
            before = self._cache.cycles
            self._known[key] = cycles_of(self._core, shape), self._cache.cycles - before
        return self._known[key]


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    kernels = FIRMWARE / "src" / "kernels"
    core = EmulatedCore("cortex-m4f", OPERATOR_SOURCES, ["poet_operators"], folder, [kernels])
    with cached(core) as cache:
        yield Bench(core, cache)


def step(model: str) -> Counter[tuple[str, str]]:
    """How often a step runs each operator with each of its parameters."""
    from poet_planner.planning.training_graph import training_graph

    graph = training_graph(model, None, load_board("nrf52840"))
    return Counter((node.operation.op, node.operation.params) for node in graph.nodes if node.operation)


def step_cycles(one: Bench, calls: Counter[tuple[str, str]]) -> tuple[float, float]:
    """Of all calls, and what the cache adds to them."""
    cycles = added = 0.0
    for (op, params), count in calls.items():
        own, flash = one.cycles(Configuration(op, params))
        cycles += count * own
        added += count * flash
    return cycles, added


def steps(models: list[str], one: Bench) -> Table:
    table = Table("model", "seconds", "cache adds", title="training steps, nRF52840 (emulated)")
    for model in models:
        cycles, added = step_cycles(one, step(model))
        table.add_row(model, f"{cycles / HZ:.3f}", f"{added / cycles:.1%}")
    return table


def layers(one: Bench) -> Table:
    table = Table("operator", "shape", "cycles/MAC", "cache adds", title="layers (emulated)")
    for case in (*convolutions(RESNET8 + DS_CNN + MOBILENET), *products()):
        cycles, added = one.cycles(Configuration(case.op, params_key(case.op, case.params)))
        table.add_row(case.op, case.label, f"{cycles / case.macs:.2f}", f"{added / cycles:.1%}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--layers", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as one:
        table = layers(one) if options.layers else steps(options.models, one)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
