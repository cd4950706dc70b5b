# SPDX-License-Identifier: Apache-2.0
"""The optimiser against brute force, the verifier and published figures."""

from __future__ import annotations

import importlib
import math
import random
import time
from dataclasses import replace

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, Parts, Progress, optimise
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Node, PageCost
from poet_profiles.schedule import Objective, Schedule

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.blocks import UNPLACEABLE, graph_of
from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.least_plans import assert_proven_as_by_brute_force
from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import either_graph


def instance(seed: int) -> tuple[Graph, int, float | None]:
    rng = random.Random(seed)
    graph = either_graph(seed)
    plain = store_all_schedule(graph)
    deadline = rng.choice((None, None, 1.2, 1.5, 2.0))
    ram = int(plain.peak_bytes * rng.choice((1.0, 0.9, 0.8, 0.7, 0.6, 0.5)))
    return graph, ram, deadline and deadline * plain.time_s


@pytest.mark.parametrize("tens", range(12))
def test_plans_of_tiny_graphs_are_those_of_brute_force_and_proven(tens: int) -> None:
    for seed in range(1000 + 10 * tens, 1010 + 10 * tens):
        graph, ram, deadline = instance(seed)
        assert_proven_as_by_brute_force(graph, ram, deadline)


@pytest.mark.parametrize("seed", [1004, 1009, 1015, 1028])
def test_least_time_is_that_of_brute_force(seed: int) -> None:
    """The same instances with seconds in the place of joules, and figures that are the graph's own."""
    graph, ram, deadline = instance(seed)
    seconds = replace(graph, nodes=tuple(in_seconds(node) for node in graph.nodes))
    least = least_energy(seconds, ram, deadline)
    if math.isinf(least):
        return
    schedule = optimise(graph, ram, deadline, OptimiseOptions(time_limit_s=120, objective=Objective.TIME))
    assert verify(graph, schedule).faults == ()
    assert (schedule.objective, schedule.time_s) == (Objective.TIME, pytest.approx(least, rel=1e-9))
    assert schedule.bound_s is not None
    assert schedule.bound_s <= least * (1 + 1e-9)


def in_seconds(node: Node) -> Node:
    values = [
        replace(value, page=PageCost(page.out_time_s, page.out_time_s, page.in_time_s, page.in_time_s))
        if (page := value.page)
        else value
        for value in node.values
    ]
    return replace(node, energy_j=node.time_s, values=tuple(values))


@pytest.mark.parametrize("seed", [1001, 1002, 1004, 1010, 1016, 1022, 1024, 1030])
def test_bound_of_the_relaxation_is_never_above_brute_force(seed: int) -> None:
    """The same without the searches of the state space, so that LP and MILP have to bound these graphs."""
    graph, ram, deadline = instance(seed)
    ram = max(ram, int(0.8 * store_all_schedule(graph).peak_bytes))
    least = least_energy(graph, ram, deadline)
    parts = Parts(state_space=False, retained_sets=False)
    try:
        schedule = optimise(graph, ram, deadline, OptimiseOptions(time_limit_s=60, parts=parts))
    except NoScheduleError:
        assert math.isinf(least)
        return
    assert schedule.energy_j == pytest.approx(least, rel=1e-9)
    assert schedule.bound_j <= least * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_schedules_with_dma_are_sound(seed: int) -> None:
    graph, _, _ = instance(seed)
    plain = store_all_schedule(graph)
    graph = replace(graph, dma=True)
    try:
        schedule = optimise(graph, int(0.9 * plain.peak_bytes), 1.5 * plain.time_s, OptimiseOptions(time_limit_s=0.5))
    except NoScheduleError:
        return
    assert verify(graph, schedule).faults == ()


@pytest.mark.parametrize(
    ("name", "share", "overhead"), [("vgg16_cifar.m4", 0.75, 0.0076e-2), ("resnet18_cifar.m4", 0.5, 0.1242e-2)]
)
def test_known_optima_of_the_papers_graphs_are_met(name: str, share: float, overhead: float) -> None:
    graph, plain = paper_graph(name)
    schedule = optimise(graph, int(share * plain.peak_bytes), None, OptimiseOptions(time_limit_s=120))
    assert verify(graph, schedule).faults == ()
    assert schedule.energy_j / plain.energy_j - 1 <= overhead + 5e-7


