# SPDX-License-Identifier: Apache-2.0
"""The bracket of the smallest RAM, against brute force over all schedules of small graphs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.feasibility.deadline import deadline_feasibility
from poet_planner.solve.feasibility.minimum_ram import Bracket, bracket_minimum_ram, store_all
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.graph import Graph

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import either_graph

SECONDS = 5.0


def bracket_of(graph: Graph, deadline_s: float | None, seconds: float = SECONDS) -> Bracket:
    problem = build_problem(graph, 0, deadline_s)
    return bracket_minimum_ram(problem, 0, solver_named("highs"), TimeBudget(seconds))


@pytest.mark.parametrize("seed", range(24))
def test_a_schedule_fits_feasible_bytes_and_none_infeasible_bytes(seed: int) -> None:
    graph = either_graph(seed)
    times = random.Random(seed).choice((None, 1.0, 1.2, 1.5))
    deadline_s = None if times is None else times * store_all_schedule(graph).time_s
    # Closed within a second; compiling, after an edit, may take a minute.
    bracket = bracket_of(graph, deadline_s, seconds=120.0)
    assert bracket.feasible_bytes <= max(1.01 * bracket.infeasible_bytes, bracket.infeasible_bytes + 4)
    assert math.isfinite(least_energy(graph, bracket.feasible_bytes + graph.resident_bytes, deadline_s))
    assert math.isinf(least_energy(graph, bracket.infeasible_bytes + graph.resident_bytes, deadline_s))


@pytest.mark.parametrize("seed", range(8))
def test_feasibility_within_any_ram_is_that_of_brute_force(seed: int) -> None:
    graph = either_graph(seed)
    plan = store_all_schedule(graph)
    for share in (0.5, 0.7, 0.9):
        ram_bytes, deadline_s = int(share * plan.peak_bytes), 1.3 * plan.time_s
        problem = build_problem(graph, ram_bytes, deadline_s)
        result = deadline_feasibility(problem, store_all(problem), seed, solver_named("highs"), TimeBudget(SECONDS))
        exists = math.isfinite(least_energy(graph, ram_bytes, deadline_s))
        assert not (exists and result.infeasible)
        if result.schedule is not None:
            assert exists
            assert result.schedule.time <= problem.deadline and result.schedule.peak <= problem.budget


def test_overlapping_transfers_are_never_infeasible_for_their_time() -> None:
    """With DMA they may fit into a deadline that they would exceed one after the other."""
    for seed in range(12):
        graph = either_graph(seed)
        deadline_s = 1.1 * store_all_schedule(graph).time_s
        serial = bracket_of(graph, deadline_s, seconds=1.0)
        overlapping = bracket_of(replace(graph, dma=True), deadline_s, seconds=1.0)
        assert overlapping.infeasible_bytes < serial.feasible_bytes


def test_the_time_that_is_left_ends_the_work_with_what_is_known() -> None:
    graph, plan = paper_graph("resnet50.a72")
    bracket = bracket_of(graph, 1.2 * plan.time_s, seconds=0.0)
    assert bracket.infeasible_bytes < bracket.feasible_bytes <= plan.peak_bytes
