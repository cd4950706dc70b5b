# SPDX-License-Identifier: Apache-2.0
"""Values that only paging can bring together: held against every schedule of small graphs."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp.pyomo_model import solve_milp
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.cutting_planes import LpRelaxation
from poet_planner.solve.relaxation.event_points import bottleneck_event_points
from poet_planner.solve.relaxation.model import build_relaxation
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import longest_path
from poet_profiles.graph import Graph, Node, PageCost, Value

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.random_graphs import either_graph, training_like_graph

PAGE = PageCost(1.0, 50.0, 1.0, 50.0)


def node(id: str, size: int, *inputs: str) -> Node:
    return Node(id, 1.0, 1.0, (Value(id, size, PAGE),), inputs)


def test_paging_is_forced_where_neither_value_can_be_computed_beside_the_other() -> None:
    """a and b are made from 8 bytes each, and the last node needs both: 12 bytes do only with a page-in."""
    graph = Graph(
        "two", (node("p", 8), node("a", 4, "p"), node("q", 8, "a"), node("b", 4, "q"), node("end", 4, "a", "b"))
    )
    problem = build_problem(graph, 12, None)
    conflicts = Conflicts(problem)
    names = [value.id for one in graph.nodes for value in one.values]
    a, b = names.index("a"), names.index("b")
    assert conflicts.pairs[a, b]
    assert {names[explanation.value] for explanation in conflicts.explanations(a, b)} >= {"a", "b"}
    least = least_energy(graph, 12, None)
    assert least == pytest.approx(5 + 100)
    assert 100 <= _root_bound(problem, longest_path(problem), conflicts) <= least


def test_excuses_may_lie_a_long_way_back() -> None:
    """v and the beginning of a chain conflict by their sizes, and each link of it because of the one before."""
    length = 200
    links = (node(f"u{k}", 4, f"u{k - 1}" if k else "r") for k in range(length))
    graph = Graph(
        "long", (node("q", 96), node("v", 4, "q"), node("r", 96), *links, node("e", 4, "v", f"u{length - 1}"))
    )
    conflicts = Conflicts(build_problem(graph, 100, None))
    names = [value.id for one in graph.nodes for value in one.values]
    depth = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + length // 2)
    try:
        explanations = conflicts.explanations(names.index("v"), names.index(f"u{length - 1}"))
    finally:
        sys.setrecursionlimit(depth)
    assert {names[explanation.value] for explanation in explanations} == {"v", *(f"u{k}" for k in range(length))}


def test_what_is_made_paged_out_and_paged_in_within_one_stage_is_an_excuse() -> None:
    """u can be made in no stage but that of e1, which is the first event point, and comes back before it: v is kept."""
    dear, page = 50.0, PageCost(0.1, 1.0, 0.1, 1.0)
    made = (
        Node("q", 1.0, dear, (Value("q", 8),)),
        Node("v", 1.0, dear, (Value("v", 4),), ("q",)),
        Node("p", 1.0, dear, (Value("p", 8),)),
        Node("u", 1.0, dear, (Value("u", 4, page),), ("p",)),
    )
    longer = tuple(Node(f"d{k}", 1.0, 1.0, (Value(f"d{k}", 0),), (f"d{k - 1}",) if k else ()) for k in range(6))
    ends = (
        Node("e1", 1.0, 1.0, (Value("e1", 4),), ("u", "d5")),
        Node("e2", 1.0, 1.0, (Value("e2", 4),), ("e1", "v")),
    )
    graph = Graph("explanation", (*made, *longer, *ends))
    problem = build_problem(graph, 14, None)
    path = longest_path(problem)
    event_points = path[bottleneck_event_points(problem, path)[path]]
    assert [graph.nodes[j].id for j in event_points] == ["e1", "e2"]
    conflicts = Conflicts(problem)
    assert conflicts.pairs[1, 3]
    relaxed = build_relaxation(problem, event_points, np.inf, conflicts)

    answer = solve_milp(relaxed.model, solver_named("highs"), TimeBudget(10.0), 1e-6, np.inf)

    least = least_energy(graph, 14, None)
    assert least == pytest.approx(sum(one.energy_j for one in graph.nodes) + 2.0)
    assert float(problem.node_energy.sum()) + answer.bound / relaxed.scale <= least * (1 + 1e-9)


def test_without_storage_nothing_can_be_forced() -> None:
    graph = training_like_graph(2)
    assert not Conflicts(build_problem(graph, 12, None, paging=False)).pairs.any()


def _root_bound(problem, path, conflicts):  # type: ignore[no-untyped-def]
    relaxed = build_relaxation(problem, path, np.inf, conflicts)
    lp = LpRelaxation(problem, relaxed)
    branch = lp.add_cuts(lp.whole(), lambda: np.inf, TimeBudget(5.0), 6)
    return float(problem.node_energy.sum()) + branch.bound / relaxed.scale


def test_no_bound_with_conflicts_is_above_the_least_energy() -> None:
    forced = 0
    for seed in range(120):
        graph = either_graph(seed)
        ram = int(store_all_schedule(graph).peak_bytes * (0.6 + 0.05 * (seed % 8)))
        least = least_energy(graph, ram, None)
        if np.isinf(least):
            continue
        problem = build_problem(graph, ram, None)
        conflicts = Conflicts(problem)
        forced += bool(conflicts.pairs.any())
        bound = _root_bound(problem, longest_path(problem), conflicts)
        assert bound <= least * (1 + 1e-7) + 1e-9, seed
    assert forced >= 15