def test_a_board_that_allocates_is_refused_nothing_for_want_of_offsets() -> None:
    graph = graph_of(UNPLACEABLE)
    with pytest.raises(NoScheduleError, match="for none that was tried were offsets found"):
        optimise(graph, 20, None, OptimiseOptions(time_limit_s=60))
    allocating = replace(graph, allocates=True)
    schedule = optimise(allocating, 20, None, OptimiseOptions(time_limit_s=60))
    assert verify(allocating, schedule).faults == ()
    assert (schedule.energy_j, schedule.peak_bytes, schedule.arena_bytes) == (7.0, 20, 20)


def test_no_schedule_says_what_would_do() -> None:
    graph, plain = paper_graph("linear.m4")
    with pytest.raises(NoScheduleError) as caught:
        optimise(graph, plain.peak_bytes // 3, None, OptimiseOptions(time_limit_s=60))
    assert caught.value.exit_code == 3
    assert caught.value.possible_bytes == 3256
    assert "3256" in str(caught.value)
    assert optimise(graph, 3256, None, OptimiseOptions(time_limit_s=60)).peak_bytes <= 3256


def test_deadline_shorter_than_plain_training_is_refused() -> None:
    graph, plain = paper_graph("linear.m4")
    with pytest.raises(NoScheduleError) as caught:
        optimise(graph, plain.peak_bytes, 0.9 * plain.time_s, OptimiseOptions(time_limit_s=60))
    assert caught.value.possible_s == pytest.approx(plain.time_s)


def test_without_paging_nothing_is_paged() -> None:
    graph, plain = paper_graph("linear.m4")
    schedule = optimise(graph, plain.peak_bytes // 2, None, OptimiseOptions(time_limit_s=60, paging=False))
    assert verify(graph, schedule).faults == ()
    assert not {"page_in", "page_out"} & {step.do.value for step in schedule.steps}


def test_equal_seeds_give_equal_plans() -> None:
    graph, plain = paper_graph("linear.m4")
    plans = [optimise(graph, plain.peak_bytes // 2, None, OptimiseOptions(time_limit_s=20, seed=3)) for _ in range(2)]
    assert plans[0] == plans[1]


def test_equal_seeds_give_equal_plans_whichever_annealer_is_faster() -> None:
    """Both find schedules that cost no more than the store-all schedule, so that there is nothing more to look for."""
    graph = layered_graph(150, 30, seed=1)
    budget = int(0.9 * store_all_schedule(graph).peak_bytes)

    def plan(pause_s: float) -> Schedule:
        options = OptimiseOptions(time_limit_s=60, seed=1, progress=lambda _: time.sleep(pause_s))
        return optimise(graph, budget, None, options)

    first, *others = (plan(pause_s) for pause_s in (0.0, 0.03, 0.01))
    assert first.energy_j == pytest.approx(store_all_schedule(graph).energy_j)
    assert all(other == first for other in others)


@pytest.mark.parametrize("seed", [9, 10])
def test_a_longer_limit_gives_no_dearer_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a shorter standard limit; the plan at that is what the longer limits begin with."""
    run = importlib.import_module("poet_planner.solve.optimise")  # the package has a function of that name
    monkeypatch.setattr(run, "STANDARD_S", 0.1)
    monkeypatch.setattr(run, "OVERTIME_S", 0.05)
    graph = layered_graph(80, 12, seed)
    ram = int(0.45 * store_all_schedule(graph).peak_bytes)
    energies = [
        optimise(graph, ram, None, OptimiseOptions(time_limit_s=limit_s, capped=False)).energy_j
        for limit_s in (0.1, 0.2, 0.4)
    ]
    assert max(energies[1:]) <= energies[0]
    assert energies[0] > energies[-1]


def test_progress_is_told_and_an_interrupt_keeps_the_best() -> None:
    graph, plain = paper_graph("linear.m4")
    received: list[Progress] = []

    def interrupt(state: Progress) -> None:
        received.append(state)
        if state.incumbent_j is not None:
            raise KeyboardInterrupt

    schedule = optimise(graph, plain.peak_bytes // 2, None, OptimiseOptions(progress=interrupt))
    assert received
    assert verify(graph, schedule).faults == ()


def test_unknown_names_are_refused() -> None:
    graph, plain = paper_graph("linear.m4")
    with pytest.raises(UserError, match="no solver"):
        optimise(graph, plain.peak_bytes, None, OptimiseOptions(solver="abacus"))
