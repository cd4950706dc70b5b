# SPDX-License-Identifier: Apache-2.0
"""POFO's dynamic program: what its schedules cost, at most what rotor's do, at least what the optimiser's do."""

from __future__ import annotations

import math
import random

import pytest
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.offloads import prefetched
from poet_planner.comparison.methods.pofo import Offloading
from poet_planner.comparison.methods.pofo_dma import Overlapped
from poet_planner.comparison.methods.rotor import Table, chain_of
from poet_planner.comparison.registry import method_named
from poet_planner.planning.costed_step import without_paging
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise
from poet_profiles.graph import Graph, Node, PageCost, Value
from poet_profiles.schedule import Action

from tests.support.graphs.paper_graphs import paper_graph

SPEED = 16.6  # of the a72: with it a page takes about as long as what it saves


@pytest.mark.parametrize(
    ("name", "energy", "pages"),
    [("linear.a72", False, False), ("linear.a72", True, True), ("resnet18_cifar.m4", False, True)],
)
def test_schedules_cost_what_the_program_says_and_no_more_than_rotors(name: str, energy: bool, pages: bool) -> None:
    graph, store_all = paper_graph(name, speed=SPEED if name.endswith("a72") else 1.0)
    instance = Instance(graph, store_all.peak_bytes, None, OptimiseOptions())
    program = Offloading(instance, energy)
    chain = chain_of(instance, instance.energy_j if energy else instance.time_s)
    rotor = Table(chain, instance)
    paged = 0
    for share in (0.9, 0.7, 0.5, 0.4):
        budget = int(share * store_all.peak_bytes)
        cost = program.cost(budget)
        assert cost <= rotor.cost(0, chain.length - 1, rotor.slots_in(budget)) * (1 + 1e-9)
        if cost < math.inf:
            events = program.order(budget)
            replayed = instance.evaluated(events)
            assert replayed is not None
            assert (replayed.energy if energy else replayed.time) == pytest.approx(cost, rel=1e-5)
            assert replayed.peak <= budget
            paged += max(events) >= instance.nodes
    assert (paged > 0) == pages


def test_on_a_bus_beside_the_cpu_the_programs_value_is_what_its_orders_take() -> None:
    """At half the bus's rate, which is about what transfers that start between two nodes can use."""
    graph, store_all = paper_graph("bert.a72", dma=True, speed=SPEED)
    instance = Instance(graph, store_all.peak_bytes, None, OptimiseOptions())
    serial, hidden = (Offloading(instance, energy=False, hidden=hidden) for hidden in (False, True))
    chain = chain_of(instance, instance.time_s)
    for share in (0.9, 0.75, 0.6, 0.5):
        budget = int(share * store_all.peak_bytes)
        program = Overlapped(instance, chain, hidden.to_go, budget, serial.cost(budget), 0.5)
        order = prefetched(instance, program.order(), budget)
        replayed = instance.evaluated(order)
        assert replayed is not None
        assert replayed.peak <= budget
        assert instance.steps_of(replayed).time_s == pytest.approx(program.cost, rel=1e-3)
        assert hidden.cost(budget) * (1 - 1e-9) <= program.cost < serial.cost(budget) - 0.02 * sum(instance.time_s)


def test_on_a_bus_beside_the_cpu_it_is_quicker_than_its_serial_plan() -> None:
    graph, store_all = paper_graph("bert.a72", dma=True, speed=SPEED)
    instance = Instance(graph, store_all.peak_bytes, None, OptimiseOptions())
    serial = Offloading(instance, energy=False)
    budget = int(0.75 * store_all.peak_bytes)
    report = verify(graph, method_named("pofo_time").schedule(graph, budget, None, OptimiseOptions()))
    assert report.faults == ()
    replayed = instance.evaluated(serial.order(budget))
    assert replayed is not None
    assert report.time_s < replayed.time - 0.02 * sum(instance.time_s)


def test_on_a_bus_beside_the_cpu_its_energy_is_what_the_serial_program_says() -> None:
    graph, store_all = paper_graph("bert.a72", dma=True, speed=SPEED)
    instance = Instance(graph, store_all.peak_bytes, None, OptimiseOptions())
    program = Offloading(instance, energy=True)
    budget = int(0.5 * store_all.peak_bytes)
    schedule = method_named("pofo_energy").schedule(graph, budget, None, OptimiseOptions())
    assert verify(graph, schedule).energy_j == pytest.approx(program.cost(budget), rel=1e-5)


def test_without_storage_it_is_rotor() -> None:
    graph, store_all = paper_graph("resnet18_cifar.m4")
    instance = Instance(without_paging(graph), store_all.peak_bytes, None, OptimiseOptions())
    program, rotor = Offloading(instance, energy=False), Table(chain_of(instance, instance.time_s), instance)
    for share in (0.9, 0.5):
        budget = int(share * store_all.peak_bytes)
        last = len(chain_of(instance, instance.time_s).forward) - 1
        assert program.cost(budget) == pytest.approx(rotor.cost(0, last, rotor.slots_in(budget)))


@pytest.mark.parametrize(("method", "dma"), [("pofo_energy", False), ("pofo_time", True)])
def test_the_optimiser_is_no_more_expensive(method: str, dma: bool) -> None:
    graph, store_all = paper_graph("linear.a72", dma, SPEED)
    ram = int(0.6 * store_all.peak_bytes)
    schedule = method_named(method).schedule(graph, ram, None, OptimiseOptions())
    assert verify(graph, schedule).faults == ()
    assert (Action.PAGE_IN in {step.do for step in schedule.steps}) == (method == "pofo_energy")
    best = optimise(graph, ram, None, OptimiseOptions(time_limit_s=2.5))
    assert store_all.energy_j < best.energy_j <= schedule.energy_j * (1 + 1e-9)


def tower_in_place(seed: int, dma: bool) -> Graph:
    """Convolutions, each with an activation in its place: the first is a cut, too, and nothing reads it later."""
    rng = random.Random(seed)
    nodes: list[Node] = []
    for k in range(6):
        size = rng.choice((8, 16))
        page = PageCost(*(size / 16 * rng.uniform(0.05, 0.4) for _ in range(4)))
        nodes.append(Node(f"c{k}", 1.0, 1.0, (Value(f"c{k}", size, page),), (f"r{k - 1}",) if k else ()))
        taken = {f"r{k}": f"c{k}"}
        nodes.append(Node(f"r{k}", 0.2, 0.2, (Value(f"r{k}", size, page),), (f"c{k}",), takes_over=taken))
    gradient: tuple[str, ...] = ()
    for k in reversed(range(6)):
        for id, read in ((f"gr{k}", (f"r{k}",)), (f"gc{k}", (f"r{k - 1}",) if k else ())):
            nodes.append(Node(id, 1.0, 1.0, (Value(id, 8),), (*gradient, *read), backward=True))
            gradient = (id,)
    return Graph("tower in place", tuple(nodes), dma=dma)


@pytest.mark.parametrize("dma", [False, True])
def test_what_enters_a_block_may_be_taken_over(dma: bool) -> None:
    for seed in range(4):
        graph = tower_in_place(seed, dma)
        ram = int(0.8 * store_all_schedule(graph).peak_bytes)
        rotor, energy, time = (
            method_named(name).schedule(graph, ram, None, OptimiseOptions(time_limit_s=120))
            for name in ("rotor", "pofo_energy", "pofo_time")
        )
        assert energy.energy_j < rotor.energy_j
        assert time.time_s < rotor.time_s
        assert any(step.do is Action.PAGE_IN for step in energy.steps)
