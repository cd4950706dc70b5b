# SPDX-License-Identifier: Apache-2.0
"""How long blocks take to get offsets: `python -m benchmarks.planner placement`.

By the complete search alone, by ejection alone, and by `poet_planner.place`, which runs both side by side. Every answer
is checked by code that shares nothing with them.
"""

from __future__ import annotations

import csv
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from poet_planner.placement import Verdict, place
from poet_planner.placement.overlaps import fault
from poet_planner.placement.places import MOST_ROUNDS, VERDICTS
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Ints, build_problem
from poet_planner.solve.placement import canonical
from poet_planner.solve.placement.first_fit import lives, within
from poet_planner.solve.search.decode import decode
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.time_budget import TimeBudget

from benchmarks.planner.layered import layered_graph

# Nodes, operators in a layer, seed of the graph, moves of the search: what it then has as its best is placed at 60 %.
LAYERED = ((60, 10, 5, 6000), (60, 10, 12, 6000), (60, 10, 34, 6000), (500, 4, 0, 50_000), (500, 4, 1, 50_000))
SHARE = 0.6
# Blocks and seed: pieces of a full rectangle.
CUT = ((60, 0), (120, 0), (240, 0))
CUT_STEPS, CUT_BYTES = 200, 2**24


@dataclass(frozen=True)
class Blocks:
    """Block j lives from ``start[j]`` until before ``end[j]`` and has ``size[j]`` bytes."""

    name: str
    start: Ints
    end: Ints
    size: Ints
    capacity: int


@dataclass(frozen=True)
class Tried:
    """What one call came to, and its wall seconds."""

    verdict: Verdict
    seconds: float


def placement(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="CSV files with the columns id, lower, upper, size, named NAME.CAPACITY.csv; default: own instances."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="Time limit of a call.")] = 10.0,
    seeds: Annotated[int, typer.Option(min=1, help="Calls of each instance and engine.")] = 5,
) -> None:
    """Give offsets to blocks by each engine alone and by both, and print wall seconds."""
    _call_each(cut(60, 0), 5.0, 0)  # compiles
    print(f"| instance | blocks | {' | '.join(ENGINES)} |")
    print("|" + " --- |" * (2 + len(ENGINES)))
    for blocks in map(read, files) if files else own():
        calls = [_call_each(blocks, seconds, seed) for seed in range(seeds)]
        cells = [_cell([call[engine] for call in calls]) for engine in ENGINES]
        print(f"| {blocks.name} | {len(blocks.size)} | {' | '.join(cells)} |", flush=True)


def read(path: Path) -> Blocks:
    """Blocks of a file; its name holds the capacity in bytes."""
    name, _, capacity = path.stem.rpartition(".")
    if not name or not capacity.isdecimal():
        raise typer.BadParameter(f"{path.name}: name it NAME.CAPACITY.csv, the capacity in bytes")
    with path.open(newline="") as file:
        try:
            rows = [[int(row[column]) for column in ("lower", "upper", "size")] for row in csv.DictReader(file)]
        except (KeyError, TypeError, ValueError):
            raise typer.BadParameter(f"{path}: give whole numbers as lower, upper and size of each block") from None
    start, end, size = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return Blocks(name, start, end, size, int(capacity))


def own() -> Iterator[Blocks]:
    """The instances that need no file."""
    yield from (cut(*each) for each in CUT)
    yield from (layered(*each) for each in LAYERED)


def cut(blocks: int, seed: int) -> Blocks:
    """There are offsets, and no byte is spare."""
    pieces = cut_rectangle(random.Random(seed), CUT_STEPS, CUT_BYTES, blocks)
    start, end, size = np.array([(one[0], one[1], one[3] - one[2]) for one in pieces], dtype=np.int64).T.copy()
    return Blocks(f"cut {blocks}, seed {seed}", start, end, size, CUT_BYTES)


