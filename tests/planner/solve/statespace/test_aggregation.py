# SPDX-License-Identifier: Apache-2.0
"""Values that are taken together: the smaller problem asks no more than the whole one."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from poet_planner.solve.instance import Problem, build_problem, inputs_of, node_need
from poet_planner.solve.statespace.aggregation import merged, taken_together
from poet_planner.solve.statespace.astar import search_contents
from poet_planner.solve.time_budget import UNLIMITED
from poet_profiles.graph import Graph, Node, PageCost, Value

from tests.support.graphs.solved_problems import solved_problem

PLENTY = 20_000
DEAR = 10.0


def any_together(problem: Problem, seed: int) -> np.ndarray:
    """Values taken together at random, but so that all but the first of them need another one."""
    first = np.arange(len(problem.size))
    draw = random.Random(seed)
    for j in range(len(problem.node_time)):
        for v in range(problem.own[j], problem.own[j + 1]):
            smaller = [u for u in first[inputs_of(problem, j)] if 0 < problem.size[u] <= problem.size[v]]
            if smaller and draw.random() < 0.5:
                first[v] = draw.choice(smaller)
    return first


@pytest.mark.parametrize("tens", range(8))
def test_a_merged_problem_costs_no_more(tens: int) -> None:
    joined = 0
    for seed in range(10 * tens, 10 * tens + 10):
        problem, least = solved_problem(seed)
        if math.isinf(least):
            continue
        first = any_together(problem, seed)
        joined += int((first != np.arange(len(first))).sum())
        smaller, apart = merged(problem, first), np.arange(len(first))
        plain_j = float(problem.node_energy.sum())
        found = search_contents(smaller, apart, plain_j, DEAR * least, PLENTY, UNLIMITED)
        assert found.bound_j <= least * (1 + 1e-9), seed
    assert joined > 0


def test_computing_a_node_takes_as_much_by_itself() -> None:
    for seed in range(40):
        problem, _ = solved_problem(seed)
        smaller = merged(problem, any_together(problem, seed))
        assert (node_need(smaller) == node_need(problem)).all(), seed
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


def test_what_is_cheap_joins_what_it_is_made_of() -> None:
    x, c, n, a, s, d, r = range(7)
    first = taken_together(chain(), 0.2)
    assert first[n] == first[a] == c, "made of the convolution alone, and no smaller"
    assert first[s] == s, "needs the image too, and the convolution is dear"
    assert first[d] == s, "needs nothing but what the sum, as cheap, is made of"
    assert first[r] == r, "smaller than what it is made of"
    assert first[x] == x


def test_nothing_is_taken_together_where_nothing_is_cheap() -> None:
    assert (taken_together(chain(), 0.0) == np.arange(7)).all()


def test_a_value_is_paged_as_cheaply_as_any_it_is_taken_with() -> None:
    problem = chain()
    smaller = merged(problem, taken_together(problem, 0.2))
    assert smaller.pageable.tolist() == [False, True, False, False, False, False, False]
    assert smaller.in_energy[1] == problem.in_energy[2]
    assert smaller.out_energy[1] == problem.out_energy[2]
    assert smaller.size.tolist() == [40, 40, 0, 0, 40, 0, 4]
