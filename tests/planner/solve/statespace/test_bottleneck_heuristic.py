# SPDX-License-Identifier: Apache-2.0
"""What is to be paid where the RAM counts at the bottleneck nodes alone: never more than brute force pays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search.incumbent import measured
from poet_planner.solve.statespace import bottleneck_heuristic
from poet_planner.solve.statespace.aggregation import disaggregated, representatives
from poet_planner.solve.statespace.astar import StateSpaceResult, search_between_bottlenecks, search_memory_states
from poet_planner.solve.statespace.bottleneck_heuristic import Checkpoints, checkpoints, least_to_pay, table_full
from poet_planner.solve.time_budget import UNLIMITED

from tests.support.graphs.chains import chain
from tests.support.graphs.solved_problems import cheap_j, solved_problem, store_all_j

PLENTY = 20_000
FEW = (2, 20, 200)


@pytest.fixture(params=[0.9, 0.3, 0.0])
def bottleneck_share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One checkpoint or two, some, and the whole path."""
    monkeypatch.setattr(bottleneck_heuristic, "BOTTLENECK_SHARE", request.param)


def found_below(problem: Problem, seed: int, cutoff_j: float, most: int = PLENTY) -> StateSpaceResult:
    first, closely = (representatives(problem, cheap_j(problem, seed), closely) for closely in (False, True))
    return search_between_bottlenecks(problem, first, closely, cutoff_j, most, UNLIMITED)


def from_the_end(known: Checkpoints) -> float:
    """What is to be paid in all: all nodes are yet to be computed, and nothing has to be in RAM at the end."""
    assert max(len(known.problem.node_time), len(known.problem.size)) <= 64
    return float(least_to_pay(known, np.array([-1, 0, 0]), np.inf))


@pytest.mark.usefixtures("bottleneck_share")
@pytest.mark.parametrize("tens", range(6))
def test_never_more_than_the_least_energy_and_as_much_where_nothing_is_taken_together(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        problem, least = solved_problem(seed)
        limit = min(least, 10 * store_all_j(problem) + 100.0)
        found = found_below(problem, seed, 10 * store_all_j(problem) + 100.0)
        assert found.bound_j <= limit * (1 + 1e-9), seed
        if seed % 3 == 0:
            assert found.bound_j == pytest.approx(limit, rel=1e-9), seed
            best = None if found.events is None else measured(problem, found.events)
            assert math.isinf(least) or (best is not None and best.energy == pytest.approx(least, rel=1e-9)), seed


@pytest.mark.usefixtures("bottleneck_share")
def test_work_that_is_cut_short_leaves_a_bound() -> None:
    raised = 0
    for seed in range(40):
        problem, least = solved_problem(seed)
        if math.isfinite(least):
            bounds_j = [found_below(problem, seed, 1.5 * least, most).bound_j for most in FEW]
            assert max(bounds_j) <= least * (1 + 1e-9), seed
            assert min(bounds_j) >= store_all_j(problem), seed
            raised += max(bounds_j) > store_all_j(problem) * (1 + 1e-9)
    assert raised > 0


@pytest.mark.usefixtures("bottleneck_share")
def test_a_table_of_any_size_says_no_more_than_is_to_be_paid() -> None:
    said = 0
    for seed in range(60):
        problem, least = solved_problem(seed)
        separate = np.arange(len(problem.size))
        if math.isfinite(least):
            for rows in (1, 3, 10, PLENTY):
                known = checkpoints(problem, separate, rows)
                to_pay = from_the_end(known)
                assert to_pay <= (least - store_all_j(problem)) * (1 + 1e-9) + 1e-9, (seed, rows)
            assert not table_full(known)
            said += to_pay > 0
    assert said > 0


@pytest.mark.parametrize("words", [5, 6, 8])
def test_a_chain_is_led_to_its_optimum_in_fewer_states(words: int) -> None:
    problem = build_problem(chain(16), 4 * words, None)
    separate = np.arange(len(problem.size))
    dear_j = 10 * store_all_j(problem)

    alone = search_memory_states(problem, separate, store_all_j(problem), dear_j, 200_000, UNLIMITED)
    led = search_between_bottlenecks(problem, separate, separate, dear_j, 200_000, UNLIMITED)
    few = search_between_bottlenecks(problem, separate, separate, dear_j, 500, UNLIMITED)

    assert alone.events is not None
    assert led.bound_j == pytest.approx(alone.bound_j, rel=1e-9)
    best = measured(problem, led.events) if led.events is not None else None
    assert best is not None and best.peak <= problem.budget
    assert best.energy == pytest.approx(led.bound_j, rel=1e-9)
    assert few.bound_j - store_all_j(problem) >= 0.8 * (led.bound_j - store_all_j(problem))


def test_what_is_taken_together_is_made_anew_with_the_first_of_it() -> None:
    problem = build_problem(chain(4), 4 * 5, None)
    first = np.arange(len(problem.size))
    first[[2, 3]] = 1
    n = len(problem.node_time)

    separate = disaggregated(problem, first, np.array([0, 1, 2, 1, 3, 4, n + 1, 5, 6, 7]))

    assert separate.tolist() == [0, 1, 2, 1, 2, 3, 4, n + 1, 2, 3, 5, 6, 7], "what was never made is not made anew"
