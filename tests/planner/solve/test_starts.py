# SPDX-License-Identifier: Apache-2.0
"""Schedules that the optimiser is given: its answer costs no more than any of them that keeps the limits."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
from poet_planner.comparison.registry import method_named
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.solve.starts import cheapest_start, events_of
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import training_like_graph


@pytest.fixture(scope="module")
def given() -> tuple[Graph, int, list[Schedule]]:
    """A graph, RAM, and schedules of baselines within it, the cheapest last."""
    graph, store_all = paper_graph("resnet18_cifar.m4")
    ram = int(0.5 * store_all.peak_bytes)
    names = ("chen_greedy", "pofo_energy", "dtr")
    return graph, ram, [method_named(name).schedule(graph, ram, None, OptimiseOptions()) for name in names]


def test_the_cheapest_that_keeps_the_limits_counts(given: tuple[Graph, int, list[Schedule]]) -> None:
    graph, ram, starts = given
    best = cheapest_start(graph, ram, None, starts)
    assert best is not None
    assert verify(graph, best).faults == ()
    assert best.energy_j == pytest.approx(starts[-1].energy_j)
    tighter = cheapest_start(graph, starts[0].peak_bytes + 4, None, starts)
    assert tighter is not None
    assert tighter.energy_j == pytest.approx(starts[0].energy_j)
    assert cheapest_start(graph, ram // 2, None, starts) is None
    assert cheapest_start(graph, ram, 0.9 * best.time_s, starts) is None


def test_another_graphs_schedule_is_no_start(given: tuple[Graph, int, list[Schedule]]) -> None:
    _, ram, starts = given
    other, _ = paper_graph("linear.m4")
    assert cheapest_start(other, ram, None, starts) is None


def test_without_storage_a_start_that_pages_does_not_count() -> None:
    graph, store_all = paper_graph("linear.m4")
    paging = page_all_schedule(graph)
    ram = max(paging.ram_budget_bytes, store_all.peak_bytes)
    assert cheapest_start(graph, ram, None, [paging]) is not None
    assert cheapest_start(graph, ram, None, [paging], paging=False) is None
    assert cheapest_start(graph, ram, None, [store_all], paging=False) is not None


def test_figures_that_a_start_claims_do_not_count(given: tuple[Graph, int, list[Schedule]]) -> None:
    graph, ram, starts = given
    boasting = replace(starts[0], energy_j=0.0, bound_j=0.0)
    best = cheapest_start(graph, ram, None, [boasting, *starts])
    assert best is not None
    assert best.energy_j == pytest.approx(starts[-1].energy_j)


def test_the_answer_costs_no_more_than_a_start(given: tuple[Graph, int, list[Schedule]]) -> None:
    graph, ram, starts = given
    made = optimise(graph, ram, None, OptimiseOptions(time_limit_s=0.2, starts=tuple(starts)))
    assert verify(graph, made).faults == ()
    assert made.energy_j <= starts[-1].energy_j * (1 + 1e-9)


def test_a_start_is_the_answer_where_the_optimiser_finds_none(
    given: tuple[Graph, int, list[Schedule]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, ram, starts = given

    def finds_none(_: object) -> Schedule:
        raise NoScheduleError("none")

    run = importlib.import_module("poet_planner.solve.optimise")._Run  # the package has a function of that name
    monkeypatch.setattr(run, "schedule", finds_none)
    made = optimise(graph, ram, None, OptimiseOptions(starts=tuple(starts)))
    assert verify(graph, made).faults == ()
    assert made.energy_j == pytest.approx(starts[-1].energy_j)
    with pytest.raises(NoScheduleError):
        optimise(graph, ram, None, OptimiseOptions())


def test_a_start_does_not_keep_the_optimum_from_being_found_and_proven() -> None:
    proven = 0
    for seed in range(6):
        graph = training_like_graph(seed)
        ram = int(0.8 * store_all_schedule(graph).peak_bytes)
        try:
            start = method_named("dtr").schedule(graph, ram, None, OptimiseOptions())
        except UserError:
            continue
        made = optimise(graph, ram, None, OptimiseOptions(time_limit_s=10, starts=(start,)))
        assert verify(graph, made).faults == (), seed
        assert made.energy_j == pytest.approx(least_energy(graph, ram, None)), seed
        proven += made.gap == 0
    assert proven > 0


def test_events_are_the_computes_and_page_ins(given: tuple[Graph, int, list[Schedule]]) -> None:
    graph, _, starts = given
    events = events_of(graph, starts[1])
    nodes = [node.id for node in graph.nodes]
    computes = [step.target for step in starts[1].steps if step.do.value == "compute"]
    assert [nodes[event] for event in events if event < len(nodes)] == computes
    assert len(events) == sum(step.do.value in ("compute", "page_in") for step in starts[1].steps)
