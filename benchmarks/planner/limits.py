# SPDX-License-Identifier: Apache-2.0
"""Whether a time limit is kept, and what memory a plan takes: `python -m benchmarks.planner limits`.

Each layered graph is planned in a process of its own, which compiles and imports everything before it is timed.
"""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context
from typing import Annotated

import typer
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_profiles.graph.sizes import smallest_ram_bytes

from benchmarks.planner.layered import layered_graph
from benchmarks.planner.measuring import CLOCKS, warm_up

NODES = (500, 1000, 2000, 5000)
WIDTHS = (4, 50)
# What may be added to a limit: seconds, or a share of it, whichever is more.
ALLOWED_S = 2.0
ALLOWED_SHARE = 0.1
MOST_MIB = 1024.0


class Ram(StrEnum):
    """What a plan may take: a share of what the store-all schedule does, or less than any schedule needs."""

    MOST = "60%"
    TIGHT = "smallest"
    NONE = "none"


@dataclass(frozen=True)
class Limited:
    """One plan within a limit: seconds by the clock that was asked for, MiB resident at most, and what came of it."""

    seconds: float
    mib: float
    answer: str


def limited(nodes: int, width: int, ram: Ram, paging: bool, limit_s: float, clock: str) -> Limited:
    """Plan a layered graph in this process, which should do nothing else."""
    warm_up()
    graph = layered_graph(nodes, width, 0)
    plain = store_all_schedule(graph)
    smallest = smallest_ram_bytes(graph)
    ram_bytes = {Ram.MOST: int(0.6 * plain.peak_bytes), Ram.TIGHT: smallest, Ram.NONE: smallest - 4}[ram]
    began_s = CLOCKS[clock]()
    try:
        options = OptimiseOptions(time_limit_s=limit_s, paging=paging)
        schedule = optimise(graph, ram_bytes, None, options)
        sound = "" if verify(graph, schedule).sound else ", NOT SOUND"
        answer = f"overhead {schedule.energy_j / plain.energy_j - 1:.2%}, gap {schedule.gap:.2%}{sound}"
    except NoScheduleError as refusal:
        answer = f"no schedule; {refusal.possible_bytes} bytes would do"
    seconds = CLOCKS[clock]() - began_s
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Limited(seconds, kib / 1024, answer)


def limits(
    seconds: Annotated[float, typer.Option(help="The time limit.")] = 10.0,
    clock: Annotated[str, typer.Option(help="wall, or cpu: processor time, where the machine is busy.")] = "wall",
    most_nodes: Annotated[int, typer.Option(help="Leave larger graphs out.")] = max(NODES),
) -> None:
    """Plan layered graphs of 500 to 5,000 nodes, and print the time and the memory that each took."""
    allowed_s = seconds + max(ALLOWED_S, ALLOWED_SHARE * seconds)
    cases = [
        (nodes, width, ram, paging)
        for nodes in NODES
        for width in WIDTHS
        for ram, paging in ((Ram.MOST, True), (Ram.MOST, False), (Ram.TIGHT, True), (Ram.NONE, True))
        if nodes <= most_nodes
    ]
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for nodes, width, ram, paging in cases:
            one = processes.submit(limited, nodes, width, ram, paging, seconds, clock).result()
            late = ", LATE" if one.seconds > allowed_s else ""
            large = ", LARGE" if one.mib > MOST_MIB else ""
            storage = "storage" if paging else "no storage"
            typer.echo(
                f"{nodes} nodes, {width} wide, {ram} RAM, {storage}: {one.seconds:.1f} s of {seconds:g}{late}, "
                f"{one.mib:.0f} MiB{large}, {one.answer}"
            )
