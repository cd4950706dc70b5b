# SPDX-License-Identifier: Apache-2.0
"""Whether schedules find offsets within their budget: `python -m benchmarks.planner.addresses`.

Each instance is annealed in three runs of as many moves; after each the best schedule so far is placed.
"""

from __future__ import annotations

import argparse
import time

from poet_planner.solve.instance import build_problem
from poet_planner.solve.placement.first_fit import place
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.decode import decode
from poet_planner.solve.time_budget import TimeBudget

from benchmarks.planner.instances import Instance, load

INSTANCES = (
    *(Instance("prototypes", "bert.m4", ram, "none", True) for ram in ("60%", "20%", "smallest")),
    *(Instance("prototypes", "resnet50.m4", ram, "none", True) for ram in ("20%", "smallest")),
    Instance("prototypes", "resnet18_cifar.m4", "20%", "none", True),
    Instance("traced", "resnet18_cifar.m4", "board", "none", True),
)
RUNS = 3


def report(instance: Instance, moves: int, search_s: float) -> None:
    """Print a line for each run."""
    loaded = load(instance)
    problem = build_problem(loaded.graph, loaded.ram_bytes, loaded.deadline_s, instance.paging)
    search = Annealer(problem, 0)
    for run in range(RUNS):
        search.run(moves)
        if search.incumbent is None:
            continue
        decoded = decode(loaded.graph, problem, search.incumbent.events)
        started_s = time.perf_counter()
        placement = place(loaded.graph, decoded.steps, problem.budget, TimeBudget(search_s))
        seconds = time.perf_counter() - started_s
        alive, arena = decoded.peak / problem.budget, placement.arena_bytes / problem.budget
        print(
            f"{instance.suite:10} {instance.graph:18} {instance.ram:>8} run {run + 1}: {len(decoded.steps):5} steps, "
            f"alive {alive:.4f}, arena {arena:.4f} of the budget in {seconds:.3f} s",
            flush=True,
        )


def main() -> None:
    """Read the command line, report every instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=100_000, help="of the annealer in each run (default %(default)s)")
    parser.add_argument("--search-s", type=float, default=5.0, help="time for offsets (default %(default)s)")
    arguments = parser.parse_args()
    for instance in INSTANCES:
        report(instance, arguments.moves, arguments.search_s)


if __name__ == "__main__":
    main()
