# SPDX-License-Identifier: Apache-2.0
"""Graphs whose computes cost nothing, or next to nothing beside pages, or the reverse; and tiny energies altogether."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
from poet_planner.comparison.methods import poet_ilp
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, Parts, optimise
from poet_planner.solve.instance import build_problem
from poet_planner.solve.relaxation.downsets import search_downsets
from poet_planner.solve.statistics import Context, Statistics
from poet_planner.solve.time_budget import UNLIMITED
from poet_profiles.graph import Graph, PageCost
from poet_profiles.schedule import Status

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.late_chain import RAM_BYTES, late_chain
from tests.support.graphs.random_graphs import either_graph

BY_RELAXATION = Parts(state_space=False, retained_sets=False, background_search=False)
# Factors of the energies of computes and of pages.
APART = [(0.0, 1.0), (1e-20, 1.0), (1e-16, 1.0), (1e-3, 1.0), (1.0, 1e-3), (1.0, 1e-16), (1.0, 0.0), (0.0, 0.0)]
TINY = 1e-15


def scaled(graph: Graph, computes: float, pages: float) -> Graph:
    def paged(page: PageCost | None) -> PageCost | None:
        return page and PageCost(page.out_time_s, pages * page.out_energy_j, page.in_time_s, pages * page.in_energy_j)

    return replace(
        graph,
        nodes=tuple(
            replace(
                node,
                energy_j=computes * node.energy_j,
                values=tuple(replace(value, page=paged(value.page)) for value in node.values),
            )
            for node in graph.nodes
        ),
    )


def free_chain(compute_j: float, page_j: float) -> Graph:
    """Two of its nodes cannot be computed again, so that their values must be paged."""
    graph = late_chain()
    page = PageCost(4.0, page_j, 4.0, page_j)
    return replace(
        graph,
        nodes=tuple(
            replace(
                node,
                energy_j=compute_j,
                recomputable=node.id not in ("f1", "f2"),
                values=tuple(replace(value, page=page) for value in node.values),
            )
            for node in graph.nodes
        ),
    )


@cache
def least_of_free_chain() -> float:
    return least_energy(free_chain(0.0, 0.5), RAM_BYTES, None)


def planned(graph: Graph, ram_bytes: int, parts: Parts, seconds: float = 8.0) -> tuple[float, float, Status]:
    """Energy, bound and status of a sound plan, for which no solver failed."""
    statistics = Statistics()
    options = OptimiseOptions(time_limit_s=seconds, capped=False, parts=parts, statistics=statistics)
    schedule = optimise(graph, ram_bytes, None, options)
    assert verify(graph, schedule).faults == ()
    assert statistics.failures == []
    return schedule.energy_j, schedule.bound_j, schedule.status


@pytest.mark.parametrize("compute_j", [0.0, 1e-20, 1e-16, 1e-12])
def test_the_relaxation_bounds_what_only_pages_cost(compute_j: float) -> None:
    energy_j, bound_j, _ = planned(free_chain(compute_j, 0.5), RAM_BYTES, BY_RELAXATION)
    assert least_of_free_chain() == 1.0
    assert energy_j == pytest.approx(1.0)
    assert 1.0 - 1e-6 <= bound_j <= 1.0 + 1e-9


@pytest.mark.parametrize("compute_j", [0.0, 1e-20, 1e-16])
def test_algorithm_1_plans_where_only_pages_cost(compute_j: float) -> None:
    graph = free_chain(compute_j, 0.5)
    schedule = poet_ilp.schedule(graph, RAM_BYTES, None, OptimiseOptions(time_limit_s=60))
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j == pytest.approx(least_of_free_chain())


@pytest.mark.parametrize("factors", APART)
def test_small_graphs_are_planned_as_brute_force_does(factors: tuple[float, float]) -> None:
    for seed in range(1003, 1031, 5):
        graph = scaled(either_graph(seed), *factors)
        ram_bytes = int(0.8 * store_all_schedule(graph).peak_bytes)
        least_j = least_energy(graph, ram_bytes, None)
        if math.isinf(least_j):
            continue
        for parts in (Parts(), BY_RELAXATION):
            energy_j, bound_j, status = planned(graph, ram_bytes, parts, 2.0)
            assert energy_j == pytest.approx(least_j, rel=1e-9), seed
            assert bound_j <= least_j * (1 + 1e-9), seed
            assert status is Status.OPTIMAL or parts is not Parts(), seed


@pytest.mark.parametrize("factors", APART)
def test_downsets_prove_no_more_than_the_least_energy(factors: tuple[float, float]) -> None:
    raised = 0
    for seed in range(1000, 1020):
        graph = scaled(either_graph(seed), *factors)
        ram_bytes = int(0.8 * store_all_schedule(graph).peak_bytes)
        least_j = least_energy(graph, ram_bytes, None)
        if math.isinf(least_j):
            continue
        problem, statistics = build_problem(graph, ram_bytes, None), Statistics()
        plain_j = float(problem.node_energy.sum())
        bound_j = search_downsets(problem, least_j - plain_j, UNLIMITED, Context(statistics=statistics))
        assert plain_j <= bound_j <= least_j * (1 + 1e-9), seed
        assert statistics.failures == []
        raised += bound_j > plain_j
    assert raised or factors == (0.0, 0.0) or factors[1] < 1e-6


def test_tiny_energies_are_bounded_as_ordinary_ones_are() -> None:
    """Nothing is complete, or as good, for being within so many joules."""
    for seed in (1004, 1010, 1016, 1022):
        graph = either_graph(seed)
        ram_bytes = int(0.8 * store_all_schedule(graph).peak_bytes)
        if math.isinf(least_energy(graph, ram_bytes, None)):
            continue
        energy_j, bound_j, status = planned(graph, ram_bytes, BY_RELAXATION, 2.0)
        tiny = planned(scaled(graph, TINY, TINY), ram_bytes, BY_RELAXATION, 2.0)
        assert tiny[0] == pytest.approx(TINY * energy_j, rel=1e-9)
        assert tiny[1] == pytest.approx(TINY * bound_j, rel=1e-4)
        assert tiny[2] is status
