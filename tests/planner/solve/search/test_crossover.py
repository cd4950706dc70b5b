# SPDX-License-Identifier: Apache-2.0
"""Offspring of two schedules, against all of them made one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Ints, Problem, build_problem
from poet_planner.solve.search.crossover import cross
from poet_planner.solve.search.evaluation import new_workspace
from poet_planner.solve.search.incumbent import Incumbent, evaluated

from tests.support.graphs.random_graphs import random_graph

MOST_NODES = 12


def parent(problem: Problem, rng: random.Random) -> Ints:
    """The store-all schedule with recomputations put in here and there."""
    events: list[int] = []
    for node in range(len(problem.node_time)):
        repeated = [k for k in range(node) if problem.recomputable[k] and rng.random() < 0.4]
        events += [*repeated, node]
    found = evaluated(problem, np.array(events, dtype=np.int64))
    assert found is not None
    return found.events


def all_offspring(problem: Problem, one: Ints, other: Ints) -> list[Incumbent]:
    """One for each node, where that is a schedule."""
    cuts = [(list(one).index(node) + 1, list(other).index(node) + 1) for node in range(len(problem.node_time))]
    found = [evaluated(problem, np.concatenate([one[:stop], other[start:]])) for stop, start in cuts]
    return [offspring for offspring in found if offspring is not None]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("per_byte", [0.0, 0.5])
def test_the_cheapest_offspring_that_is_not_a_parent(seed: int, per_byte: float) -> None:
    graph = random_graph(seed, MOST_NODES)
    problem = build_problem(graph, int(0.9 * store_all_schedule(graph).peak_bytes), None)
    rng = random.Random(seed)
    one, other = parent(problem, rng), parent(problem, rng)
    parents_j = [problem.node_energy[events].sum() for events in (one, other)]

    offspring = cross(problem, one, other, per_byte, 0.0, new_workspace(problem, np.ones(1, dtype=np.uint64)))

    new = [
        each for each in all_offspring(problem, one, other) if not np.isclose(each.energy, parents_j, rtol=1e-9).any()
    ]
    if offspring is None:
        assert new == []
        return
    found = evaluated(problem, offspring)
    assert found is not None
    assert any(np.array_equal(found.events, each.events) for each in new)
    if per_byte == 0:
        assert found.energy == pytest.approx(min(each.energy for each in new))


def test_a_schedule_and_itself_have_no_offspring() -> None:
    problem = build_problem(random_graph(5, MOST_NODES), 10_000, None)
    events = parent(problem, random.Random(1))
    assert cross(problem, events, events, 1.0, 1.0, new_workspace(problem, np.ones(1, dtype=np.uint64))) is None
