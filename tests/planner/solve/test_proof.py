# SPDX-License-Identifier: Apache-2.0
"""The proof and the search in the background."""

from __future__ import annotations

import math

import numpy as np
import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions, Statistics, bounding, optimise, proof
from poet_planner.solve.instance import Ints, Problem, build_problem
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.proof import Proof
from poet_planner.solve.search.eviction import by_eviction
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.search.portfolio import BackgroundWorker, Portfolio
from poet_planner.solve.statistics import Component, Context, Parts
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget
from poet_profiles.schedule import Status

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.late_chain import DEADLINE_S, RAM_BYTES, late_chain
from tests.support.graphs.solved_problems import solved_problem, store_all_j

FEW_MOVES = 200
BACKGROUND_S = 0.5


def test_an_interrupt_keeps_what_background_annealers_have_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(BackgroundWorker):
        def wait(self, budget: TimeBudget = UNLIMITED) -> None:
            super().wait()
            raise KeyboardInterrupt

    monkeypatch.setattr(proof, "BackgroundWorker", Interrupted)
    graph = layered_graph(60, 10, 0)
    problem = build_problem(graph, int(0.6 * store_all_schedule(graph).peak_bytes), None)
    portfolio = Portfolio(problem, 0)
    portfolio.run(FEW_MOVES)
    assert portfolio.incumbent is not None
    before_j = portfolio.incumbent.energy

    monkeypatch.setattr(proof, "BACKGROUND_S", BACKGROUND_S)
    interrupted = Proof(problem, portfolio, solver_named("highs"), 1e-6, 0)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run(TimeBudget(60.0))

    assert portfolio.incumbent.energy == before_j
    assert interrupted.found[0].energy < before_j


class Stuck(Portfolio):
    """A portfolio that knows one poor schedule alone: a good one would hide a bound that is too high."""

    def __init__(self, problem: Problem, known: Incumbent) -> None:
        super().__init__(problem, 0)
        self._known = known

    @property
    def incumbent(self) -> Incumbent:
        return self._known

    @property
    def found(self) -> list[Incumbent]:
        return [self._known]

    def adopt(self, events: Ints, source: Component | None = None) -> bool:
        return False

    def refine(self, moves: int, budget: TimeBudget = UNLIMITED) -> None:
        pass

    def run(self, moves: int, budget: TimeBudget = UNLIMITED, enough: TimeBudget = UNLIMITED) -> None:
        pass


def most_expensive(problem: Problem, least_j: float) -> Incumbent | None:
    """Of some schedules made by eviction; None if none of them is far above the least energy."""
    made = by_eviction(problem, np.arange(len(problem.node_time)), np.random.default_rng(0), 32)
    found = max((one for one in made if one is not None), key=lambda one: one.energy, default=None)
    far_j = least_j + 0.5 * (least_j - store_all_j(problem))
    return found if found is not None and found.energy > far_j else None


@pytest.mark.parametrize("fifty", range(3))
@pytest.mark.parametrize(("state_space", "minimal"), [(True, False), (False, False), (False, True)])
def test_no_part_of_the_proof_bounds_above_the_least_energy(
    fifty: int, state_space: bool, minimal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounding, "LARGE", 1)
    parts = Parts(background_search=False, retained_sets=state_space, state_space=state_space)
    proven = 0
    for seed in range(50 * fifty, 50 * fifty + 50):
        problem, least = solved_problem(seed)
        if math.isinf(least) or (known := most_expensive(problem, least)) is None:
            continue
        proving = Proof(problem, Stuck(problem, known), solver_named("highs"), 1e-6, 0, minimal, Context(parts))
        proving.bound_large_graph(TimeBudget(60.0))
        proving.run(TimeBudget(60.0))
        assert store_all_j(problem) <= proving.bound_j <= least * (1 + 1e-9), seed
        proven += proving.bound_j >= least * (1 - 1e-6)
    assert proven >= 5


def test_a_tiny_graph_is_proven_before_it_is_searched_again() -> None:
    """In less work than a search beside the first step of the proof would take by itself, as it did."""
    statistics = Statistics()
    options = OptimiseOptions(time_limit_s=4.0, capped=False, statistics=statistics)
    schedule = optimise(late_chain(), RAM_BYTES, DEADLINE_S, options)
    assert (schedule.energy_j, schedule.status) == (24.0, Status.OPTIMAL)  # by brute force: test_poet_ilp.py
    assert statistics.of(Component.BACKGROUND_SEARCH).calls == 0
