# SPDX-License-Identifier: Apache-2.0
"""The shortest path over memory states: its schedules and bounds, against brute force."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search.incumbent import evaluated
from poet_planner.solve.statespace import path_search
from poet_planner.solve.statespace.aggregation import representatives
from poet_planner.solve.statespace.astar import StateSpaceResult, search_memory_states
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget
from poet_profiles.graph import Graph, Node, PageCost, Value

from benchmarks.planner.exhaustive import least_energy_j, small_instance
from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.random_graphs import either_graph
from tests.support.graphs.solved_problems import cheap_j, solved, solved_problem, store_all_j

PLENTY = 20_000
FEW = (1, 2, 5, 20, 80)


def found_below(
    problem: Problem, seed: int, cutoff_j: float, most: int = PLENTY, budget: TimeBudget = UNLIMITED
) -> StateSpaceResult:
    """With values of no, half or all of the nodes aggregated in all abstractions but the last, as the seed says."""
    representative = representatives(problem, cheap_j(problem, seed))
    return search_memory_states(problem, representative, store_all_j(problem), cutoff_j, most, budget)


@pytest.mark.parametrize("tens", range(15))
def test_the_cheapest_schedule_is_found_and_nothing_below_it(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        problem, least = solved_problem(seed)
        expensive = 10 * store_all_j(problem) + 100.0
        found = found_below(problem, seed, expensive)
        if math.isinf(least):
            assert found.bound_j == pytest.approx(expensive) and found.events is None, seed
            continue
        assert found.events is not None, seed
        best = evaluated(problem, found.events)
        assert best is not None and best.peak <= problem.budget, seed
        assert best.energy == pytest.approx(least, rel=1e-9), seed
        assert found.bound_j == pytest.approx(least, rel=1e-9), seed


def test_what_comes_from_the_card_takes_no_ram_before() -> None:
    """n5 first, its value to the card, its input out of RAM: n4 has room then. As late as may be, n5 leaves it none."""
    graph = either_graph(285)
    problem = build_problem(graph, 64, None)
    least = least_energy(graph, 64, None)
    found = found_below(problem, 0, 2 * least)
    assert found.bound_j == pytest.approx(least, rel=1e-9)
    assert found.events is not None
    ids = [value.id for node in graph.nodes for value in node.values]
    assert len(graph.nodes) + ids.index("v5.0") in found.events  # it is paged in


@pytest.mark.parametrize("tens", range(5))
def test_work_that_is_cut_short_leaves_a_bound(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        problem, least = solved_problem(seed)
        if math.isinf(least):
            continue
        bounds_j = [found_below(problem, seed, 1.5 * least, most).bound_j for most in FEW]
        bounds_j.append(found_below(problem, seed, 1.5 * least, budget=TimeBudget(0.0)).bound_j)
        assert max(bounds_j) <= least * (1 + 1e-9), seed
        assert min(bounds_j) >= store_all_j(problem), seed


@pytest.mark.parametrize("room", FEW)
def test_a_heap_that_is_full_leaves_a_bound(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = path_search.no_open_states
    cut_short = 0
    for seed in range(40):
        problem, least = solved_problem(seed)
        if math.isinf(least):
            continue
        with monkeypatch.context() as narrow:
            narrow.setattr(path_search, "no_open_states", lambda _room: whole(room))
            found = found_below(problem, seed, 1.5 * least)
        assert store_all_j(problem) <= found.bound_j <= least * (1 + 1e-9), seed
        cut_short += found.events is None
    assert room > 5 or cut_short > 0


def test_the_best_schedule_is_proven_where_it_is_known() -> None:
    for seed in range(0, 60, 2):
        problem, least = solved_problem(seed)
        if math.isfinite(least):
            found = found_below(problem, seed, least)
            assert found.bound_j == pytest.approx(least, rel=1e-9), seed


@pytest.mark.parametrize("tens", range(4))
def test_deadlines_and_transfers_beside_compute_never_lower_the_least_energy(tens: int) -> None:
    for number in range(10 * tens, 10 * tens + 10):
        small = small_instance(number)
        problem = build_problem(small.graph, small.ram_bytes, small.deadline_s)
        least = least_energy_j(small)
        if math.isfinite(least):
            found = found_below(problem, number, 3 * least + 100.0)
            assert found.bound_j <= least * (1 + 1e-9), number


def test_a_node_of_many_paged_inputs_is_nothing_special() -> None:
    page = PageCost(0.1, 0.1, 0.1, 0.1)
    values = [Value(f"v{k}", 40 if k == 0 else 4, page) for k in range(10)]
    makers = [Node(f"n{k}", 1.0, 1.0, (value,), ()) for k, value in enumerate(values)]
    large = Node("large", 1.0, 1.0, (Value("large", 72, None),), ())
    last = Node("last", 1.0, 1.0, (Value("sum", 4, None),), (*(value.id for value in values), "large"))
    graph = Graph("wide", (*makers, large, last))
    problem = build_problem(graph, 152, None)
    found = found_below(problem, 0, store_all_j(problem) + 0.1)
    assert found.events is not None
    assert found.bound_j == pytest.approx(store_all_j(problem))
    best = evaluated(problem, found.events)
    assert best is not None and best.peak <= problem.budget


def with_readers(graph: Graph, seed: int) -> Graph:
    """``graph`` and nodes that read what others make and yield no bytes, which some later nodes need, too."""
    draw = random.Random(seed)
    nodes: list[Node] = []
    readers: list[str] = []
    for node in graph.nodes:
        nodes.append(replace(node, inputs=(*node.inputs, *(id for id in readers if draw.random() < 0.5))))
        if draw.random() < 0.3:
            readers.append(f"reader of {node.id}")
            workspace = draw.choice((0, 8, 16))
            read = tuple(value.id for value in node.values)
            nodes.append(Node(readers[-1], 1.0, 0.5, (Value(readers[-1], 0, None),), read, workspace))
    return Graph(graph.name, tuple(nodes), resident_bytes=graph.resident_bytes)


@pytest.mark.parametrize("tens", range(6))
def test_nodes_without_bytes_that_read_what_is_paged(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        graph = with_readers(either_graph(seed), seed)
        if len(graph.nodes) > 9:
            continue
        problem, least = solved(seed, graph)
        expensive = 10 * store_all_j(problem) + 100.0
        found = found_below(problem, seed, expensive)
        assert math.isinf(least) or least < expensive, seed
        assert found.bound_j == pytest.approx(min(least, expensive), rel=1e-9), seed
