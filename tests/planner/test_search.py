"""The annealers: equal seeds give equal schedules, and one that works aside is heard only when it is done."""

from __future__ import annotations

import numpy as np
import pytest
from poet_planner.plain import plain_schedule
from poet_planner.solve.problem import Problem, build_problem
from poet_planner.solve.search import Aside, Incumbent, Searches, measured
from random_graphs import training_like_graph


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph = training_like_graph(4)
    return build_problem(graph, int(0.8 * plain_schedule(graph).peak_bytes), None)


@pytest.fixture(scope="module")
def start(problem: Problem) -> Incumbent:
    searches = Searches(problem, 0)
    searches.run(2000)
    assert searches.incumbent is not None
    return searches.incumbent


def test_a_search_aside_gives_the_same_schedule_each_time(problem: Problem, start: Incumbent) -> None:
    first, second = (Aside(problem, 1, start, 20_000).finished(lambda: True) for _ in range(2))
    assert first is not None and second is not None
    assert np.array_equal(first.events, second.events)
    again = measured(problem, first.events)
    assert again is not None
    assert again.energy == first.energy <= start.energy
    assert again.peak <= problem.budget


def test_a_search_aside_that_is_stopped_keeps_what_it_began_with(problem: Problem, start: Incumbent) -> None:
    stopped = Aside(problem, 1, start, 10**12).finished(lambda: False)
    assert stopped is not None
    assert stopped.energy <= start.energy