def cut_rectangle(draw: random.Random, steps: int, capacity: int, pieces: int) -> list[tuple[int, int, int, int]]:
    """A full rectangle of time and bytes, cut in two again and again: lower, upper, bottom and top of each piece."""
    uncut = [(0, steps, 0, capacity)]
    while len(uncut) < pieces:
        lower, upper, bottom, top = uncut.pop(draw.randrange(len(uncut)))
        if draw.random() < 0.5 and upper - lower > 1:
            at = draw.randrange(lower + 1, upper)
            uncut += [(lower, at, bottom, top), (at, upper, bottom, top)]
        elif top - bottom > 1:
            at = draw.randrange(bottom + 1, top)
            uncut += [(lower, upper, bottom, at), (lower, upper, at, top)]
        else:
            uncut.append((lower, upper, bottom, top))
    return uncut


def layered(nodes: int, width: int, seed: int, moves: int) -> Blocks:
    """Those of the schedule that the search likes best after so many moves."""
    graph = layered_graph(nodes, width, seed)
    problem = build_problem(graph, int(SHARE * store_all_schedule(graph).peak_bytes), None)
    search = Portfolio(problem, 0)
    search.run(moves)
    assert search.incumbent is not None
    steps = decode(graph, problem, search.incumbent.events).steps
    return Blocks(f"layered {nodes}, width {width}, seed {seed}", *lives(graph, steps), problem.budget)


def _by_complete_search(blocks: Blocks, seconds: float, seed: int) -> tuple[Verdict, Ints]:
    budget = TimeBudget(seconds, time.monotonic)
    answer, offsets = canonical.search(blocks.start, blocks.end, blocks.size, blocks.capacity, seed, budget)
    return VERDICTS[answer], offsets


def _by_ejection(blocks: Blocks, seconds: float, seed: int) -> tuple[Verdict, Ints]:
    offsets = within(
        blocks.start,
        blocks.end,
        blocks.size,
        blocks.capacity,
        MOST_ROUNDS,
        TimeBudget(seconds, time.monotonic),
        seed,
    )
    return Verdict.UNKNOWN if (offsets < 0).any() else Verdict.PLACED, offsets


def _by_both(blocks: Blocks, seconds: float, seed: int) -> tuple[Verdict, Ints]:
    places = place(blocks.start, blocks.end, blocks.size, blocks.capacity, seconds, seed)
    return places.verdict, np.array(places.offsets, dtype=np.int64)


ENGINES: dict[str, Callable[[Blocks, float, int], tuple[Verdict, Ints]]] = {
    "complete search": _by_complete_search,
    "ejection": _by_ejection,
    "both": _by_both,
}


def _call_each(blocks: Blocks, seconds: float, seed: int) -> dict[str, Tried]:
    """Each engine once.

    Raises
    ------
    RuntimeError
        If offsets are wrong, or one engine proves impossible what another places.
    """
    tried = {}
    for name, engine in ENGINES.items():
        began_s = time.perf_counter()
        verdict, offsets = engine(blocks, seconds, seed)
        tried[name] = Tried(verdict, time.perf_counter() - began_s)
        if verdict is Verdict.PLACED:
            start, end, size = blocks.start.tolist(), blocks.end.tolist(), blocks.size.tolist()
            if wrong := fault(start, end, size, offsets.tolist(), blocks.capacity):
                raise RuntimeError(f"{blocks.name}, {name}, seed {seed}: {wrong}")
    if {one.verdict for one in tried.values()} >= {Verdict.PLACED, Verdict.IMPOSSIBLE}:
        raise RuntimeError(f"{blocks.name}, seed {seed}: both placed and proven impossible")
    return tried


def _cell(calls: list[Tried]) -> str:
    """Median and most seconds, and the verdict, or how many have which."""
    spent = [call.seconds for call in calls]
    verdicts = [call.verdict for call in calls]
    counted = ", ".join(
        f"{verdicts.count(verdict)} {verdict}" if verdicts.count(verdict) < len(calls) else verdict
        for verdict in Verdict
        if verdict in verdicts
    )
    return f"{statistics.median(spent):.3f}, {max(spent):.3f}: {counted}"
