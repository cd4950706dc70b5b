# SPDX-License-Identifier: Apache-2.0
"""What the last nodes of downsets prove by themselves for layered graphs: `python -m benchmarks.planner.downsets`.

Bounds and best known energies are in % above the energy of computing every node once. The best known energy sets only
how finely the downsets are searched; the bound is a proof without it.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Annotated

import typer
from poet_planner.solve.relaxation.downsets import search_downsets
from poet_planner.solve.time_budget import TimeBudget

from benchmarks.planner.best_known import best_energy_j, read_best
from benchmarks.planner.instances import LAYERED_WIDTHS, Instance, load, load_problem

SHARES = ("60%", "80%")


def main(
    nodes: Annotated[int, typer.Option(help="of each graph: 500, 1000 or 2000")] = 1000, seconds: float = 60.0
) -> None:
    """Print a row for each graph, RAM and storage."""
    best = read_best()
    print("| graph | RAM | storage | plain, J | bound, % | best known, % | closed | processor, s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for shape, ram, paging in product(LAYERED_WIDTHS, SHARES, (False, True)):
        instance = Instance("layered", f"{nodes}-{shape}", ram, "none", paging)
        known_j = best_energy_j(best, instance.graph, load(instance).ram_bytes, float("inf"), paging)
        print(_row(instance, known_j, seconds), flush=True)


def _row(instance: Instance, known_j: float, seconds: float) -> str:
    problem = load_problem(instance)
    plain_j = float(problem.node_energy.sum())
    began_s = time.process_time()
    bound_j = search_downsets(problem, known_j - plain_j, TimeBudget(seconds))
    spent_s = time.process_time() - began_s
    bound, known = (100 * (energy_j / plain_j - 1) for energy_j in (bound_j, known_j))
    return (
        f"| {instance.graph} | {instance.ram} | {'yes' if instance.paging else 'no'} | {plain_j:.4f} | {bound:.3f} | "
        f"{known:.3f} | {100 * bound / known:.0f} % | {spent_s:.1f} |"
    )


if __name__ == "__main__":
    typer.run(main)
