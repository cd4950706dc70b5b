# SPDX-License-Identifier: Apache-2.0
"""Whether any schedule keeps a RAM budget and a deadline: search and proof again, with time in energy's place."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poet_planner.solve.instance import Problem
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.proof import Proof
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.incumbent import Incumbent
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statespace.astar import StateSpaceResult
from poet_planner.solve.statespace.retained_sets import search_retained_sets
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import TimeBudget

# The proof's cutoff is so much later than the deadline, and so is what it takes for the best schedule known.
LATER = 1e-5
GAP = 1e-6


@dataclass(frozen=True)
class Answer:
    """Whether there is a schedule: ``found``, one in time, or ``impossible``; neither: not known."""

    found: Incumbent | None
    impossible: bool


def clearly_late(problem: Problem, budget: TimeBudget, context: Context | None = None) -> bool:
    """Whether what may stay in RAM at the hungriest nodes shows at once that no schedule is in time."""
    context = context or Context()
    deadline = _deadline(problem, context)
    found = _retained(_asked(problem), deadline * (1 + LATER), budget, context)
    return found is not None and found.bound_j > deadline


def begin_with_retained_sets(
    problem: Problem,
    searches: Portfolio,
    budget: TimeBudget,
    cutoff_j: float = np.inf,
    context: Context | None = None,
) -> float:
    """Begin with the cheapest path from one bottleneck node to the next, where little more fits than these take.

    It may need more RAM than there is; ``searches`` keep what it is repaired to.

    Parameters
    ----------
    cutoff_j : float
        A path that takes as much energy is not looked for.

    Returns
    -------
    float
        A lower bound, up to ``cutoff_j``, in joules.
    """
    context = context or Context()
    found = _retained(problem, cutoff_j, budget, context)
    if found is None:
        return float(problem.node_energy.sum())
    if found.events is not None:
        with context.timed(Part.RETAINED_SETS):
            searches.repair(found.events, budget, Part.RETAINED_SETS)
    return found.bound_j


def _retained(problem: Problem, cutoff_j: float, budget: TimeBudget, context: Context) -> StateSpaceResult | None:
    """What the sets that may stay in RAM at the bottleneck nodes tell (see `search_retained_sets`), if anything."""
    if not context.has(Part.RETAINED_SETS):
        return None
    with context.timed(Part.RETAINED_SETS):
        separate = not context.has(Part.AGGREGATION)
        return search_retained_sets(problem, cutoff_j, budget, separate, context.params.retained_sets)


def soon_in_time(problem: Problem, seed: int, budget: TimeBudget, context: Context) -> Answer:
    """Look for a schedule within RAM and deadline for a short while.

    That there is none, only what may stay in RAM at the hungriest nodes shows so soon.
    """
    searches = _InTime(problem, seed, None, context)
    searches.look(budget)
    return searches.answer


def in_time(
    problem: Problem,
    start: Incumbent,
    seed: int,
    solver: Solver,
    budget: TimeBudget,
    context: Context | None = None,
) -> Answer:
    """Look for a schedule within RAM and deadline, and for a proof that there is none.

    Beside compute, transfers take no time of their own: then only computing counts in the proof.

    Parameters
    ----------
    start : Incumbent
        A schedule that needs more RAM, from which to search.
    context : Context or None
        As in `Annealer`.
    """
    context = context or Context()
    searches = _InTime(problem, seed, start, context)
    searches.look(budget)
    proof = Proof(_asked(problem), searches, solver, GAP, seed, lean=True, context=context)

    def raise_bound() -> None:
        searches.bound_s = max(searches.bound_s, proof.bound_j)

    left = budget.until(lambda: not searches.is_open)
    if not left.expired:
        proof.run(left.noting(raise_bound))
        raise_bound()
    return searches.answer


def timed(problem: Problem) -> Problem:
    """``problem`` with time in energy's place, and no deadline."""
    return problem._replace(
        node_energy=problem.node_time,
        in_energy=problem.in_time,
        out_energy=problem.out_time,
        deadline=np.inf,
    )


def _asked(problem: Problem) -> Problem:
    """What is searched and bounded: beside compute, transfers cost nothing, and the deadline stays."""
    if not problem.dma:
        return timed(problem)
    nothing = np.zeros(len(problem.size))
    return timed(problem)._replace(in_energy=nothing, out_energy=nothing, deadline=problem.deadline)


def _deadline(problem: Problem, context: Context) -> float:
    return min(problem.deadline, context.params.feasibility.longest * float(problem.node_time.sum()))


class _InTime(Portfolio):
    """Searches that take the schedule they are given for one just late, until they find another in time.

    Attributes
    ----------
    bound_s : float
        No schedule takes less.
    """

    def __init__(self, problem: Problem, seed: int, start: Incumbent | None, context: Context) -> None:
        super().__init__(_asked(problem), seed, context=context)
        self.bound_s = float(problem.node_time.sum())
        self._deadline = _deadline(problem, context)
        self._moves = int(context.params.feasibility.search_s * moves_per_second(problem))
        self._late = start and replace(start, energy=self._deadline * (1 + LATER))

    @property
    def answer(self) -> Answer:
        return Answer(self._in_time, self._in_time is None and self.bound_s > self._deadline)

    @property
    def is_open(self) -> bool:
        """Whether there is neither a schedule nor a proof that there is none."""
        return self._in_time is None and self.bound_s <= self._deadline

    @property
    def incumbent(self) -> Incumbent | None:
        return self._in_time or self._late

    def look(self, budget: TimeBudget) -> None:
        """Search for a short while, or until the question is settled."""
        budget = budget.until(lambda: not self.is_open)
        late = self._deadline * (1 + LATER)
        self.bound_s = max(self.bound_s, begin_with_retained_sets(self._problem, self, budget, late, self._context))
        if not budget.expired:
            self.run(self._moves, budget)

    @property
    def _in_time(self) -> Incumbent | None:
        """A schedule within RAM and deadline."""
        best = super().incumbent
        return best if best is not None and best.time <= self._deadline else None
