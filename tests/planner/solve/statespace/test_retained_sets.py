# SPDX-License-Identifier: Apache-2.0
"""Retained sets at the bottleneck nodes: a bound that never exceeds brute force, and a path that costs no more."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from poet_planner.solve.feasibility.deadline import begin_with_retained_sets, clearly_late
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search.incumbent import evaluated
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statespace import retained_sets
from poet_planner.solve.statespace.abstraction import whole_abstraction
from poet_planner.solve.statespace.astar import search_memory_states
from poet_planner.solve.statespace.retained_sets import search_retained_sets
from poet_planner.solve.time_budget import UNLIMITED
from poet_planner.solve.topology import ancestors
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.graph.sizes import smallest_ram_bytes

from tests.support.graphs.chains import chain
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import either_graph
from tests.support.graphs.solved_problems import solved, store_all_j


@pytest.fixture(params=[0.9, 0.5, 0.0])
def bottleneck_share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bottleneck node or two, some, and the whole path."""
    monkeypatch.setattr(retained_sets, "BOTTLENECK_SHARE", request.param)


def without_storage(graph: Graph) -> Graph:
    nodes = [replace(node, values=tuple(replace(value, page=None) for value in node.values)) for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


@cache
def solved_without_storage(seed: int) -> tuple[Problem, float]:
    return solved(seed, without_storage(either_graph(seed)))


def peak_anywhere(problem: Problem, events: np.ndarray) -> int:
    """In how much RAM there is room for ``events``."""
    best = evaluated(replace(problem, budget=10**9), events)
    assert best is not None, "not a schedule"
    return best.peak


def attention_like(seed: int) -> Graph:
    """Two or three layers of which one product takes most RAM, forwards and back, of random sizes and costs."""
    rng = random.Random(seed)
    layers = rng.choice((2, 3))
    queries, product = rng.choice((8, 12, 16)), rng.choice((20, 24, 32))
    nodes: list[Node] = []

    def add(id: str, size: int, *inputs: str, recomputable: bool = True) -> None:
        workspace = rng.choice((0, 0, 0, 4))
        needed = tuple(dict.fromkeys(inputs))
        nodes.append(Node(id, 1.0, round(rng.uniform(0.2, 3), 2), (Value(id, size),), needed, workspace, recomputable))

    add("x0", 4)
    for k in range(layers):
        add(f"q{k}", queries, f"x{k}")
        add(f"s{k}", product, f"q{k}", recomputable=rng.random() < 0.9)
        add(f"c{k}", 4, f"s{k}")
        add(f"x{k + 1}", 4, f"c{k}", *([f"x{k}"] if rng.random() < 0.7 else []))
    add("g", 4, f"x{layers}")
    for k in reversed(range(layers)):
        add(f"gc{k}", 4, nodes[-1].id if k == layers - 1 else f"g{k + 1}", f"c{k}", f"x{k + 1}")
        add(f"gs{k}", product, f"gc{k}", f"s{k}", f"q{k}")
        if rng.random() < 0.5:
            add(f"w{k}", rng.choice((0, 4)), f"gs{k}", f"x{k}")
        add(f"gq{k}", queries, f"gs{k}", *([f"q{k}"] if rng.random() < 0.6 else []), f"x{k}")
        add(f"g{k}", 4, f"gq{k}", f"x{k}", *([f"c{k - 1}"] if k > 0 and rng.random() < 0.4 else []))
    return Graph(f"attention {seed}", tuple(nodes))


def test_never_more_than_the_least_energy_of_layers_like_attention() -> None:
    """These graphs are too large for brute force. The shortest path over all memory states gives the least energy."""
    raised = exact = lost = 0
    for seed in range(20):
        graph = attention_like(seed)
        problem = build_problem(graph, smallest_ram_bytes(graph) + 4 * (seed % 3), None)
        separate = np.arange(len(problem.size))
        cutoff_j = 6 * store_all_j(problem)
        least = search_memory_states(problem, separate, store_all_j(problem), cutoff_j, 300_000, UNLIMITED)
        found = search_retained_sets(problem, cutoff_j, UNLIMITED, separate=True)
        if found is not None:
            assert found.bound_j <= least.bound_j * (1 + 1e-9), seed
            raised += found.bound_j > store_all_j(problem) * (1 + 1e-9)
            exact += math.isclose(found.bound_j, least.bound_j, rel_tol=1e-9)
        edges = retained_sets.segment_edges(whole_abstraction(problem, separate), ancestors(problem))
        starts = [those.starts for those in edges or ()]
        lost += sum(bool((those.at_start != those.until_middle).any()) for those in starts)
    assert raised > 0
    assert exact > 0
    assert lost > 0, "no start is like a layer's gradient, beside which no other layer is computed"


@pytest.mark.usefixtures("bottleneck_share")
@pytest.mark.parametrize("hundreds", range(3))
@pytest.mark.parametrize(("cheap_share", "little"), [(0.0, 0.0), (0.3, 0.0), (1.0, 0.2)])
def test_never_more_than_the_least_energy(
    hundreds: int, cheap_share: float, little: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained_sets, "CHEAP", cheap_share)
    monkeypatch.setattr(retained_sets, "LITTLE", little)
    raised = exact = 0
    for seed in range(100 * hundreds, 100 * hundreds + 100):
        problem, least_j = solved_without_storage(seed)
        cutoff_j = 10 * store_all_j(problem) + 100.0
        found = search_retained_sets(problem, cutoff_j, UNLIMITED, cheap_share == 0.0)
        assert found is not None
        assert store_all_j(problem) * (1 - 1e-9) <= found.bound_j <= min(least_j, cutoff_j) * (1 + 1e-9) + 1e-9, seed
        raised += found.bound_j > store_all_j(problem) * (1 + 1e-9)
        if found.events is not None and peak_anywhere(problem, found.events) <= problem.budget:
            exact += math.isclose(found.bound_j, least_j, rel_tol=1e-9)
    assert raised > 0
    assert exact > 0


@pytest.mark.usefixtures("bottleneck_share")
@pytest.mark.parametrize(("depth", "words"), [(12, 5), (9, 5), (7, 6)])
def test_a_chain_is_led_to_its_optimum(depth: int, words: int) -> None:
    problem = build_problem(chain(depth), 4 * words, None)
    cutoff_j = 10 * store_all_j(problem)
    alone = search_memory_states(
        problem, np.arange(len(problem.size)), store_all_j(problem), cutoff_j, 200_000, UNLIMITED
    )
    found = search_retained_sets(problem, cutoff_j, UNLIMITED, separate=True)

    assert alone.events is not None
    assert found is not None and found.events is not None
    assert found.bound_j == pytest.approx(alone.bound_j, rel=1e-9)
    best = evaluated(problem, found.events)
    assert best is not None and best.peak <= problem.budget
    assert best.energy == pytest.approx(found.bound_j, rel=1e-9)


@pytest.mark.parametrize("most", [1, 10, 100])
def test_work_that_is_cut_short_leaves_a_bound(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_sets, "SEGMENT_STATES", (most,))
    problem = build_problem(chain(12), 4 * 5, None)
    separate = np.arange(len(problem.size))
    whole = search_memory_states(problem, separate, store_all_j(problem), 1e9, 200_000, UNLIMITED)
    found = search_retained_sets(problem, 1e9, UNLIMITED, True)
    assert found is not None
    assert store_all_j(problem) <= found.bound_j <= whole.bound_j * (1 + 1e-9)


def test_a_board_with_storage_and_too_many_sets_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = either_graph(0)
    assert search_retained_sets(build_problem(graph, 1000, None), 1e9, UNLIMITED) is None
    monkeypatch.setattr(retained_sets, "MOST_SETS", 1)
    assert search_retained_sets(build_problem(without_storage(graph), 1000, None), 1e9, UNLIMITED) is None


def test_bert_in_one_hidden_state_more_than_its_largest_working_set() -> None:
    """Neither annealing from the store-all schedule nor eviction finds a schedule; in less RAM none is in time."""
    graph, plan = paper_graph("bert.m0")
    problem = build_problem(graph, 33_030_144, 2 * plan.time_s, paging=False)
    portfolio = Portfolio(problem, 0)
    bound_j = begin_with_retained_sets(problem, portfolio, UNLIMITED)

    best = portfolio.incumbent
    assert best is not None and best.peak <= problem.budget and best.time <= problem.deadline
    assert bound_j >= best.energy * (1 - 1e-3)
    assert not clearly_late(problem, UNLIMITED)
    assert clearly_late(replace(problem, budget=33_030_140), UNLIMITED)
