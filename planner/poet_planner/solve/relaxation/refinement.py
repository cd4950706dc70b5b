# SPDX-License-Identifier: Apache-2.0
"""One relaxation, settled: its own search says what is worth looking for, its LP and its MILP prove the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.milp.linear_model import LinearModel
from poet_planner.solve.milp.pyomo_model import Answer, seconds_to_state, solve_milp
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.relaxation.branching import explore
from poet_planner.solve.relaxation.conflicts import Conflicts
from poet_planner.solve.relaxation.cutting_planes import Branch, Root
from poet_planner.solve.relaxation.event_points import missed
from poet_planner.solve.relaxation.model import events_of, relaxation
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.incumbent import Incumbent, measured
from poet_planner.solve.search.portfolio import Searches
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import OnProgress, TimeBudget

# Effort in seconds of searching, and as shares of the time left.
SEARCH_S = 0.5
SEARCH_SHARE = 0.1
REFINE_S = 0.3
ROOT_SHARE = 0.6
# Of the time, for what lies beyond the relaxation; and of what the bound lacks, that must lie there for cuts of the
# stages to be worth their time before.
MOST_BEYOND = 0.5
LITTLE = 0.01
PATIENCE = 6
# Beyond the relaxation the cutoff rises in steps, by this share of what the bound lacks at first, then by twice the
# share before. Of a MILP's solutions, so many of the best are looked at between the instants.
FIRST_STEP = 0.1
MOST_SOLUTIONS = 3
LP_SAFETY = 1e-3
# Share of what the bound lacks that branching has to gain.
FAR = 0.5


@dataclass(frozen=True)
class LpState:
    """The LP as far as it has been tightened: its cuts, and what they leave.

    Cuts and what is fixed hold below one cutoff only.
    """

    root: Root
    whole: Branch


class Level:
    """The order-free relaxation with the RAM limited at some instants.

    The least energy of the relaxation is below that of the problem, and what a search finds for it is a cutoff: nothing
    above needs to be looked at, which fixes most of the model. The bound is never above the cutoff.

    Parameters
    ----------
    instants : (n,) flags of nodes on ``path``
    known : Incumbent
        The best schedule of the problem so far.
    conflicts : Conflicts
        The model knows of them, the search of the relaxation does not.
    gap : float
        As in `OptimiseOptions`.
    bound_j : float
        A lower bound that is known already.
    context : Context or None
        As in `Search`.

    Attributes
    ----------
    bound_j : float
        A lower bound on the energy of every schedule of the contract, in joules.
    raised_by : Part
        The part that raised it last.
    """

    def __init__(
        self,
        problem: Problem,
        path: Ints,
        instants: Flags,
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
        self._instants = path[instants[path]]
        self._known = known
        self._solver = solver
        self._gap = gap
        self._context = context or Context()
        own = self._context.within(Part.RELAXATION)
        self._search = Searches(problem._replace(instant=instants), seed, context=own)
        self._beyond_j: float | None = None
        # What `missed` has looked at, for `prove` to go on from.
        self._begun: LpState | None = None
        self._plain_j = float(problem.node_energy.sum())
        self._scale = 1.0
        self.bound_j = bound_j
        self.raised_by = Part.RELAXATION

    @property
    def events(self) -> Ints:
        """The best schedule of the relaxation that was found, as events (see `evaluation`)."""
        return self._best().events if self._solution is None else self._solution

    @property
    def relaxation_optimum_j(self) -> float:
        """Energy of the best schedule of the relaxation that was found: its optimum, unless the search missed that."""
        return self._best().energy

    @property
    def incumbent_j(self) -> float:
        """Energy of the best schedule of the problem that was known at first."""
        return self._known.energy

    @property
    def share_beyond(self) -> float:
        """Share of what the bound lacks that `prove` cannot close: it lies above the relaxation's best schedule."""
        lacking_j = self.incumbent_j - self.bound_j
        return (self.incumbent_j - self.relaxation_optimum_j) / lacking_j if lacking_j > 0 else 0.0

    @property
    def undercuts(self) -> bool:
        """Whether the relaxation is known to have a schedule that the problem may not have."""
        return self.relaxation_optimum_j < self.incumbent_j * (1 - self._gap)

    def search(self, start: Ints, budget: TimeBudget) -> None:
        """Look for good schedules of the relaxation, from the events ``start`` and from plain training."""
        self._search.adopt(start)
        moves = int(SEARCH_S * moves_per_second(self._problem))
        self._search.run(moves, budget.share(SEARCH_SHARE))

    def missed(self, budget: TimeBudget) -> int | None:
        """The node of the path at whose first compute the LP overflows the RAM most, if it does anywhere."""
        self._begun = begun = self._lp(budget)
        return missed(self._problem, self._path, begun.root.relaxation.columns, begun.whole.point)

    def prove(self, budget: TimeBudget) -> None:
        """Raise the bound until the relaxation is solved or the time is up.

        What the search found for the relaxation is the cutoff. Where that is below the best schedule of the problem,
        some of the time is left for `prove_beyond`: as large a share as lies beyond of what the bound lacks, but half
        of it at most.
        """
        begun, self._begun = self._begun, None
        for_this = budget.share(1.0 - min(MOST_BEYOND, self.share_beyond))
        self._solve_relaxation(for_this, with_stage_cuts=self.share_beyond > LITTLE, start=begun)

    def prove_beyond(self, budget: TimeBudget) -> None:
        """Raise the bound further: the RAM counts between the instants, too.

        The cutoff rises in steps towards the best schedule of the problem. The lower it is, the more is fixed, and the
        sooner a MILP ends. Each step begins anew, for cuts of the stages hold below their cutoff only.
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

        With cuts of the stages, a MILP's solutions may be ruled out: then it is solved again.

        Parameters
        ----------
        start : LpState, optional
            The LP to go on from, of the same cutoff.
        """
        lp = start or self._lp(budget)
        root, whole = lp.root, lp.whole
        if (
            self._beyond_j is None
            and whole.bound < self._cutoff()
            and self._follow(events_of(self._problem, root.relaxation, whole.point))
        ):
            whole = self._tightened(root, whole, budget)
        ruled_out = True
        while ruled_out and not self._reached(self._limit_j):
            if with_stage_cuts:
                whole = self._tightened(root, whole, budget, with_stage_cuts=True)
            branches = self._branches(root, whole, budget.share(ROOT_SHARE))
            points = self._solve_branches(root, branches, budget)
            ruled_out = False
            for point in points if with_stage_cuts else []:
                ruled_out |= root.rule_out(whole.upper, point, self._cutoff, budget)
        return self._reached(self._limit_j)

    def _lp(self, budget: TimeBudget) -> LpState:
        """The relaxation's LP, with cuts."""
        relaxed = relaxation(self._problem, self._instants, self._limit_j, self._conflicts)
        self._scale = relaxed.scale
        root = Root(self._problem, relaxed, self._context)
        return LpState(root, self._tightened(root, root.whole(), budget))

    def _tightened(self, root: Root, branch: Branch, budget: TimeBudget, with_stage_cuts: bool = False) -> Branch:
        def on_progress(bound: float, _cutoff: float) -> None:
            self._raise(bound, root.most_cuts_of)

        share = budget.share(ROOT_SHARE)
        return root.tighten(branch, self._cutoff, share, PATIENCE, on_progress, with_stage_cuts)

    def _reached(self, energy_j: float) -> bool:
        return self.bound_j >= energy_j * (1 - self._gap)

    def _branches(self, root: Root, whole: Branch, budget: TimeBudget) -> list[Branch]:
        """Branches of ``whole``, if branching brings the bound far; a MILP solver does the rest better undivided."""
        if not self._context.has(Part.BRANCHING):
            return [whole]

        def on_progress(bound: float, _cutoff: float) -> None:
            self._raise(bound, Part.BRANCHING)

        with self._context.timed(Part.BRANCHING):
            branches = explore(root, whole, self._cutoff, budget, on_progress)
        lowest = min([branch.bound for branch in branches], default=np.inf)
        return branches if lowest - whole.bound > FAR * (self._cutoff() - whole.bound) else [whole]

    def _solve_branches(self, root: Root, branches: list[Branch], budget: TimeBudget) -> list[Floats]:
        """Raise the bound to the least of all branches, one MILP after the other; solutions that the MILPs found.

        The lowest bound comes last, and has what time the others leave: it is the one that counts.
        """
        branches = branches[::-1]
        bounds = [branch.bound for branch in branches]
        points: list[Floats] = []
        for k, branch in enumerate(branches):
            if branch.bound >= self._cutoff() or not self._context.has(Part.MILP):
                continue
            model = root.model(branch)
            if budget.left() < seconds_to_state(len(model.columns)):
                return points
            others = min(bounds[:k] + bounds[k + 1 :], default=np.inf)

            def on_progress(bound: float, _incumbent: float, others: float = others) -> None:
                self._raise(min(bound, others), Part.MILP)

            answer = self._milp(model, budget.share(1 / (len(branches) - k)), on_progress)
            bounds[k] = max(bounds[k], self._cutoff() if answer.infeasible else answer.bound)
            points += answer.solutions[-MOST_SOLUTIONS:]
            for point in answer.solutions[-1:]:
                self._adopt(events_of(self._problem, root.relaxation, point))
        self._raise(min(bounds, default=np.inf), Part.MILP)
        return points

    def _milp(self, model: LinearModel, budget: TimeBudget, on_progress: OnProgress) -> Answer:
        """Solve the MILP of one branch."""
        # In units of the model, in which plain training costs SCALE.
        absolute_gap = max(1e-6, 0.05 * self._gap * self._limit_j * self._scale)
        with self._context.timed(Part.MILP):
            return solve_milp(model, self._solver, budget, absolute_gap, self._cutoff(), on_progress)

    def _adopt(self, events: Ints) -> None:
        """Let the search know of a MILP's solution, if it is a sequence that can be."""
        self._search.adopt(events)
        if measured(self._problem, events) is not None:
            self._solution = events

    def _best(self) -> Incumbent:
        found = self._search.incumbent
        return self._known if found is None or found.energy > self._known.energy else found

    @property
    def _limit_j(self) -> float:
        """No schedule that costs more is looked for."""
        return self.relaxation_optimum_j if self._beyond_j is None else self._beyond_j

    def _cutoff(self) -> float:
        """The same in units of the model."""
        return (self._limit_j * (1 - 0.9 * self._gap) - self._plain_j) * self._scale

    def _raise(self, bound: float, part: Part) -> None:
        bound = min(bound, self._cutoff())
        bound_j = self._plain_j + (bound - LP_SAFETY) / self._scale
        if np.isfinite(bound) and bound_j > self.bound_j:
            self.bound_j = bound_j
            self.raised_by = self._context.credited(part)

    def _follow(self, events: Ints) -> bool:
        """Search on from where the LP points; whether that found anything better."""
        before_j = self.relaxation_optimum_j
        if self._search.adopt(events):
            self._search.refine(int(REFINE_S * moves_per_second(self._problem)))
        return self.relaxation_optimum_j < before_j
