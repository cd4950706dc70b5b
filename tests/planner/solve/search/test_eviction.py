# SPDX-License-Identifier: Apache-2.0
"""Schedules made in one pass: within the budget, of the contract, and no more expensive than they must be."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.optimise import optimise
from poet_planner.solve.options import NoScheduleError, OptimiseOptions
from poet_planner.solve.search.decode import decode
from poet_planner.solve.search.eviction import evict_once
from poet_planner.solve.search.incumbent import Incumbent, evaluated

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.chains import chain
from tests.support.graphs.random_graphs import either_graph

PASSES = 20


def schedules(problem: Problem) -> list[Incumbent]:
    """Of some passes, those that found a way."""
    random = np.random.default_rng(0)
    order = np.arange(len(problem.node_time))
    made = [evict_once(problem, order, random) for _ in range(PASSES)]
    found = [evaluated(problem, events) for events in made if events is not None]
    assert None not in found
    return [one for one in found if one is not None]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("share", [0.6, 0.8, 1.0])
def test_every_pass_keeps_the_budget_and_none_beats_the_optimum(seed: int, share: float) -> None:
    graph = either_graph(seed)
    ram_bytes = int(share * store_all_schedule(graph).peak_bytes)
    problem = build_problem(graph, ram_bytes, None)

    found = schedules(problem)

    for one in found:
        assert one.peak <= problem.budget
        assert decode(graph, problem, one.events).peak <= problem.budget
    if share == 1.0:
        assert min(one.energy for one in found) == pytest.approx(sum(node.energy_j for node in graph.nodes))
    least = least_energy(graph, ram_bytes, None)
    assert all(one.energy >= least * (1 - 1e-9) for one in found)


def test_with_all_the_ram_nothing_is_repeated() -> None:
    problem = build_problem(chain(30), 4 * 60, None)
    assert all(np.array_equal(one.events, np.arange(60)) for one in schedules(problem))


@pytest.mark.parametrize("words", [5, 7, 10])
def test_a_deep_chain_is_repeated_no_more_often_than_by_binomial_checkpointing(words: int) -> None:
    """Griewank and Walther (2000): with c checkpoints, a chain of up to C(c + r, c) needs no node more than r times."""
    depth = 40
    problem = build_problem(chain(depth), 4 * words, None)

    repeated = min(one.energy for one in schedules(problem)) - 2 * depth

    # Beside the checkpoints lie the gradient and what is computed from them.
    checkpoints = words - 2
    times = next(r for r in range(depth) if comb(checkpoints + r, checkpoints) >= depth)
    assert repeated <= times * depth


def test_the_smallest_ram_named_for_a_deep_chain_is_what_a_node_needs() -> None:
    # Found within a second; compiling, in a fresh checkout, may take a minute.
    with pytest.raises(NoScheduleError) as refusal:
        optimise(chain(40), 4 * 2, None, OptimiseOptions(time_limit_s=120.0))
    assert refusal.value.possible_bytes == 4 * 3
