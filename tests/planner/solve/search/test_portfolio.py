# SPDX-License-Identifier: Apache-2.0
"""The portfolio: equal seeds give equal schedules, and a background worker's result counts only when it is done."""

from __future__ import annotations

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search.annealer import CHUNK_S, Annealer
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.search.portfolio import SEEDS, BackgroundWorker, Portfolio
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
    worker = BackgroundWorker(search, moves)
    worker.wait(TimeBudget().until(lambda: not may_go_on))
    worker.stop()
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


def test_a_background_worker_counts_its_own_work(problem: Problem) -> None:
    worker = BackgroundWorker(Annealer(problem, 0), 3000)
    worker.wait()
    worker.stop()
    alone, budget = Annealer(problem, 0), TimeBudget(60.0)
    alone.run(3000, budget)
    assert worker.work.done_s > 0.0
    assert worker.work.done_s == pytest.approx(60.0 - budget.left())


def test_annealers_share_a_budget_and_spend_it(problem: Problem) -> None:
    budget = TimeBudget(0.5)
    Portfolio(problem, 0).run(10**9, budget)
    assert budget.left() == pytest.approx(0.0, abs=SEEDS * CHUNK_S)


def test_an_annealer_goes_on_until_it_has_a_schedule(problem: Problem) -> None:
    portfolio, budget = Portfolio(problem, 0), TimeBudget(60.0)
    portfolio.run(10**9, budget, budget.share(0.0))
    assert portfolio.incumbent is not None
    assert budget.left() > 30.0


def test_seeds_of_either_repair_strategy_find_a_schedule_as_good(problem: Problem, start: Incumbent) -> None:
    for seed in (0, 1):
        search = Annealer(problem, seed)
        search.run(40_000)
        found = search.incumbent
        assert found is not None
        assert found.energy <= start.energy * (1 + 1e-12)
