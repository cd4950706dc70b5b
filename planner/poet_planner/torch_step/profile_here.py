# SPDX-License-Identifier: Apache-2.0
"""What a step's operators and pages cost on this computer, measured when they are first wanted and kept from then on.

Each operator is timed in its place in a step, where it finds the caches as training does; in a loop of its own it is
up to a quarter quicker. The step is that of a first plan, so that it keeps within the memory of a plan. Nothing is
changed: its results are dropped.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from poet_profiles.files.cache import cache_folder
from poet_profiles.files.ram_disk import ram_disk
from poet_profiles.files.whole_file import write_whole
from poet_profiles.graph import Graph, Node, PageCost
from poet_runtime.compiled_step import CompiledStep
from poet_runtime.devices import Cpu, device_named
from poet_runtime.measured_sizes import times_apart_s
from poet_runtime.page_benchmark import PageBenchmark
from poet_runtime.pinned_pager import CudaStreams
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor

from poet_planner.costs.fitting import fit_relative

CACHE = "costs-here"
# In the place of a folder: pages wait in the memory of a GPU's host.
HOST = "host"
WARM_UP = 1
ROUNDS = 3
TRANSFERS = 15
PAGE_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
# Smaller transfers do not follow the line that the costs of pages are read off, and gain little.
LEAST_PAGE_BYTES = 64 << 10


@dataclass(frozen=True)
class StepCosts:
    """Seconds of each operator by id, and what lies between two of them."""

    times_s: Mapping[str, float]
    overhead_s: float


@dataclass(frozen=True)
class PageCosts:
    """Seconds of a page: so many, and so many more a byte."""

    out_s: tuple[float, float]
    in_s: tuple[float, float]

    def cost(self, size: int) -> PageCost:
        """Of a page of so many bytes; its energy is that of a computer that takes 1 W more while it works."""
        out_s, in_s = (fixed + size * each for fixed, each in (self.out_s, self.in_s))
        return PageCost(out_s, out_s, in_s, in_s)


def costed_here(
    graph: Graph,
    key: str,
    traced: TracedGraph,
    residents: Mapping[str, Tensor],
    page_folder: Path | str | None,
    first_plan: Callable[[Graph], CompiledStep | None],
) -> Graph:
    """A graph with the times of this computer, and page costs of a folder's disk if there is one.

    Energies are times: no sensor says more. ``key`` is what the times are kept under. ``residents`` are parameters,
    buffers and the batch of the example. ``page_folder`` is a folder; or, for a GPU, `HOST`. ``first_plan`` makes a
    timed step of a graph whose costs are near the true ones, if one is found.
    """
    device = device_named(traced.device)
    pages = None
    if isinstance(page_folder, Path):
        # A disk may get the number that a file system in RAM had before the computer started anew.
        disk = f"{page_folder.stat().st_dev} {ram_disk(page_folder)}".rstrip()
        pages = _kept(f"pages by the pager {disk}", device, lambda: _transferred(page_folder), _page_costs)
    elif page_folder is not None:
        pages = _kept("pages in pinned memory", device, lambda: _pinned(device), _page_costs)

    def costed(node: Node, costs: StepCosts) -> Node:
        time_s = costs.times_s[node.id] + costs.overhead_s if node.id in costs.times_s else node.time_s
        paged = [
            replace(value, page=pages.cost(value.bytes) if pages and value.bytes >= LEAST_PAGE_BYTES else None)
            for value in node.values
        ]
        return replace(node, time_s=time_s, energy_j=time_s, values=tuple(paged))

    def with_costs(costs: StepCosts) -> Graph:
        return replace(graph, nodes=tuple(costed(node, costs) for node in graph.nodes))

    def measure() -> dict[str, Any]:
        return _timed(traced, residents, device, lambda costs: first_plan(with_costs(costs)))

    return with_costs(_kept(f"step by a plan {key}", device, measure, _step_costs))


def _timed(
    traced: TracedGraph,
    residents: Mapping[str, Tensor],
    device: Cpu,
    first_plan: Callable[[StepCosts], CompiledStep | None],
) -> dict[str, Any]:
    """Medians over some steps by a first plan; a half of a kernel's call has its share of the whole call."""
    apart = times_apart_s(traced, residents)
    step = first_plan(StepCosts(apart, 0.0))
    if step is None:
        return {"times_s": apart, "overhead_s": 0.0}
    given = {**residents, **traced.constants}
    with device.kept_randomness():
        spans, gaps = _medians(step, [given[id] for id in step.residents], device)
    times: dict[str, list[float]] = {id: [] for id in apart}
    for id, span in zip(step.operators, spans, strict=True):
        halves = [half for half in step.halves.get(id, (id,)) if half in apart]
        together = sum(apart[half] for half in halves) or 1.0
        for half in halves:
            times[half].append(span * apart[half] / together)
    return {"times_s": {id: fmean(each) for id, each in times.items()}, "overhead_s": gaps}


