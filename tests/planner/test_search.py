"""The annealers: equal seeds give equal schedules, and one that works aside is heard only when it is done."""

from __future__ import annotations

import numpy as np
import pytest
from poet_planner.plain import plain_schedule
from poet_planner.solve.problem import Problem, build_problem
from poet_planner.solve.search import Aside, Incumbent, Search, Searches, measured
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


def aside(problem: Problem, start: Incumbent, moves: int, go_on: bool) -> Incumbent | None:
    search = Search(problem, 1)
    search.adopt(start.events)
    Aside(search, moves).wait(lambda: go_on)
    return search.incumbent


def test_a_search_aside_gives_the_same_schedule_each_time(problem: Problem, start: Incumbent) -> None:
    first, second = (aside(problem, start, 20_000, go_on=True) for _ in range(2))
    assert first is not None and second is not None
    assert np.array_equal(first.events, second.events)
    again = measured(problem, first.events)
    assert again is not None
    assert again.energy == first.energy <= start.energy
    assert again.peak <= problem.budget


def test_a_search_aside_that_is_stopped_keeps_what_it_began_with(problem: Problem, start: Incumbent) -> None:
    stopped = aside(problem, start, 10**12, go_on=False)
    assert stopped is not None
    assert stopped.energy <= start.energy
