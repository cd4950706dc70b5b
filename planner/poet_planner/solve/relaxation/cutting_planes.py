# SPDX-License-Identifier: Apache-2.0
"""The cutting-plane loop: the LP relaxation of the order-free MILP, with cuts and reduced-cost fixing.

See docs/optimiser/relaxation.md, "Cutting planes".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Problem
from poet_planner.solve.milp.failure import put_down
from poet_planner.solve.milp.highs import Lp, LpStatus
from poet_planner.solve.milp.linear_model import LinearModel, Rows
from poet_planner.solve.relaxation.cover_cuts import NO_CUTS, Cuts, separate
from poet_planner.solve.relaxation.model import Relaxation
from poet_planner.solve.relaxation.rounding_cuts import RoundingCuts
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress

PATIENCE = 6  # LPs in a row that may raise the bound by little
STALL = 0.02  # an increase over all these LPs is little below this fraction of the bound's gap
MOST_IDLE = 4  # LPs in a row in which a cut may be slack before it is dropped


class LpRelaxation:
    """The LP of the relaxation with its cuts, held by HiGHS.

    Cuts and fixings hold for every schedule that costs less than the cutoff.

    Attributes
    ----------
    relaxation : Relaxation
    lower, upper : (columns,) bounds of the variables, those fixed so far included
    bound : float
        A lower bound on the energy of every schedule that costs less than the cutoff, in units of the model.
    point : (columns,) the last solution of the LP
    most_cuts_of : Component
        The part that found most of the cuts that the last LP added.
    """

    def __init__(self, problem: Problem, relaxation: Relaxation, context: Context | None = None) -> None:
        self._problem = problem
        self._context = context or Context()
        self.relaxation = relaxation
        self.lower, self.upper = relaxation.model.lower, relaxation.model.upper
        self.bound = -np.inf
        self.point: Floats = np.zeros(len(self.lower))
        self.most_cuts_of = Component.RELAXATION
        self._lp = Lp(relaxation.model)
        self._first_cut = len(relaxation.model.row_lower)
        self._idle = np.zeros(0)
        self._rounding = RoundingCuts(problem, relaxation.columns)

    def add_cuts(
        self, cutoff: Callable[[], float], budget: TimeBudget, on_progress: OnProgress = ignore_progress
    ) -> None:
        """Run the cutting-plane loop: solve the LP, fix variables, add cuts, until the bound hardly rises.

        Nothing that costs more than ``cutoff`` is looked for, in units of the model. ``on_progress`` is called with the
        bound and the cutoff after every LP.
        """
        history: list[float] = []
        self.most_cuts_of = Component.RELAXATION
        while self.solve(cutoff, budget):
            on_progress(self.bound, cutoff())
            history.append(self.bound)
            gap = cutoff() - self.bound
            if gap <= 0 or (len(history) > PATIENCE and self.bound - history[-PATIENCE - 1] < STALL * gap):
                return
            cover = self._cover_cuts()
            rounding = self._rounding_cuts()
            found = {Component.COVER_CUTS: len(cover.starts) - 1, Component.ROUNDING_CUTS: len(rounding.lower)}
            self.most_cuts_of = max(found, key=lambda part: found[part])
            if not found[self.most_cuts_of]:
                return
            self._drop_idle_cuts()
            ones = np.ones(len(cover.starts) - 1)
            self._lp.add_rows(ones, np.inf * ones, cover.starts, cover.columns, cover.coefficients)
            self._lp.add_rows(rounding.lower, rounding.upper, rounding.starts, rounding.columns, rounding.coefficients)

    def _cover_cuts(self) -> Cuts:
        """Restoration and cover cuts that the LP solution violates (see `cover_cuts`)."""
        if not self._context.has(Component.COVER_CUTS):
            return NO_CUTS
        with self._context.timed(Component.COVER_CUTS):
            return separate(self._problem, self.relaxation.columns, self.point)

    def _rounding_cuts(self) -> Rows:
        """Rounded capacity rows that the LP solution violates (see `rounding_cuts`)."""
        if not self._context.has(Component.ROUNDING_CUTS):
            return Rows()
        with self._context.timed(Component.ROUNDING_CUTS):
            return self._rounding.separate(self.point)

    def solve(self, cutoff: Callable[[], float], budget: TimeBudget) -> bool:
        """Solve the LP once; False if the time is up, or HiGHS fails. The bound is the cutoff if it has no solution."""
        if budget.expired:
            return False
        status = LpStatus.OPEN
        with put_down(self._context.statistics):
            self._lp.set_bounds(self.lower, self.upper)
            status = self._lp.solve(budget)
        if status is LpStatus.INFEASIBLE:
            self.bound = max(self.bound, cutoff())
            return True
        if status is LpStatus.OPEN:
            return False
        self.point = self._lp.point
        value = self._lp.optimum
        self._fix(self._lp.reduced_cost, cutoff() - value)
        self.bound = max(self.bound, value)
        return True

    def model(self) -> LinearModel:
        """The MILP with the variables fixed so far and the present cuts."""
        return self._lp.model(self.lower, self.upper)

    def _fix(self, reduced_cost: Floats, spare: float) -> None:
        """Reduced-cost fixing: a variable is fixed if changing it costs more than ``spare``, in units of the model."""
        tolerance = spare + 1e-6 * max(1.0, abs(spare))
        free = self.lower < self.upper
        to_zero: Flags = free & (reduced_cost > tolerance) & (self.point < 0.5)
        to_one: Flags = free & (reduced_cost < -tolerance) & (self.point > 0.5)
        self.lower, self.upper = np.where(to_one, 1.0, self.lower), np.where(to_zero, 0.0, self.upper)

    def _idle_lps(self) -> Floats:
        """For how many LPs in a row each cut has been slack, new cuts included."""
        return np.append(self._idle, np.zeros(self._lp.rows - self._first_cut - len(self._idle)))

    def _drop_idle_cuts(self) -> None:
        """Drop the cuts that have been slack for several LPs."""
        idle = self._idle_lps()
        self._idle = np.where(self._lp.is_slack[self._first_cut :], idle + 1, 0)
        old = np.nonzero(self._idle >= MOST_IDLE)[0]
        if len(old):
            self._lp.drop_rows(self._first_cut + old)
            self._idle = np.delete(self._idle, old)
