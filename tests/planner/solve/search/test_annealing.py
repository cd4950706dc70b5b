# SPDX-License-Identifier: Apache-2.0
"""The annealing itself: an energy cap holds, and the best schedule under it keeps all limits."""

from __future__ import annotations

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search import annealer, annealing
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.delta_evaluation import new_delta_evaluation
from poet_planner.solve.search.evaluation import new_workspace
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.statistics import Context, Parts

from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import random_graph

MOVES = 4000


@pytest.fixture(params=[None, 1.2], ids=["no deadline", "1.2x"])
def problem(request: pytest.FixtureRequest) -> Problem:
    graph, plain = paper_graph("resnet18_cifar.m4")
    deadline_s = None if request.param is None else request.param * plain.time_s
    return build_problem(graph, int(0.5 * plain.peak_bytes), deadline_s)


def energies(problem: Problem, known: Incumbent, energy_cap: float) -> tuple[annealing.State, list[float]]:
    """After each of many moves from ``known``, so hot that energy hardly counts."""
    work, other = (new_workspace(problem, np.array([7], dtype=np.uint64)) for _ in range(2))
    delta, spare = new_delta_evaluation(problem), new_delta_evaluation(problem)
    state = annealing.new_state(len(work.candidate))
    assert annealing.start_from(problem, work, state, known.events, len(known.events))
    figures = state.figures
    figures[annealing.ENERGY_CAP] = energy_cap
    figures[annealing.TEMPERATURE] = problem.node_energy.sum()
    figures[annealing.COOLING_FACTOR] = 1.0
    figures[annealing.PER_BYTE] = problem.node_energy.sum() / problem.budget
    figures[annealing.PER_SECOND] = problem.node_energy.sum() / problem.node_time.sum()
    energies_j = []
    for _ in range(MOVES):
        annealing.anneal(problem, work, other, delta, spare, state, 1)
        energies_j.append(float(figures[annealing.ENERGY]))
    return state, energies_j


def poor_schedule(problem: Problem) -> Incumbent:
    search = Annealer(problem, 0)
    search.run(2000)
    assert search.incumbent is not None
    return search.incumbent


def test_no_move_ends_above_the_energy_cap(problem: Problem) -> None:
    known = poor_schedule(problem)
    energy_cap = known.energy * (1 - 1e-9)
    state, energies_j = energies(problem, known, energy_cap)
    assert all(
        after <= max(before, energy_cap) for before, after in zip([known.energy, *energies_j], energies_j, strict=False)
    )
    # Under the cap every move is accepted: the energy goes up and down, far above that of a search.
    assert min(energies_j) < max(energies_j[-1000:]) < energy_cap
    best = evaluated(problem, state.best[: state.lengths[annealing.BEST_LENGTH]])
    assert best is not None
    assert best.energy == pytest.approx(float(state.figures[annealing.BEST]), rel=1e-12)
    assert best.peak <= problem.budget
    assert best.time <= problem.deadline
    assert best.energy == pytest.approx(known.energy, rel=1e-12) or best.energy < energy_cap


def test_without_an_energy_cap_moves_do_end_above(problem: Problem) -> None:
    known = poor_schedule(problem)
    _, energies_j = energies(problem, known, np.inf)
    assert max(energies_j) > known.energy


def test_a_search_improves_the_schedule_that_it_adopts(problem: Problem) -> None:
    known = poor_schedule(problem)
    search = Annealer(problem, 5)
    search.adopt(known.events)
    search.run(100_000)
    found, alone = search.incumbent, Annealer(problem, 5)
    alone.run(100_000)
    assert found is not None and alone.incumbent is not None
    store_all_j = float(problem.node_energy.sum())
    assert found.energy < known.energy
    # Its overhead is at most a tenth larger than that of a search from the store-all schedule.
    assert found.energy - store_all_j < 1.1 * (alone.incumbent.energy - store_all_j)


def test_annealing_that_never_cools_finds_nothing_good(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(2, 30)
    problem = build_problem(graph, int(0.6 * store_all_schedule(graph).peak_bytes), None)
    energy_j = []
    never = {"HOT": 1e6, "WARM": 1e6, "COLD": 1e5, "START_HOT": (1e6,), "START_COLD": 1e5, "CYCLES": 1}
    for temperatures in ({}, never):
        for name, value in temperatures.items():
            monkeypatch.setattr(annealer, name, value)
        search = Annealer(problem, 0, context=Context(Parts(eviction=False, energy_cap=False)))
        search.run(60_000)
        energy_j.append(np.inf if search.incumbent is None else search.incumbent.energy)
    assert energy_j[0] < energy_j[1]
