# SPDX-License-Identifier: Apache-2.0
"""The portfolio: equal seeds give equal schedules, and a background worker's result counts only when it is done."""

from __future__ import annotations

from itertools import count
from math import inf

import numpy as np
import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.search.portfolio import BackgroundWorker, Portfolio
from poet_planner.solve.time_budget import TimeBudget

from tests.support.graphs.random_graphs import training_like_graph


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph = training_like_graph(4)
    return build_problem(graph, int(0.8 * store_all_schedule(graph).peak_bytes), None)


@pytest.fixture(scope="module")
def start(problem: Problem) -> Incumbent:
    portfolio = Portfolio(problem, 0)
    portfolio.run(2000)
    assert portfolio.incumbent is not None
    return portfolio.incumbent


def in_background(problem: Problem, start: Incumbent, moves: int, may_go_on: bool) -> Incumbent | None:
    search = Annealer(problem, 1)
    search.adopt(start.events)
    BackgroundWorker([search], moves).wait(TimeBudget(inf if may_go_on else 0.0))
    return search.incumbent


def test_a_background_worker_gives_the_same_schedule_each_time(problem: Problem, start: Incumbent) -> None:
    first, second = (in_background(problem, start, 20_000, may_go_on=True) for _ in range(2))
    assert first is not None and second is not None
    assert np.array_equal(first.events, second.events)
    again = evaluated(problem, first.events)
    assert again is not None
    assert again.energy == first.energy <= start.energy
    assert again.peak <= problem.budget


def test_a_background_worker_that_is_stopped_keeps_what_it_began_with(problem: Problem, start: Incumbent) -> None:
    stopped = in_background(problem, start, 10**12, may_go_on=False)
    assert stopped is not None
    assert stopped.energy <= start.energy


def test_annealers_one_after_the_other_end_with_the_first_and_each_is_as_if_alone(problem: Problem) -> None:
    work = BackgroundWorker((Annealer(problem, seed) for seed in count()), 3000)
    work.wait()
    alone = Annealer(problem, 0)
    alone.run(3000)
    assert work.first is not None and work.best is not None
    first, expected = work.first.incumbent, alone.incumbent
    assert first is not None and expected is not None
    assert np.array_equal(first.events, expected.events)
    assert work.best.energy <= first.energy


def test_seeds_of_either_repair_strategy_find_a_schedule_as_good(problem: Problem, start: Incumbent) -> None:
    for seed in (0, 1):
        search = Annealer(problem, seed)
        search.run(40_000)
        found = search.incumbent
        assert found is not None
        assert found.energy <= start.energy * (1 + 1e-12)
