# SPDX-License-Identifier: Apache-2.0
"""What the last nodes of downsets prove, against brute force, schedules and the least energies ever found."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Flags, Ints, Problem, build_problem, inputs_of
from poet_planner.solve.relaxation import downsets
from poet_planner.solve.relaxation.downsets import LastNode, search_downsets
from poet_planner.solve.search.incumbent import evaluated
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget

from benchmarks.planner import instances
from benchmarks.planner.instances import Instance, load_problem
from tests.support.graphs.random_graphs import either_graph
from tests.support.graphs.relaxed_points import schedules
from tests.support.graphs.solved_problems import solved, solved_problem, store_all_j
from tests.support.graphs.taking_over import random_in_place_graph

RESULTS = Path(instances.__file__).with_name("results.csv")


@pytest.fixture
def without_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downsets, "STEP", 0.0)


def all_downsets(problem: Problem) -> Iterator[Flags]:
    """Every downset but the empty one, by trying all sets of nodes."""
    n = len(problem.node_time)
    needed = [set(problem.producer[inputs_of(problem, node)].tolist()) for node in range(n)]
    for chosen in itertools.product((False, True), repeat=n):
        if any(chosen) and all(chosen[other] for node in range(n) if chosen[node] for other in needed[node]):
            yield np.array(chosen)


def last_of(downset: Flags, events: Ints) -> int:
    """The node of the downset that a schedule is last to compute for the first time."""
    computed: list[int] = []
    for event in events.tolist():
        if event < len(downset) and downset[event] and event not in computed:
            computed.append(event)
    return computed[-1]


@pytest.mark.usefixtures("without_steps")
@pytest.mark.parametrize("in_place", [False, True])
def test_never_more_than_the_least_energy(in_place: bool) -> None:
    raised = exact = 0
    for seed in range(80):
        problem, least_j = solved(seed, random_in_place_graph(seed)) if in_place else solved_problem(seed)
        bound_j = search_downsets(problem, 10 * store_all_j(problem), UNLIMITED)
        assert store_all_j(problem) <= bound_j <= least_j * (1 + 1e-9), seed
        if least_j < math.inf:
            raised += bound_j > store_all_j(problem) * (1 + 1e-6)
            exact += bound_j > max(least_j * (1 - 1e-6), store_all_j(problem) * (1 + 1e-6))
    assert raised > exact > 0


def test_no_schedule_restores_less_than_its_last_node_proves() -> None:
    raised = 0
    for seed in range(40):
        problem = build_problem(either_graph(seed), int(0.8 * store_all_schedule(either_graph(seed)).peak_bytes), None)
        moment = LastNode(problem, store_all_j(problem))
        for events in schedules(problem, 1):
            schedule = evaluated(problem, events)
            assert schedule is not None
            for downset in all_downsets(problem):
                node = last_of(downset, events)
                assert moment.is_last(node, downset)
                restored_j = moment.restored_j(downset, node, UNLIMITED)
                assert restored_j <= schedule.energy - store_all_j(problem) + 1e-9, seed
                raised += restored_j > 0
    assert raised > 30


@pytest.mark.usefixtures("without_steps")
def test_no_downset_proves_more_than_the_one_that_is_found() -> None:
    raised = 0
    for seed in range(20):
        problem, _ = solved_problem(seed)
        moment = LastNode(problem, store_all_j(problem))
        best_j = 0.0
        for downset in all_downsets(problem):
            last = [node for node in range(len(downset)) if moment.is_last(node, downset)]
            best_j = max(best_j, min(moment.restored_j(downset, node, UNLIMITED) for node in last))
        bound_j = search_downsets(problem, 10 * store_all_j(problem), UNLIMITED)
        assert math.isclose(bound_j, store_all_j(problem) + best_j, rel_tol=1e-9), seed
        raised += 0 < best_j < math.inf
    assert raised > 5


@pytest.mark.parametrize(("ram", "least_overhead"), [("60%", 0.045), ("90%", 0.005)])
def test_a_large_graph_is_bounded_below_the_best_energy_ever_found(ram: str, least_overhead: float) -> None:
    instance = Instance("layered", "500-narrow", ram, "none", False)
    problem = load_problem(instance)
    with RESULTS.open(newline="") as file:
        same = [row for row in csv.DictReader(file) if (row["graph"], row["ram"]) == (instance.graph, ram)]
    found_j = min(float(row["energy_j"]) for row in same)
    bound_j = search_downsets(problem, found_j - store_all_j(problem), UNLIMITED)
    assert store_all_j(problem) * (1 + least_overhead) < bound_j < found_j


def test_without_time_nothing_is_proven() -> None:
    problem, _ = solved_problem(0)
    assert search_downsets(problem, store_all_j(problem), TimeBudget(0.0)) == store_all_j(problem)
