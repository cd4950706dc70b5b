"""The LP relaxation of the order-free MILP, tightened by cuts and by what a known schedule rules out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poet_planner.solve.bound import Relaxation
from poet_planner.solve.cuts import Cuts, separate
from poet_planner.solve.linear_model import LinearModel
from poet_planner.solve.problem import Flags, Floats, Problem

STALL_ROUNDS = 6
STALL_SHARE = 2e-2
PURGE_EVERY = 4


class Root:
    """The relaxation at the root, solved by HiGHS from one round of cuts to the next.

    Attributes
    ----------
    bound : float
        A lower bound on the energy of every schedule better than the known one, in units of the model.
    """

    def __init__(self, problem: Problem, relaxation: Relaxation) -> None:
        self._problem = problem
        self._relaxation = relaxation
        self._upper = relaxation.model.upper.copy()
        self._lower = relaxation.model.lower.copy()
        self._highs = lp_of(relaxation.model)
        self._x: Floats = np.zeros(len(self._upper))
        self.bound = -np.inf

    @property
    def point(self) -> Floats:
        """The last solution of the LP."""
        return self._x

    def tighten(self, cutoff: Callable[[], float], seconds_left: Callable[[], float], hear: Callable[[], None]) -> None:
        """Add cuts and fix variables until neither helps.

        Parameters
        ----------
        cutoff : callable
            Energy of the best known schedule, in units of the model.
        seconds_left : callable
            The work ends when this is 0 or less.
        hear : callable
            Called whenever the bound may have risen.
        """
        history: list[float] = []
        while self._solve(cutoff, seconds_left()):
            hear()
            history.append(self.bound)
            left = cutoff() - self.bound
            if left <= 0:
                return
            if len(history) > STALL_ROUNDS and self.bound - history[-STALL_ROUNDS - 1] < STALL_SHARE * left:
                return
            cuts = separate(self._problem, self._relaxation.columns, self._x, covers=True)
            if len(cuts.starts) == 1:
                return
            if len(history) % PURGE_EVERY == 0:
                self._purge()
            self._add(cuts)
        hear()

    def model(self) -> LinearModel:
        """The MILP as it now stands: variables fixed, cuts in force appended."""
        base = self._relaxation.model
        self._highs.ensureRowwise()
        lp = self._highs.getLp()
        return LinearModel(
            base.cost,
            base.constant,
            self._lower,
            self._upper,
            base.integer,
            np.array(lp.a_matrix_.start_, dtype=np.int64),
            np.array(lp.a_matrix_.index_, dtype=np.int64),
            np.array(lp.a_matrix_.value_),
            np.array(lp.row_lower_),
            np.array(lp.row_upper_),
        )

    def _solve(self, cutoff: Callable[[], float], seconds: float) -> bool:
        """One LP; False if it has no solution, so that no better schedule exists, or if time is up."""
        import highspy

        if seconds <= 0:
            return False
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + seconds)
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            self.bound = max(self.bound, cutoff())
            return False
        if status != highspy.HighsModelStatus.kOptimal:
            return False
        solution = self._highs.getSolution()
        self._x = np.array(solution.col_value)
        value = self._highs.getInfo().objective_function_value
        self.bound = max(self.bound, value)
        self._fix(np.array(solution.col_dual), cutoff() - value)
        return True

    def _fix(self, reduced_cost: Floats, spare: float) -> None:
        """Fix every variable whose change would cost more than a better schedule may."""
        tolerance = spare + 1e-6 * max(1.0, abs(spare))
        free = self._lower < self._upper
        to_zero: Flags = free & (reduced_cost > tolerance) & (self._x < 0.5)
        to_one: Flags = free & (reduced_cost < -tolerance) & (self._x > 0.5)
        if not (to_zero.any() or to_one.any()):
            return
        self._upper[to_zero] = 0.0
        self._lower[to_one] = 1.0
        changed = np.nonzero(to_zero | to_one)[0].astype(np.int32)
        self._highs.changeColsBounds(len(changed), changed, self._lower[changed], self._upper[changed])

    def _add(self, cuts: Cuts) -> None:
        count = len(cuts.starts) - 1
        self._highs.addRows(
            count,
            np.ones(count),
            np.full(count, np.inf),
            len(cuts.columns),
            cuts.starts[:-1].astype(np.int32),
            cuts.columns.astype(np.int32),
            cuts.coefficients,
        )

    def _purge(self) -> None:
        """Drop the cuts that do not bind."""
        import highspy

        first = len(self._relaxation.model.row_lower)
        status = self._highs.getBasis().row_status[first:]
        idle = [first + row for row, at in enumerate(status) if at == highspy.HighsBasisStatus.kBasic]
        if idle:
            self._highs.deleteRows(len(idle), np.array(idle, dtype=np.int32))


def lp_of(model: LinearModel) -> Any:
    """A silent HiGHS instance that holds the relaxation of ``model``."""
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
