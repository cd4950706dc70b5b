# SPDX-License-Identifier: Apache-2.0
"""What a relaxation proves, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.relaxation.refinement import RefinementStep
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import longest_path

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.random_graphs import training_like_graph

GAP = 1e-6
HIGHS = solver_named("highs")


@pytest.mark.parametrize("seed", [10, 26])
def test_a_relaxation_is_solved_to_its_optimum(seed: int) -> None:
    graph = training_like_graph(seed)
    ram_bytes = int(0.7 * store_all_schedule(graph).peak_bytes)
    problem = build_problem(graph, ram_bytes, None)
    search = Portfolio(problem, 0)
    search.run(20_000)
    known = search.incumbent
    assert known is not None
    event_points = np.zeros(len(problem.node_time), dtype=np.bool_)
    path = longest_path(problem)
    event_points[path] = True
    store_all_j = float(problem.node_energy.sum())
    step = RefinementStep(problem, path, event_points, known, HIGHS, GAP, 0, store_all_j)
    step.search(known.events, TimeBudget(60.0))

    step.prove(TimeBudget(60.0))

    best = least_energy(graph, ram_bytes, None)
    assert store_all_j < step.bound_j <= step.relaxation_optimum_j <= best * (1 + 1e-9)
    assert step.bound_j >= step.relaxation_optimum_j * (1 - GAP)
