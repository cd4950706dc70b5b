# SPDX-License-Identifier: Apache-2.0
"""Whether a schedule exists within a RAM budget and a deadline: search and proof with time in the place of energy.

See docs/optimiser/feasibility.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poet_planner.solve.instance import Problem, busy_s
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.proof import Proof
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statespace.astar import StateSpaceResult
from poet_planner.solve.statespace.retained_sets import search_retained_sets
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import TimeBudget

SEARCH_S = 0.5  # effort of a search for a schedule in time: reference seconds
LONGEST = 1000.0  # without a deadline, the latest schedule that is looked for: in T0
LATER = 1e-5  # the cutoff lies this fraction above the deadline
GAP = 1e-6  # of the proof: relative


@dataclass(frozen=True)
class FeasibilityResult:
    """Whether there is a schedule. If neither field says so, it is not known."""

    schedule: Incumbent | None  # a schedule within RAM and deadline
    infeasible: bool  # whether it is proven that there is none


def clearly_late(problem: Problem, budget: TimeBudget, context: Context | None = None) -> bool:
    """Whether the retained sets already prove that no schedule is in time."""
    context = context or Context()
    deadline = _deadline(problem)
    found = _search_retained_sets(_time_problem(problem), deadline * (1 + LATER), budget, context)
    return found is not None and found.bound_j > deadline


def begin_with_retained_sets(
    problem: Problem,
    portfolio: Portfolio,
    budget: TimeBudget,
    cutoff_j: float = np.inf,
    context: Context | None = None,
) -> float:
    """Begin with a shortest path over retained sets, if the RAM barely exceeds the largest working set.

    It may need more RAM than there is. ``portfolio`` repair it and keep the result. A path that costs ``cutoff_j`` is
    not looked for; what is returned is a lower bound of up to that, in joules.
    """
    context = context or Context()
    found = _search_retained_sets(problem, cutoff_j, budget, context)
    if found is None:
        return float(problem.node_energy.sum())
    if found.events is not None:
        with context.timed(Component.RETAINED_SETS):
            portfolio.repair(found.events, budget, Component.RETAINED_SETS)
    return found.bound_j


def _search_retained_sets(
    problem: Problem, cutoff_j: float, budget: TimeBudget, context: Context
) -> StateSpaceResult | None:
    """`search_retained_sets`, if that part is switched on."""
    if not context.has(Component.RETAINED_SETS):
        return None
    with context.timed(Component.RETAINED_SETS):
        separate = not context.has(Component.AGGREGATION)
        return search_retained_sets(problem, cutoff_j, budget, separate)


def quick_feasibility(problem: Problem, seed: int, budget: TimeBudget, context: Context) -> FeasibilityResult:
    """Look for a schedule within RAM and deadline for a short while. Only the retained sets may prove infeasibility."""
    portfolio = _DeadlinePortfolio(problem, seed, None, context)
    portfolio.search(budget)
    return portfolio.result


def deadline_feasibility(
    problem: Problem,
    start: Incumbent,
    seed: int,
    solver: Solver,
    budget: TimeBudget,
    context: Context | None = None,
) -> FeasibilityResult:
    """Look for a schedule within RAM and deadline, and for a proof that there is none.

    With DMA, only the time of the CPU counts in the proof. The search starts from ``start``, a schedule that needs more
    RAM or is late.
    """
    context = context or Context()
    portfolio = _DeadlinePortfolio(problem, seed, start, context)
    portfolio.search(budget)
    proof = Proof(_time_problem(problem), portfolio, solver, GAP, seed, with_minimal_event_points=True, context=context)

    def raise_bound() -> None:
        portfolio.bound_s = max(portfolio.bound_s, proof.bound_j)

    left = budget.until(lambda: not portfolio.is_open)
    if not left.expired:
        proof.run(left.noting(raise_bound))
        raise_bound()
    return portfolio.result


def with_time_as_energy(problem: Problem) -> Problem:
    """``problem`` with time in the place of energy, and no deadline."""
    return replace(
        problem,
        node_energy=problem.node_time,
        in_energy=problem.in_time,
        out_energy=problem.out_time,
        deadline=np.inf,
    )


def _time_problem(problem: Problem) -> Problem:
    """The problem that is searched and bounded. With DMA, only the CPU's time costs, and the deadline stays."""
    if not problem.dma:
        return with_time_as_energy(problem)
    nothing = np.zeros(len(problem.size))
    return replace(
        with_time_as_energy(problem),
        node_energy=problem.node_time * problem.uses_cpu,
        in_energy=nothing,
        out_energy=nothing,
        deadline=problem.deadline,
    )


def _deadline(problem: Problem) -> float:
    """The deadline in seconds; if there is none, the longest time that is looked for."""
    return min(problem.deadline, LONGEST * float(problem.node_time.sum()))


class _DeadlinePortfolio(Portfolio):
    """A portfolio whose incumbent is the given schedule, as if it were just late, until one in time is found."""

    def __init__(self, problem: Problem, seed: int, start: Incumbent | None, context: Context) -> None:
        super().__init__(_time_problem(problem), seed, context=context)
        self.bound_s = busy_s(problem)  # a lower bound on the time of every schedule, in seconds
        self._deadline = _deadline(problem)
        self._moves = int(SEARCH_S * moves_per_second(problem))
        self._late = start and replace(start, energy=self._deadline * (1 + LATER))

    @property
    def result(self) -> FeasibilityResult:
        return FeasibilityResult(self._in_time, self._in_time is None and self.bound_s > self._deadline)

    @property
    def is_open(self) -> bool:
        """Whether there is neither a schedule nor a proof that there is none."""
        return self._in_time is None and self.bound_s <= self._deadline

    @property
    def incumbent(self) -> Incumbent | None:
        return self._in_time or self._late

    def search(self, budget: TimeBudget) -> None:
        """Search for a short while, or until it is known whether there is a schedule."""
        budget = budget.until(lambda: not self.is_open)
        self.begin_with_orders(budget)
        late = self._deadline * (1 + LATER)
        self.bound_s = max(self.bound_s, begin_with_retained_sets(self._problem, self, budget, late, self._context))
        if not budget.expired:
            self.run(self._moves, budget)

    @property
    def _in_time(self) -> Incumbent | None:
        """A schedule within RAM and deadline."""
        best = super().incumbent
        return best if best is not None and best.time <= self._deadline else None
