# SPDX-License-Identifier: Apache-2.0
"""Orders that need little RAM: against all topological orders, and what the optimiser makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from poet_planner import models
from poet_planner.lowering import lower_for_linux
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.solve.instance import Problem, build_problem, inputs_of
from poet_planner.solve.search import orders
from poet_planner.solve.search.incumbent import evaluated
from poet_planner.solve.search.orders import frugal_order
from poet_planner.tracing import trace
from poet_profiles.graph import Graph
from poet_profiles.schedule import Objective, Schedule

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.costed import costed
from tests.support.graphs.random_graphs import either_graph


def all_orders(problem: Problem, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    n = len(problem.node_time)
    if len(before) == n:
        yield before
    for j in set(range(n)).difference(before):
        if {int(problem.producer[v]) for v in inputs_of(problem, j)} <= set(before):
            yield from all_orders(problem, (*before, j))


def overflow(problem: Problem, order: tuple[int, ...]) -> int:
    """From the semantics alone: what is in RAM at each node, as far as it is above the budget."""
    total = 0
    for place, j in enumerate(order):
        made = {v for u in order[: place + 1] for v in range(problem.output_start[u], problem.output_start[u + 1])}
        own = set(range(problem.output_start[j], problem.output_start[j + 1]))
        read = {int(v) for u in order[place:] for v in inputs_of(problem, u)}
        held = int(problem.workspace[j]) + sum(int(problem.size[v]) for v in made & (read | own))
        total += max(0, held - problem.budget)
    return total


@pytest.mark.parametrize("seed", range(30))
def test_a_small_graphs_order_is_the_best_of_all(seed: int) -> None:
    graph = either_graph(seed)
    ram = graph.resident_bytes + (store_all_schedule(graph).peak_bytes - graph.resident_bytes) * 2 // 3
    problem = build_problem(graph, ram, None)
    found = tuple(int(j) for j in frugal_order(problem, seed))
    orders = set(all_orders(problem))
    assert found in orders
    assert overflow(problem, found) == min(overflow(problem, order) for order in orders)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_no_worse_than_the_graphs_own_and_ends_early(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = layered_graph(120, 12, seed=seed)
    own = np.arange(len(graph.nodes))
    peak = store_all_schedule(graph).peak_bytes
    assert (frugal_order(build_problem(graph, peak, None), 0) == own).all()
    tight = build_problem(graph, peak // 2, None)
    found = evaluated(tight, frugal_order(tight, 0))
    assert found is not None
    assert overflow(tight, tuple(found.events)) <= overflow(tight, tuple(own))
    monkeypatch.setattr(orders, "PASSES", 0)
    assert (frugal_order(tight, 0) == own).all()


@cache
def training_step() -> Graph:
    """A narrow ResNet-18, whose gradients are values until the step ends."""
    model = models.load("resnet18_cifar_w8", 8)
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    return costed(lower_for_linux(traced, dma=False, resident_gradients=False))


def budget_of(share: float) -> int:
    """A share of what the step takes above its residents when everything is kept, in the graph's order."""
    graph = training_step()
    return graph.resident_bytes + int(share * (store_all_schedule(graph).peak_bytes - graph.resident_bytes))


def test_what_an_order_saves_costs_nothing() -> None:
    graph = training_step()
    schedule = optimise(graph, budget_of(0.75), None, OptimiseOptions(paging=False))
    assert verify(graph, schedule).faults == ()
    assert (schedule.energy_j, schedule.gap) == (pytest.approx(store_all_schedule(graph).energy_j), 0.0)


def test_more_ram_never_costs_more() -> None:
    """Each plan is handed on to the next, and where everything fits nothing is spent."""
    graph = training_step()
    plans: list[Schedule] = []
    for share in (0.45, 0.5, 0.6, 0.7, 0.75, 1.0):
        options = OptimiseOptions(time_limit_s=0.7, paging=False, objective=Objective.TIME, starts=tuple(plans[-1:]))
        plans.append(optimise(graph, budget_of(share), None, options))
        assert verify(graph, plans[-1]).faults == ()
        assert plans[-1].peak_bytes <= budget_of(share)
    times = [plan.time_s for plan in plans]
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(times))
    assert times[-2:] == [pytest.approx(store_all_schedule(graph).time_s)] * 2