def _medians(step: CompiledStep, tensors: list[Tensor], device: Cpu) -> tuple[list[float], float]:
    """Median seconds of each computation, and between two of them."""
    rounds = []
    for number in range(WARM_UP + ROUNDS):
        step.run(tensors)
        if number >= WARM_UP:
            rounds.append(np.array(device.marked_ns(step.times_ns), np.float64) * 1e-9)
    readings = np.array(rounds)
    spans = _typical(readings[:, 1::2] - readings[:, ::2])
    gaps = _typical(readings[:, 2::2] - readings[:, 1:-1:2])
    return [*map(float, spans)], float(np.mean(gaps)) if len(gaps) else 0.0


def _typical(readings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Medians over steps that add up to the median step.

    Something is slow in every step, each time something else: the sum of the medians is up to a twentieth below.
    ``readings`` are by step and operator.
    """
    medians = np.median(readings, axis=0)
    total = medians.sum()
    typical: NDArray[np.float64] = medians * (np.median(readings.sum(axis=1)) / total) if total > 0 else medians
    return typical


def _transferred(folder: Path) -> dict[str, Any]:
    """Fits of the transfers' times over their sizes, direct where the disk takes that."""
    rows: dict[str, list[float]] = {"out_s": [], "in_s": []}
    with closing(PageBenchmark(folder)) as benchmark:
        for size in PAGE_BYTES:
            benchmark.prepare(size)
            for name, direction in (("out_s", "out"), ("in_s", "in")):
                rows[name].append(median(benchmark.run(direction, TRANSFERS)) * 1e-9)
    table = np.array([(1.0, float(size)) for size in PAGE_BYTES])
    return {name: fit_relative(table, np.array(times)) for name, times in rows.items()}


def _pinned(device: Cpu) -> dict[str, Any]:
    """The same of transfers between a GPU and pinned memory of its host."""
    streams = CudaStreams(device.name)
    clock = device.clock()
    host = streams.pinned(max(PAGE_BYTES))
    rows: dict[str, list[float]] = {"out_s": [], "in_s": []}
    for size in PAGE_BYTES:
        data = torch.zeros(size, dtype=torch.uint8, device=device.name)
        for name, into, source in (("out_s", host[:size], data), ("in_s", data, host[:size])):
            times_ns = []
            for _ in range(TRANSFERS):
                started = clock()
                streams.wait(streams.copy(into, source))
                times_ns.append(clock() - started)
            rows[name].append(median(times_ns) * 1e-9)
    table = np.array([(1.0, float(size)) for size in PAGE_BYTES])
    return {name: fit_relative(table, np.array(times)) for name, times in rows.items()}


Costs = TypeVar("Costs", StepCosts, PageCosts)


def _kept(what: str, device: Cpu, measure: Callable[[], dict[str, Any]], read: Callable[[Any], Costs]) -> Costs:
    """Costs from the user's cache; measured and put there if they are not yet, or were measured elsewhere."""
    key = f"{what}; {_processor()}; {device.described()}; torch {torch.__version__}"
    path = cache_folder(CACHE) / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with suppress(OSError, ValueError, LookupError, TypeError):
        document = json.loads(path.read_text())
        if document["key"] == key:
            return read(document["costs"])
    costs = measure()
    with suppress(OSError):
        write_whole(path, json.dumps({"key": key, "costs": costs}) + "\n")
    return read(costs)


def _step_costs(document: Any) -> StepCosts:
    return StepCosts({id: float(time_s) for id, time_s in document["times_s"].items()}, float(document["overhead_s"]))


def _page_costs(document: Any) -> PageCosts:
    (out_fixed, out_each), (in_fixed, in_each) = document["out_s"], document["in_s"]
    return PageCosts((float(out_fixed), float(out_each)), (float(in_fixed), float(in_each)))


def _processor() -> str:
    """What the computer calls its processor, for it decides the times."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "Hardware"):
                return value.strip()
    return platform.processor() or platform.machine()
