# SPDX-License-Identifier: Apache-2.0
"""Branching on aggregated integers loses no schedule: the branches' best is the MILP's."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.pyomo_model import solve_milp
from poet_planner.solve.milp.solvers import SolverStatus, solver_named
from poet_planner.solve.relaxation.branching import aggregates_at, explore
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.cutting_planes import LpRelaxation, aggregated_integers
from poet_planner.solve.relaxation.model import build_relaxation
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import longest_path

from tests.support.graphs.random_graphs import either_graph, training_like_graph


def least(model) -> float:  # type: ignore[no-untyped-def]
    """What the MILP solver finds by itself."""
    result = solve_milp(model, solver_named("highs"), TimeBudget(20.0), 1e-6, np.inf)
    return np.inf if result.status == SolverStatus.INFEASIBLE else result.bound


@pytest.mark.parametrize("tight", [0.75, 0.8])
def test_the_branches_hold_the_best_solution(tight: float) -> None:
    split = 0
    for seed in range(16):
        graph = either_graph(seed)
        problem = build_problem(graph, int(store_all_schedule(graph).peak_bytes * tight), None)
        relaxed = build_relaxation(problem, longest_path(problem), np.inf, Conflicts(problem))
        alone = least(relaxed.model)
        if np.isinf(alone):
            continue
        cutoff = alone * 1.01 + 1e-3
        lp = LpRelaxation(problem, relaxed)
        limit = partial(float, cutoff)
        whole = lp.solve(lp.whole(), limit, TimeBudget(5.0))
        assert whole is not None
        branches = explore(lp, whole, limit, TimeBudget(5.0))
        split += any(np.isfinite([*branch.aggregate_lower, *branch.aggregate_upper]).any() for branch in branches)
        assert branches, seed
        assert all(branch.bound <= least(lp.model(branch)) + 1e-4 for branch in branches)
        assert min(least(lp.model(branch)) for branch in branches) == pytest.approx(alone, rel=1e-6, abs=1e-3)
    assert split > 0


def test_columns_of_equal_cost_are_one_aggregated_integer() -> None:
    problem = build_problem(training_like_graph(0), 10**9, None)
    model = build_relaxation(problem, longest_path(problem), np.inf, Conflicts(problem)).model
    aggregates = aggregated_integers(model)
    assert aggregates
    for columns in aggregates:
        assert np.ptp(model.cost[columns]) <= 1e-6 * model.cost[columns].max()
    point = np.arange(len(model.cost), dtype=float)
    assert aggregates_at(aggregates, point)[0] == sum(aggregates[0])
