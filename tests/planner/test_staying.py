"""What may stay in RAM at the hungriest nodes: never more than brute force pays, and a way that pays no more."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from chains import chain
from paper_graphs import paper_graph
from poet_planner.graph import Graph
from poet_planner.solve import checkpoints, staying
from poet_planner.solve.contents import search_contents
from poet_planner.solve.in_time import clearly_late
from poet_planner.solve.incumbent import measured
from poet_planner.solve.problem import Problem, build_problem
from poet_planner.solve.searches import Searches
from poet_planner.solve.staying import search_what_stays
from random_graphs import either_graph
from solved_problems import plain_j, solved_problem


@pytest.fixture(params=[0.9, 0.5, 0.0])
def hungry_share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One checkpoint or two, some, and the whole path."""
    monkeypatch.setattr(checkpoints, "HUNGRY_SHARE", request.param)


def without_storage(graph: Graph) -> Graph:
    nodes = [replace(node, values=tuple(replace(value, page=None) for value in node.values)) for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def peak_anywhere(problem: Problem, events: np.ndarray) -> int:
    """In how much RAM there is room for ``events``."""
    best = measured(problem._replace(budget=10**9), events)
    assert best is not None, "not a schedule"
    return best.peak


@pytest.mark.usefixtures("hungry_share")
@pytest.mark.parametrize("hundreds", range(3))
@pytest.mark.parametrize(("cheap_share", "little"), [(0.0, 0.0), (0.3, 0.0), (1.0, 0.2)])
def test_never_more_than_the_least_energy(
    hundreds: int, cheap_share: float, little: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staying, "CHEAP_SHARE", cheap_share)
    monkeypatch.setattr(staying, "LITTLE", little)
    raised = exact = 0
    for seed in range(100 * hundreds, 100 * hundreds + 100):
        problem, least_j = solved_problem(seed, without_storage(either_graph(seed)))
        known_j = 10 * plain_j(problem) + 100.0
        found = search_what_stays(problem, known_j, lambda: True, apart=cheap_share == 0.0)
        assert found is not None
        assert plain_j(problem) * (1 - 1e-9) <= found.bound_j <= min(least_j, known_j) * (1 + 1e-9) + 1e-9, seed
        raised += found.bound_j > plain_j(problem) * (1 + 1e-9)
        if found.events is not None and peak_anywhere(problem, found.events) <= problem.budget:
            exact += math.isclose(found.bound_j, least_j, rel_tol=1e-9)
    assert raised > 0
    assert exact > 0


@pytest.mark.usefixtures("hungry_share")
@pytest.mark.parametrize(("depth", "words"), [(12, 5), (9, 5), (7, 6)])
def test_a_chain_is_led_to_its_optimum(depth: int, words: int) -> None:
    problem = build_problem(chain(depth), 4 * words, None)
    known_j = 10 * plain_j(problem)
    alone = search_contents(problem, np.arange(len(problem.size)), plain_j(problem), known_j, 200_000, lambda: True)
    found = search_what_stays(problem, known_j, lambda: True, apart=True)

    assert alone.events is not None
    assert found is not None and found.events is not None
    assert found.bound_j == pytest.approx(alone.bound_j, rel=1e-9)
    best = measured(problem, found.events)
    assert best is not None and best.peak <= problem.budget
    assert best.energy == pytest.approx(found.bound_j, rel=1e-9)


@pytest.mark.parametrize("most", [1, 10, 100])
def test_work_that_is_cut_short_leaves_a_bound(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staying, "STATES", (most,))
    problem = build_problem(chain(12), 4 * 5, None)
    apart = np.arange(len(problem.size))
    whole = search_contents(problem, apart, plain_j(problem), 1e9, 200_000, lambda: True)
    found = search_what_stays(problem, 1e9, lambda: True, apart=True)
    assert found is not None
    assert plain_j(problem) <= found.bound_j <= whole.bound_j * (1 + 1e-9)


def test_a_board_with_storage_and_too_many_sets_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = either_graph(0)
    assert search_what_stays(build_problem(graph, 1000, None), 1e9, lambda: True) is None
    monkeypatch.setattr(staying, "MOST_SETS", 1)
    assert search_what_stays(build_problem(without_storage(graph), 1000, None), 1e9, lambda: True) is None


def test_bert_in_one_hidden_state_more_than_its_hungriest_node() -> None:
    """No annealing from plain training and no eviction finds a schedule there; in less RAM there is none in time."""
    graph, plan = paper_graph("bert.m0")
    problem = build_problem(graph, 33_030_144, 2 * plan.time_s, paging=False)
    searches = Searches(problem, 0)
    bound_j = searches.look_between_checkpoints(lambda: True)

    best = searches.incumbent
    assert best is not None and best.peak <= problem.budget and best.time <= problem.deadline
    assert bound_j >= best.energy * (1 - 1e-3)
    assert not clearly_late(problem, lambda: True)
    assert clearly_late(problem._replace(budget=33_030_140), lambda: True)
