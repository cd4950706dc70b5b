# SPDX-License-Identifier: Apache-2.0
"""The cutting-plane loop: the LP relaxation of the order-free MILP, with cuts and reduced-cost fixing.

See docs/optimiser/relaxation.md, "Cutting planes".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poet_planner.solve.instance import Flags, Floats, Problem
from poet_planner.solve.milp.linear_model import LinearModel, Rows
from poet_planner.solve.relaxation.cover_cuts import NO_CUTS, Cuts, separate
from poet_planner.solve.relaxation.model import Relaxation
from poet_planner.solve.relaxation.rounding_cuts import RoundingCuts
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress

# An iteration of the simplex method, and what each coefficient of the LP adds: reference seconds.
ITERATION_S = 5e-6
ITERATION_S_PER_ENTRY = 2e-9
ENTRY_S = 6e-7  # what comes before the first iteration and after the last, for each coefficient: reference seconds
MOST_ITERATIONS = 2**30


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
        self._params = self._context.params.relaxation
        self.relaxation = relaxation
        self.lower, self.upper = relaxation.model.lower, relaxation.model.upper
        self.bound = -np.inf
        self.point: Floats = np.zeros(len(self.lower))
        self.most_cuts_of = Component.RELAXATION
        self._highs = lp_of(relaxation.model)
        self._first_cut = len(relaxation.model.row_lower)
        self._idle = np.zeros(0)
        self._rounding = RoundingCuts(problem, relaxation.columns)

    def add_cuts(
        self, cutoff: Callable[[], float], budget: TimeBudget, patience: int, on_progress: OnProgress = ignore_progress
    ) -> None:
        """Run the cutting-plane loop: solve the LP, fix variables, add cuts, until the bound hardly rises.

        Parameters
        ----------
        cutoff : callable
            Nothing that costs more is looked for; in units of the model.
        patience : int
            LPs in a row that may raise the bound by little.
        on_progress : callable
            Called with the bound and the cutoff after every LP.
        """
        history: list[float] = []
        self.most_cuts_of = Component.RELAXATION
        while self.solve(cutoff, budget):
            on_progress(self.bound, cutoff())
            history.append(self.bound)
            gap = cutoff() - self.bound
            if gap <= 0 or (len(history) > patience and self.bound - history[-patience - 1] < self._params.stall * gap):
                return
            cover = self._cover_cuts()
            rounding = self._rounding_cuts()
            found = {Component.COVER_CUTS: len(cover.starts) - 1, Component.ROUNDING_CUTS: len(rounding.lower)}
            self.most_cuts_of = max(found, key=lambda part: found[part])
            if not found[self.most_cuts_of]:
                return
            self._drop_idle_cuts()
            ones = np.ones(len(cover.starts) - 1)
            self._add(ones, np.inf * ones, cover.starts, cover.columns, cover.coefficients)
            self._add_rows(rounding)

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
        """Solve the LP once; False if the time is up. The bound is the cutoff if it has no solution."""
        import highspy

        if budget.expired:
            return False
        columns = np.arange(len(self.lower), dtype=np.int32)
        self._highs.changeColsBounds(len(columns), columns, self.lower, self.upper)
        status = run_lp(self._highs, budget)
        if status == highspy.HighsModelStatus.kInfeasible:
            self.bound = max(self.bound, cutoff())
            return True
        if status != highspy.HighsModelStatus.kOptimal:
            return False
        solution = self._highs.getSolution()
        self.point = np.array(solution.col_value)
        value = self._highs.getInfo().objective_function_value
        self._fix(np.array(solution.col_dual), cutoff() - value)
        self.bound = max(self.bound, value)
        return True

    def model(self) -> LinearModel:
        """The MILP with the variables fixed so far and the present cuts."""
        base = self.relaxation.model
        self._highs.ensureRowwise()
        lp = self._highs.getLp()
        return LinearModel(
            base.cost,
            base.constant,
            self.lower,
            self.upper,
            base.integer,
            np.array(lp.a_matrix_.start_, dtype=np.int64),
            np.array(lp.a_matrix_.index_, dtype=np.int64),
            np.array(lp.a_matrix_.value_),
            np.array(lp.row_lower_),
            np.array(lp.row_upper_),
        )

    def _fix(self, reduced_cost: Floats, spare: float) -> None:
        """Reduced-cost fixing: a variable is fixed if changing it costs more than ``spare``, in units of the model."""
        tolerance = spare + 1e-6 * max(1.0, abs(spare))
        free = self.lower < self.upper
        to_zero: Flags = free & (reduced_cost > tolerance) & (self.point < 0.5)
        to_one: Flags = free & (reduced_cost < -tolerance) & (self.point > 0.5)
        self.lower, self.upper = np.where(to_one, 1.0, self.lower), np.where(to_zero, 0.0, self.upper)

    def _add_rows(self, rows: Rows) -> None:
        self._add(rows.lower, rows.upper, rows.starts, rows.columns, rows.coefficients)

    def _add(
        self, lower: ArrayLike, upper: ArrayLike, starts: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> None:
        """Append rows; those of row r are ``starts[r]:starts[r + 1]`` of ``columns`` and ``values``."""
        begins = np.asarray(starts, dtype=np.int32)[:-1]
        numbers = np.asarray(columns, dtype=np.int32)
        self._highs.addRows(
            len(begins), np.asarray(lower), np.asarray(upper), len(numbers), begins, numbers, np.asarray(values)
        )

    def _idle_lps(self) -> Floats:
        """For how many LPs in a row each cut has been slack, new cuts included."""
        return np.append(self._idle, np.zeros(self._highs.getNumRow() - self._first_cut - len(self._idle)))

    def _drop_idle_cuts(self) -> None:
        """Drop the cuts that have been slack for several LPs."""
        import highspy

        status = self._highs.getBasis().row_status[self._first_cut :]
        basic = np.array([at == highspy.HighsBasisStatus.kBasic for at in status], dtype=np.bool_)
        idle = self._idle_lps()
        self._idle = np.where(basic, idle + 1, 0)
        old = np.nonzero(self._idle >= self._params.most_idle)[0]
        if len(old):
            self._highs.deleteRows(len(old), (self._first_cut + old).astype(np.int32))
            self._idle = np.delete(self._idle, old)


def run_lp(highs: Any, budget: TimeBudget) -> Any:
    """Solve the LP that HiGHS holds within as many iterations as the budget has left; the status of the model."""
    entries = highs.getNumNz()
    iteration_s = ITERATION_S + ITERATION_S_PER_ENTRY * entries
    highs.setOptionValue("simplex_iteration_limit", min(MOST_ITERATIONS, max(1, budget.most_steps(iteration_s))))
    highs.setOptionValue("time_limit", highs.getRunTime() + budget.wall_s())
    highs.run()
    budget.spend(ENTRY_S * entries + iteration_s * max(0, highs.getInfo().simplex_iteration_count))
    return highs.getModelStatus()


def lp_of(model: LinearModel) -> Any:
    """A silent HiGHS instance that holds the LP relaxation of ``model``."""
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_ = len(model.cost)
    lp.num_row_ = len(model.row_lower)
    lp.col_cost_ = model.cost
    lp.offset_ = model.constant
    lp.col_lower_ = model.lower
    lp.col_upper_ = model.upper
    lp.row_lower_ = model.row_lower
    lp.row_upper_ = model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = model.starts.astype(np.int32)
    lp.a_matrix_.index_ = model.columns.astype(np.int32)
    lp.a_matrix_.value_ = model.coefficients
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    return highs
