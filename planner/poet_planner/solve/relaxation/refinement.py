# SPDX-License-Identifier: Apache-2.0
"""One step of the refinement: the relaxation at one set of event points, solved to its optimum.

A search of the relaxation finds a solution of energy Z, the cutoff. LP and MILP then prove a bound of at most Z. See
docs/optimiser/relaxation.md, "Refinement".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.milp.linear_model import LinearModel
from poet_planner.solve.milp.pyomo_model import MilpResult, seconds_to_state, solve_milp
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.relaxation.branching import explore
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.cutting_planes import Branch, LpRelaxation
from poet_planner.solve.relaxation.event_points import most_overflowing
from poet_planner.solve.relaxation.model import about_entries, build_relaxation, events_of, seconds_to_state_lp
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, measured
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import OnProgress, TimeBudget

LITTLE = 0.01  # Benders cuts are left out if less lies beyond the optimum: fraction of the bound's gap
FIRST_STEP = 0.1  # first step of the cutoff beyond the optimum, doubled each time: fraction of the bound's gap
MOST_SOLUTIONS = 3  # best solutions of a MILP that Benders cuts are looked for at
LP_SAFETY = 1e-3  # subtracted from each bound: units of the model
# Coefficients of what is solved at all: they take some 300 bytes each in an LP, 750 in a MILP.
MOST_LP_ENTRIES = 1_500_000
MOST_MILP_ENTRIES = 500_000


@dataclass(frozen=True)
class LpState:
    """The LP with its cuts, and the undivided branch after its last solve. Both hold below one cutoff only."""

    lp: LpRelaxation
    whole: Branch


class RefinementStep:
    """The relaxation with the RAM limited at some event points.

    The optimum of the relaxation is at most that of the problem. The energy Z of the best solution that a search finds
    for the relaxation is the cutoff: it fixes most of the model's variables. The bound never exceeds Z.

    Parameters
    ----------
    event_points : (n,) flags of nodes on ``path``
    known : Incumbent
        The best schedule of the problem so far.
    conflicts : Conflicts
        Rows of the model; the search of the relaxation ignores them.
    gap : float
        As in `OptimiseOptions`.
    bound_j : float
        A lower bound known already, in joules.
    context : Context or None
        As in `Annealer`.

    Attributes
    ----------
    bound_j : float
        A lower bound on the energy of every schedule, in joules.
    raised_by : Part
        The part that raised it last.
    """

    def __init__(
        self,
        problem: Problem,
        path: Ints,
        event_points: Flags,
        known: Incumbent,
        conflicts: Conflicts,
        solver: Solver,
        gap: float,
        seed: int,
        bound_j: float,
        context: Context | None = None,
    ) -> None:
        self._problem = problem
        self._conflicts = conflicts
        self._solution: Ints | None = None
        self._path = path
        self._event_points = path[event_points[path]]
        self._known = known
        self._solver = solver
        self._gap = gap
        self._context = context or Context()
        self._params = self._context.params.relaxation
        within = self._context.within(Part.RELAXATION)
        self._search = Portfolio(problem._replace(is_event_point=event_points), seed, context=within)
        # The cutoff of `prove_beyond`; None before.
        self._beyond_j: float | None = None
        # The LP that `most_overflowing` has solved; `prove` goes on from there.
        self._lp_state: LpState | None = None
        self._store_all_j = float(problem.node_energy.sum())
        self._scale = 1.0
        self.bound_j = bound_j
        self.raised_by = Part.RELAXATION

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
        moves = int(self._params.search_s * moves_per_second(self._problem))
        self._search.run(moves, budget.share(self._params.search_share))

    def most_overflowing(self, budget: TimeBudget) -> int | None:
        """The node of the path at whose first compute the LP point overflows the RAM most; None: nowhere."""
        if not self.can_be_solved(budget):
            return None
        self._lp_state = state = self._solved_lp(budget)
        return most_overflowing(self._problem, self._path, state.lp.relaxation.columns, state.whole.point)

    def prove(self, budget: TimeBudget) -> None:
        """Raise the bound until the relaxation is solved to its optimum or the time is up.

        Part of the time is kept for `prove_beyond`: the fraction `share_beyond`, but half at most.
        """
        start, self._lp_state = self._lp_state, None
        for_this = budget.share(1.0 - min(self._params.most_beyond, self.share_beyond))
        self._solve_relaxation(for_this, with_stage_cuts=self.share_beyond > LITTLE, start=start)

    def prove_beyond(self, budget: TimeBudget) -> None:
        """Raise the bound above Z: Benders cuts count the RAM between the event points, too.

        The cutoff rises in steps to U. A lower cutoff fixes more variables, so the MILP ends sooner. Each step states
        the model anew, because fixings and cuts hold below their cutoff only.
        """
        self._context = self._context.within(Part.STAGE_CUTS)
        share = FIRST_STEP
        solved = True
        while solved and not self._reached(self.incumbent_j) and not budget.expired:
            self._beyond_j = self.bound_j + min(share, 1.0) * (self.incumbent_j - self.bound_j)
            share *= 2
            solved = self._solve_relaxation(budget, with_stage_cuts=True)

    def _solve_relaxation(self, budget: TimeBudget, *, with_stage_cuts: bool, start: LpState | None = None) -> bool:
        """Raise the bound to the cutoff; whether that is reached.

        With Benders cuts, solutions of the MILP may be cut off. Then it is solved again.

        Parameters
        ----------
        start : LpState, optional
            The LP to go on from, of the same cutoff.
        """
        if start is None and not self.can_be_solved(budget):
            return False
        state = start or self._solved_lp(budget)
        lp, whole = state.lp, state.whole
        if (
            self._beyond_j is None
            and whole.bound < self._cutoff()
            and self._follow(events_of(self._problem, lp.relaxation, whole.point), budget)
        ):
            whole = self._with_cuts(lp, whole, budget)
        cut_off = True
        while cut_off and not self._reached(self._limit_j):
            if with_stage_cuts:
                whole = self._with_cuts(lp, whole, budget, with_stage_cuts=True)
            branches = self._branches(lp, whole, budget.share(self._params.lp_share))
            points = self._solve_branches(lp, branches, budget)
            cut_off = False
            for point in points if with_stage_cuts else []:
                cut_off |= lp.cut_off(whole.upper, point, self._cutoff, budget)
        return self._reached(self._limit_j)

    def _solved_lp(self, budget: TimeBudget) -> LpState:
        """The LP relaxation below the cutoff, with cuts."""
        relaxed = build_relaxation(self._problem, self._event_points, self._limit_j, self._conflicts)
        self._scale = relaxed.scale
        lp = LpRelaxation(self._problem, relaxed, self._context)
        return LpState(lp, self._with_cuts(lp, lp.whole(), budget))

    def _with_cuts(self, lp: LpRelaxation, branch: Branch, budget: TimeBudget, with_stage_cuts: bool = False) -> Branch:
        def on_progress(bound: float, _cutoff: float) -> None:
            self._raise(bound, lp.most_cuts_of)

        share = budget.share(self._params.lp_share)
        return lp.add_cuts(branch, self._cutoff, share, self._params.patience, on_progress, with_stage_cuts)

    def _reached(self, energy_j: float) -> bool:
        return self.bound_j >= energy_j * (1 - self._gap)

    def _branches(self, lp: LpRelaxation, whole: Branch, budget: TimeBudget) -> list[Branch]:
        """Branches of ``whole`` if they close much of the gap; otherwise the MILP solver gets ``whole`` undivided."""
        if not self._context.has(Part.BRANCHING):
            return [whole]

        def on_progress(bound: float, _cutoff: float) -> None:
            self._raise(bound, Part.BRANCHING)

        with self._context.timed(Part.BRANCHING):
            branches = explore(lp, whole, self._cutoff, budget, on_progress)
        lowest = min([branch.bound for branch in branches], default=np.inf)
        gap = self._cutoff() - whole.bound
        return branches if lowest - whole.bound > self._params.branching_gain * gap else [whole]

    def _solve_branches(self, lp: LpRelaxation, branches: list[Branch], budget: TimeBudget) -> list[Floats]:
        """Raise the bound to the least over all branches, one MILP after the other; return solutions of the MILPs.

        The branch with the lowest bound decides, so it comes last and gets the time that the others leave.
        """
        branches = branches[::-1]
        bounds = [branch.bound for branch in branches]
        points: list[Floats] = []
        for k, branch in enumerate(branches):
            if branch.bound >= self._cutoff() or not self._context.has(Part.MILP):
                continue
            model = lp.model(branch)
            entries = len(model.columns)
            if entries > MOST_MILP_ENTRIES or budget.left() < seconds_to_state(entries):
                return points
            others = min(bounds[:k] + bounds[k + 1 :], default=np.inf)

            def on_progress(bound: float, _incumbent: float, others: float = others) -> None:
                self._raise(min(bound, others), Part.MILP)

            answer = self._milp(model, budget.share(1 / (len(branches) - k)), on_progress)
            bounds[k] = max(bounds[k], self._cutoff() if answer.status.has_no_solution else answer.bound)
            points += answer.solutions[-MOST_SOLUTIONS:]
            for point in answer.solutions[-1:]:
                self._adopt(events_of(self._problem, lp.relaxation, point))
        self._raise(min(bounds, default=np.inf), Part.MILP)
        return points

    def _milp(self, model: LinearModel, budget: TimeBudget, on_progress: OnProgress) -> MilpResult:
        """Solve the MILP of one branch."""
        # In units of the model, in which the store-all schedule costs SCALE.
        absolute_gap = max(1e-6, 0.05 * self._gap * self._limit_j * self._scale)
        with self._context.timed(Part.MILP):
            return solve_milp(model, self._solver, budget, absolute_gap, self._cutoff(), on_progress)

    def _adopt(self, events: Ints) -> None:
        """Let the search go on from a solution of the MILP, if its events can be evaluated."""
        self._search.adopt(events)
        if measured(self._problem, events) is not None:
            self._solution = events

    def _best(self) -> Incumbent:
        found = self._search.incumbent
        return self._known if found is None or found.energy > self._known.energy else found

    @property
    def _limit_j(self) -> float:
        """The cutoff in joules: nothing that costs more is looked for."""
        return self.relaxation_optimum_j if self._beyond_j is None else self._beyond_j

    def _cutoff(self) -> float:
        """The cutoff in units of the model."""
        return (self._limit_j * (1 - 0.9 * self._gap) - self._store_all_j) * self._scale

    def _raise(self, bound: float, part: Part) -> None:
        bound = min(bound, self._cutoff())
        bound_j = self._store_all_j + (bound - LP_SAFETY) / self._scale
        if np.isfinite(bound) and bound_j > self.bound_j:
            self.bound_j = bound_j
            self.raised_by = self._context.credited(part)

    def _follow(self, events: Ints, budget: TimeBudget) -> bool:
        """Search on from the events of an LP point; whether that found anything better."""
        before_j = self.relaxation_optimum_j
        if self._search.adopt(events):
            self._search.refine(int(self._params.refine_s * moves_per_second(self._problem)), budget)
        return self.relaxation_optimum_j < before_j
