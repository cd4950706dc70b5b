# SPDX-License-Identifier: Apache-2.0
"""One step of the refinement: the relaxation at one set of event points, solved to its optimum.

A search of the relaxation finds a solution of energy Z, the cutoff. LP and MILP then prove a bound of at most Z. See
docs/optimiser/relaxation.md, "Refinement".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem
from poet_planner.solve.milp.failure import put_down
from poet_planner.solve.milp.linear_model import LP_SAFETY, LinearModel
from poet_planner.solve.milp.pyomo_model import seconds_to_state
from poet_planner.solve.milp.solvers import NOTHING, MilpResult, Solver
from poet_planner.solve.relaxation.cutting_planes import LpRelaxation
from poet_planner.solve.relaxation.event_points import most_overflowing
from poet_planner.solve.relaxation.model import about_entries, build_relaxation, events_of, seconds_to_state_lp
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import OnProgress, TimeBudget

# Coefficients of what is solved at all: they take some 300 bytes each in an LP, 750 in a MILP.
MOST_LP_ENTRIES = 1_500_000
MOST_MILP_ENTRIES = 500_000
SEARCH_S = 0.5  # effort of the search for solutions: reference seconds
SEARCH_SHARE = 0.1  # the same at most: fraction of the work left
REFINE_S = 0.3  # effort of the search from an LP solution: reference seconds
LP_SHARE = 0.6  # LP with cuts: fraction of the work left


class RefinementStep:
    """The relaxation with the RAM limited at some event points.

    The optimum of the relaxation is at most that of the problem. The energy Z of the best solution that a search finds
    for the relaxation is the cutoff: it fixes most of the model's variables. The bound never exceeds Z.

    Parameters
    ----------
    event_points : (n,) flags of nodes on ``path``
    known : Incumbent
        The best schedule of the problem so far.
    gap : float
        As in `OptimiseOptions`.
    bound_j : float
        A lower bound known already, in joules.
    context : Context or None
        As in `Annealer`.
    """

    def __init__(
        self,
        problem: Problem,
        path: Ints,
        event_points: Flags,
        known: Incumbent,
        solver: Solver,
        gap: float,
        seed: int,
        bound_j: float,
        context: Context | None = None,
    ) -> None:
        self._problem = problem
        self._solution: Ints | None = None
        self._path = path
        self._event_points = path[event_points[path]]
        self._known = known
        self._solver = solver
        self._gap = gap
        self._context = context or Context()
        within = self._context.within(Component.RELAXATION)
        self._search = Portfolio(replace(problem, is_event_point=event_points), seed, context=within)
        # What `most_overflowing` has solved; `prove` goes on from there.
        self._lp: LpRelaxation | None = None
        self._store_all_j = float(problem.node_energy.sum())
        self._scale = 1.0
        self.bound_j = bound_j  # a lower bound on the energy of every schedule, in joules
        self.raised_by = Component.RELAXATION  # the part that raised it last

    @property
    def events(self) -> Ints:
        """The best solution known of the relaxation, as events (see `evaluation`)."""
        return self._best().events if self._solution is None else self._solution

    @property
    def relaxation_optimum_j(self) -> float:
        """Z: energy of the best solution known of the relaxation, in joules. Usually this is its optimum."""
        return self._best().energy

    @property
    def incumbent_j(self) -> float:
        """U: energy of the best schedule known at first, in joules."""
        return self._known.energy

    @property
    def share_beyond(self) -> float:
        """Fraction of the bound's gap that lies between Z and U: `prove` cannot close it."""
        gap_j = self.incumbent_j - self.bound_j
        return (self.incumbent_j - self.relaxation_optimum_j) / gap_j if gap_j > 0 else 0.0

    @property
    def undercuts(self) -> bool:
        """Whether Z < U: the relaxation has a solution that need not be a schedule of the problem."""
        return self.relaxation_optimum_j < self.incumbent_j * (1 - self._gap)

    def can_be_solved(self, budget: TimeBudget) -> bool:
        """Whether there is time and memory for its LP."""
        entries = about_entries(self._problem, len(self._event_points))
        return entries <= MOST_LP_ENTRIES and seconds_to_state_lp(entries) < budget.left()

    def search(self, start: Ints, budget: TimeBudget) -> None:
        """Look for good solutions of the relaxation, from the events ``start`` and from the store-all schedule."""
        self._search.adopt(start)
        moves = int(SEARCH_S * moves_per_second(self._problem))
        self._search.run(moves, budget.share(SEARCH_SHARE))

    def most_overflowing(self, budget: TimeBudget) -> int | None:
        """The node of the path at whose first compute the LP point overflows the RAM most; None: nowhere."""
        if not self.can_be_solved(budget):
            return None
        self._lp = self._solved_lp(budget)
        return most_overflowing(self._problem, self._path, self._lp.relaxation.columns, self._lp.point)

    def prove(self, budget: TimeBudget) -> None:
        """Raise the bound until the relaxation is solved to its optimum or the time is up."""
        if self._lp is None and not self.can_be_solved(budget):
            return
        lp, self._lp = self._lp or self._solved_lp(budget), None
        if lp.bound < self._cutoff() and self._follow(events_of(self._problem, lp.relaxation, lp.point), budget):
            self._add_cuts(lp, budget)
        if lp.bound < self._cutoff() and self._context.has(Component.MILP):
            self._solve_milp(lp, budget)

    def _solved_lp(self, budget: TimeBudget) -> LpRelaxation:
        """The LP relaxation below the cutoff, with cuts."""
        relaxed = build_relaxation(self._problem, self._event_points, self.relaxation_optimum_j)
        budget.spend(seconds_to_state_lp(len(relaxed.model.columns)))
        self._scale = relaxed.scale
        lp = LpRelaxation(self._problem, relaxed, self._context)
        self._add_cuts(lp, budget)
        return lp

    def _add_cuts(self, lp: LpRelaxation, budget: TimeBudget) -> None:
        def on_progress(bound: float, _cutoff: float) -> None:
            self._raise(bound, lp.most_cuts_of)

        lp.add_cuts(self._cutoff, budget.share(LP_SHARE), on_progress)

    def _solve_milp(self, lp: LpRelaxation, budget: TimeBudget) -> None:
        """Raise the bound by a MILP solver, and search on from its solution."""
        model = lp.model()
        entries = len(model.columns)
        if entries > MOST_MILP_ENTRIES or budget.left() < seconds_to_state(entries):
            return

        def on_progress(bound: float, _incumbent: float) -> None:
            self._raise(bound, Component.MILP)

        budget.spend(seconds_to_state(entries))
        answer = NOTHING
        with put_down(self._context.statistics):
            answer = self._milp(model, budget, on_progress)
        for point in answer.solutions[-1:]:
            self._adopt(events_of(self._problem, lp.relaxation, point))
        self._raise(self._cutoff() if answer.status.has_no_solution else answer.bound, Component.MILP)

    def _milp(self, model: LinearModel, budget: TimeBudget, on_progress: OnProgress) -> MilpResult:
        # In units of the model, in which the store-all schedule costs SCALE.
        absolute_gap = max(1e-6, 0.05 * self._gap * self.relaxation_optimum_j * self._scale)
        with self._context.timed(Component.MILP):
            return self._solver.solve_linear(model, budget, absolute_gap, self._cutoff(), on_progress)

    def _adopt(self, events: Ints) -> None:
        """Let the search go on from a solution of the MILP, if its events can be evaluated."""
        self._search.adopt(events)
        if evaluated(self._problem, events) is not None:
            self._solution = events

    def _best(self) -> Incumbent:
        found = self._search.incumbent
        return self._known if found is None or found.energy > self._known.energy else found

    def _cutoff(self) -> float:
        """The cutoff in units of the model."""
        return (self.relaxation_optimum_j * (1 - 0.9 * self._gap) - self._store_all_j) * self._scale

    def _raise(self, bound: float, part: Component) -> None:
        bound = min(bound, self._cutoff())
        bound_j = self._store_all_j + (bound - LP_SAFETY) / self._scale
        if np.isfinite(bound) and bound_j > self.bound_j:
            self.bound_j = bound_j
            self.raised_by = self._context.credited(part)

    def _follow(self, events: Ints, budget: TimeBudget) -> bool:
        """Search on from the events of an LP point; whether that found anything better."""
        before_j = self.relaxation_optimum_j
        if self._search.adopt(events):
            self._search.refine(int(REFINE_S * moves_per_second(self._problem)), budget)
        return self.relaxation_optimum_j < before_j
