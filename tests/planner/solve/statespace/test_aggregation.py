# SPDX-License-Identifier: Apache-2.0
"""Aggregated values: the smaller problem costs no more than the whole one."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from poet_planner.solve.instance import Problem, build_problem, inputs_of, working_set_bytes
from poet_planner.solve.statespace.aggregation import aggregated_problem, representatives
from poet_planner.solve.statespace.astar import search_memory_states
from poet_planner.solve.time_budget import UNLIMITED
from poet_profiles.graph import Graph, Node, PageCost, Value

from tests.support.graphs.solved_problems import solved_problem

PLENTY = 20_000
EXPENSIVE = 10.0


def any_groups(problem: Problem, seed: int) -> np.ndarray:
    """Random groups; the node of each value but the first of a group needs another value of it."""
    representative = np.arange(len(problem.size))
    draw = random.Random(seed)
    for j in range(len(problem.node_time)):
        for v in range(problem.output_start[j], problem.output_start[j + 1]):
            smaller = [u for u in representative[inputs_of(problem, j)] if 0 < problem.size[u] <= problem.size[v]]
            if smaller and draw.random() < 0.5:
                representative[v] = draw.choice(smaller)
    return representative


@pytest.mark.parametrize("tens", range(8))
def test_an_aggregated_problem_costs_no_more(tens: int) -> None:
    joined = 0
    for seed in range(10 * tens, 10 * tens + 10):
        problem, least = solved_problem(seed)
        if math.isinf(least):
            continue
        representative = any_groups(problem, seed)
        joined += int((representative != np.arange(len(representative))).sum())
        smaller, separate = aggregated_problem(problem, representative), np.arange(len(representative))
        store_all_j = float(problem.node_energy.sum())
        found = search_memory_states(smaller, separate, store_all_j, EXPENSIVE * least, PLENTY, UNLIMITED)
        assert found.bound_j <= least * (1 + 1e-9), seed
    assert joined > 0


def test_working_sets_stay_as_large() -> None:
    for seed in range(40):
        problem, _ = solved_problem(seed)
        smaller = aggregated_problem(problem, any_groups(problem, seed))
        assert (working_set_bytes(smaller) == working_set_bytes(problem)).all(), seed
        assert (smaller.workspace >= problem.workspace).all(), seed


def chain() -> Problem:
    """A convolution, its normalisation, an activation, a sum with what the convolution needs, and a reduction."""
    page = PageCost(1.0, 2.0, 3.0, 4.0)
    graph = Graph(
        "chain",
        (
            Node("image", 1.0, 1.0, (Value("x", 40, None),), ()),
            Node("convolution", 1.0, 9.0, (Value("c", 40, None),), ("x",)),
            Node("normalisation", 1.0, 0.1, (Value("n", 40, page),), ("c",)),
            Node("activation", 1.0, 0.1, (Value("a", 80, None),), ("n",)),
            Node("sum", 1.0, 0.1, (Value("s", 40, None),), ("a", "x")),
            Node("scaled sum", 1.0, 0.1, (Value("d", 40, None),), ("s", "a", "x")),
            Node("reduction", 1.0, 0.1, (Value("r", 4, None),), ("d",)),
        ),
    )
    return build_problem(graph, 1000, None)


def test_cheap_values_join_the_group_of_their_inputs() -> None:
    x, c, n, a, s, d, r = range(7)
    representative = representatives(chain(), 0.2)
    assert representative[n] == representative[a] == c, "made of the convolution alone, and no smaller"
    assert representative[s] == s, "needs the image too, and the convolution is expensive"
    assert representative[d] == s, "needs nothing but what the sum, as cheap, is made of"
    assert representative[r] == r, "smaller than what it is made of"
    assert representative[x] == x


def test_nothing_is_aggregated_if_nothing_is_cheap() -> None:
    assert (representatives(chain(), 0.0) == np.arange(7)).all()


def test_a_group_is_paged_as_cheaply_as_any_of_its_values() -> None:
    problem = chain()
    smaller = aggregated_problem(problem, representatives(problem, 0.2))
    assert smaller.pageable.tolist() == [False, True, False, False, False, False, False]
    assert smaller.in_energy[1] == problem.in_energy[2]
    assert smaller.out_energy[1] == problem.out_energy[2]
    assert smaller.size.tolist() == [40, 40, 0, 0, 40, 0, 4]
