# SPDX-License-Identifier: Apache-2.0
"""Small problems of which brute force knows the least energy."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.random_graphs import either_graph


@cache
def solved_problem(seed: int) -> tuple[Problem, float]:
    """A random graph, without a deadline, and its least energy; infinite where there is no schedule."""
    return solved(seed, either_graph(seed))


def solved(seed: int, graph: Graph) -> tuple[Problem, float]:
    """The same of a graph, in RAM between what its largest node takes by itself and what store-all takes."""
    least = smallest_ram_bytes(graph)
    ram_bytes = random.Random(seed).randint(least, max(least, store_all_schedule(graph).peak_bytes))
    return build_problem(graph, ram_bytes, None), least_energy(graph, ram_bytes, None)


def store_all_j(problem: Problem) -> float:
    """Energy of computing every node once."""
    return float(problem.node_energy.sum())


def cheap_j(problem: Problem, seed: int) -> float:
    """Energy up to which none, half or all of the nodes are cheap, as the seed says."""
    return -1.0 if seed % 3 == 0 else float(np.quantile(problem.node_energy, (seed % 3) / 2))
