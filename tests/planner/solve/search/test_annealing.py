# SPDX-License-Identifier: Apache-2.0
"""The annealing itself: what a ceiling forbids, and that what is best below it is a schedule within all limits."""

from __future__ import annotations

import numpy as np
import pytest
from poet_planner.solve.instance import Problem, build_problem
from poet_planner.solve.search.annealer import Search
from poet_planner.solve.search.annealing import (
    BEST,
    BEST_LENGTH,
    CEILING,
    COOLING,
    ENERGY,
    PER_BYTE,
    PER_SECOND,
    TEMPERATURE,
    State,
    anneal,
    new_state,
    start_from,
)
from poet_planner.solve.search.delta_evaluation import new_trial
from poet_planner.solve.search.evaluation import new_workspace
from poet_planner.solve.search.incumbent import Incumbent, measured
from poet_planner.solve.search.moves import COMPUTE_TRIES

from tests.support.graphs.paper_graphs import paper_graph

MOVES = 4000


@pytest.fixture(params=[None, 1.2], ids=["no deadline", "1.2x"])
def problem(request: pytest.FixtureRequest) -> Problem:
    graph, plain = paper_graph("resnet18_cifar.m4")
    deadline_s = None if request.param is None else request.param * plain.time_s
    return build_problem(graph, int(0.5 * plain.peak_bytes), deadline_s)


def energies(problem: Problem, known: Incumbent, ceiling: float) -> tuple[State, list[float]]:
    """After each of many moves from ``known``, so hot that energy hardly counts."""
    work, other = (new_workspace(problem, np.array([7], dtype=np.uint64), COMPUTE_TRIES) for _ in range(2))
    trial, spare = new_trial(problem), new_trial(problem)
    state = new_state(len(work.candidate))
    assert start_from(problem, work, state, known.events, len(known.events))
    figures = state.figures
    figures[CEILING] = ceiling
    figures[TEMPERATURE] = problem.node_energy.sum()
    figures[COOLING] = 1.0
    figures[PER_BYTE] = problem.node_energy.sum() / problem.budget
    figures[PER_SECOND] = problem.node_energy.sum() / problem.node_time.sum()
    heard = []
    for _ in range(MOVES):
        anneal(problem, work, other, trial, spare, state, 1)
        heard.append(float(figures[ENERGY]))
    return state, heard


def poor_schedule(problem: Problem) -> Incumbent:
    search = Search(problem, 0)
    search.run(2000)
    assert search.incumbent is not None
    return search.incumbent


def test_no_move_ends_above_the_ceiling(problem: Problem) -> None:
    known = poor_schedule(problem)
    ceiling = known.energy * (1 - 1e-9)
    state, heard = energies(problem, known, ceiling)
    assert all(after <= max(before, ceiling) for before, after in zip([known.energy, *heard], heard, strict=False))
    # Below it all is free: it goes up and down, far above what a search ends with.
    assert min(heard) < max(heard[-1000:]) < ceiling
    best = measured(problem, state.best[: state.lengths[BEST_LENGTH]])
    assert best is not None
    assert best.energy == pytest.approx(float(state.figures[BEST]), rel=1e-12)
    assert best.peak <= problem.budget
    assert best.time <= problem.deadline
    assert best.energy == pytest.approx(known.energy, rel=1e-12) or best.energy < ceiling


def test_without_a_ceiling_moves_do_end_above(problem: Problem) -> None:
    known = poor_schedule(problem)
    _, heard = energies(problem, known, np.inf)
    assert max(heard) > known.energy


def test_a_search_goes_on_below_what_it_is_given(problem: Problem) -> None:
    known = poor_schedule(problem)
    search = Search(problem, 5)
    search.adopt(known.events)
    search.run(100_000)
    found, alone = search.incumbent, Search(problem, 5)
    alone.run(100_000)
    assert found is not None and alone.incumbent is not None
    plain_j = float(problem.node_energy.sum())
    assert found.energy < known.energy
    # No worse, in overhead, than what it finds from plain training by more than a tenth.
    assert found.energy - plain_j < 1.1 * (alone.incumbent.energy - plain_j)
