# SPDX-License-Identifier: Apache-2.0
"""The smaller problem and the windows that add up: no bound above what brute force finds."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.statespace.astar import search_memory_states, without_dear_pages
from poet_planner.solve.statespace.reduction import reduced
from poet_planner.solve.statespace.windows import Windows, on_simplex
from poet_planner.solve.time_budget import UNLIMITED
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.graph.sizes import smallest_ram_bytes

from benchmarks.planner.exhaustive import Small, least_energy_j, small_instance
from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.solved_problems import store_all_j

STATES = (25, 5_000)


# Small instances of which every schedule in the least RAM computes something again or pages it.
HARD = (1, 74, 120, 132, 135, 168, 175, 182, 193, 194, 197)


def hard_problem(seed: int) -> tuple[Problem, float]:
    """One of them, and its least energy."""
    graph = small_instance(seed, 7, in_place=seed % 2 == 1).graph
    ram_bytes = smallest_ram_bytes(graph)
    least = least_energy_j(Small(graph, ram_bytes, None))
    assert least is not None
    return build_problem(graph, ram_bytes, None), least


def bound_j(problem: Problem, smaller: Problem, limit_j: float, most_states: int = STATES[1]) -> float:
    """What the smaller problem says of the problem."""
    plain_j = store_all_j(smaller)
    every = np.arange(len(smaller.size))
    found = search_memory_states(smaller, every, plain_j, plain_j + limit_j, most_states, UNLIMITED)
    return found.bound_j - plain_j + store_all_j(problem)


@pytest.mark.parametrize("seed", HARD)
def test_no_bound_is_above_the_least_energy(seed: int) -> None:
    problem, least = hard_problem(seed)
    limit_j, draw = 0.5 * least + 1.0, random.Random(seed)
    for little, most_states in zip((0, problem.budget // 4), STATES, strict=True):
        smaller = reduced(without_dear_pages(problem, limit_j), little)
        if not (smaller.size > 0).any():
            continue
        assert bound_j(problem, smaller, limit_j, most_states) <= least * (1 + 1e-9)
        windows = Windows(smaller, limit_j, most_states)
        last = len(windows.upto) - 1
        cuts = [-1, *sorted(draw.sample(range(last), min(last, draw.randint(1, 2)))), last]
        drawn = [[draw.choice((0.0, draw.random())) for _ in smaller.size] for _ in cuts[1:]]
        shares = on_simplex(np.array(drawn))
        pairs = enumerate(pairwise(cuts))
        paid_j = sum(windows.paid(*pair, shares[k], most_states, UNLIMITED)[0] for k, pair in pairs)
        assert min(paid_j, limit_j) + store_all_j(problem) <= least * (1 + 1e-9)
        for raised_j in windows.raised(UNLIMITED):
            assert raised_j + store_all_j(problem) <= least * (1 + 1e-9)


def test_bounds_of_the_smaller_problem_are_often_exact() -> None:
    exact = 0
    for seed in HARD:
        problem, least = hard_problem(seed)
        exact += bound_j(problem, reduced(problem, 0), 2 * least) == pytest.approx(least, rel=1e-9)
    assert exact > len(HARD) / 2


def in_place(page_of_first: PageCost, workspace: int, beside: int) -> Graph:
    """A pair in place: its second node needs a workspace, its first is computed beside a value."""
    dear = PageCost(5.0, 5.0, 5.0, 5.0)
    return Graph(
        "pair",
        (
            Node("source", 1.0, 9.0, (Value("source", 8, None),), ()),
            Node("beside", 1.0, 9.0, (Value("beside", beside, None),), ("source",)),
            Node("first", 1.0, 30.0, (Value("first", 8, page_of_first), Value("done", 0, None)), ("source",)),
            Node("gone", 1.0, 0.0, (Value("gone", 0, None),), ("beside", "done")),
            replace(
                Node("second", 1.0, 30.0, (Value("second", 8, dear),), ("first", "gone"), workspace),
                takes_over={"second": "first"},
            ),
            Node("wide", 1.0, 1.0, (Value("wide", 24, None),), ("source",)),
            Node("after", 1.0, 1.0, (Value("after", 0, None),), ("wide",)),
            Node("end", 1.0, 1.0, (Value("end", 8, None),), ("second", "after")),
        ),
    )


@pytest.mark.parametrize("beside", [4, 16])
@pytest.mark.parametrize("workspace", [0, 16])
@pytest.mark.parametrize("first_j", [1.0, 5.0, 9.0])
def test_a_pair_pages_at_the_lower_cost_and_needs_what_its_first_node_does(
    first_j: float, workspace: int, beside: int
) -> None:
    graph = in_place(PageCost(first_j, first_j, first_j, first_j), workspace, beside)
    for ram in (32, 36):
        least = least_energy(graph, ram, None)
        problem = build_problem(graph, ram, None)
        assert len(reduced(problem, 0).node_energy) < len(problem.node_energy)
        if math.isfinite(least):
            assert bound_j(problem, reduced(problem, 0), least) <= least * (1 + 1e-9)


def test_the_nearest_shares_add_up_to_one() -> None:
    drawn = np.random.default_rng(0).normal(size=(4, 50))
    near = on_simplex(drawn)
    assert (near >= 0).all() and near.sum(axis=0) == pytest.approx(1.0)
    assert on_simplex(near) == pytest.approx(near)
