# SPDX-License-Identifier: Apache-2.0
"""The LP relaxation of the order-free MILP, tightened by cuts and by what a known schedule rules out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.milp.linear_model import LinearModel, Rows
from poet_planner.solve.relaxation.cover_cuts import NO_CUTS, Cuts, separate
from poet_planner.solve.relaxation.model import Relaxation
from poet_planner.solve.relaxation.rounding_cuts import RoundingCuts
from poet_planner.solve.relaxation.stage_cuts import StageCuts
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import OnProgress, TimeBudget, unheard

STALL_SHARE = 2e-2
# Relative; columns whose costs differ by less are counted together.
EQUAL = 1e-9
LEAST_S = 0.01
# LPs in a row in which a cut may be idle.
MOST_IDLE = 4


@dataclass(frozen=True)
class Branch:
    """Those solutions of the relaxation that keep some bounds; and what the LP says of them.

    Attributes
    ----------
    lower, upper : (columns,)
    least, most : (counts,) of the counts of `counts`
    bound : float
        A lower bound on the energy of every schedule among them that is better than the known one, in units of the
        model.
    point : (columns,) the last solution of the LP
    """

    lower: Floats
    upper: Floats
    least: Floats
    most: Floats
    bound: float
    point: Floats


class Root:
    """The relaxation's LP, solved by HiGHS from one round of cuts to the next.

    The cuts hold for all that costs less than the cutoff, so that all branches share them.

    Attributes
    ----------
    relaxation : Relaxation
    counts : columns of each count
    most_cuts_of : Part
        The part that most of the cuts are of that were added before the last LP.
    """

    def __init__(self, problem: Problem, relaxation: Relaxation, context: Context | None = None) -> None:
        self._problem = problem
        self._context = context or Context()
        self.relaxation = relaxation
        self.most_cuts_of = Part.RELAXATION
        self.counts = counted(relaxation.model)
        self._highs = lp_of(relaxation.model)
        self._first_count = len(relaxation.model.row_lower)
        self._first_cut = self._first_count + len(self.counts)
        self._idle = np.zeros(0)
        self._add_rows(counting_rows(self.counts))
        self._rounding = RoundingCuts(problem, relaxation.columns)
        self._stages = StageCuts(problem, relaxation)

    def whole(self) -> Branch:
        """All solutions."""
        model = self.relaxation.model
        free = np.full(len(self.counts), np.inf)
        return Branch(model.lower, model.upper, -free, free, -np.inf, np.zeros(len(model.lower)))

    def tighten(
        self,
        branch: Branch,
        cutoff: Callable[[], float],
        budget: TimeBudget,
        patience: int,
        on_progress: OnProgress = unheard,
        with_stage_cuts: bool = False,
    ) -> Branch:
        """Add cuts and fix variables until neither helps.

        Parameters
        ----------
        cutoff : callable
            Energy of the best known schedule, in units of the model.
        patience : int
            Rounds that may go by with little progress.
        on_progress : callable
            Told the bound and the cutoff after every LP.
        with_stage_cuts : bool
            Whether the RAM between the instants is worth cuts, too.
        """
        history: list[float] = []
        self.most_cuts_of = Part.RELAXATION
        while True:
            solved = self.solve(branch, cutoff, budget)
            if solved is None:
                return branch
            branch = solved
            on_progress(branch.bound, cutoff())
            history.append(branch.bound)
            left = cutoff() - branch.bound
            if left <= 0 or (len(history) > patience and branch.bound - history[-patience - 1] < STALL_SHARE * left):
                return branch
            cuts = self._cover_cuts(branch.point)
            between = Rows()
            if with_stage_cuts:
                between = self._stage_cuts(branch.upper, branch.point, cutoff, budget)
            rounding = self._rounding_cuts(branch.point)
            found = {
                Part.COVER_CUTS: len(cuts.starts) - 1,
                Part.STAGE_CUTS: len(between.lower),
                Part.ROUNDING_CUTS: len(rounding.lower),
            }
            self.most_cuts_of = max(found, key=lambda part: found[part])
            if not found[self.most_cuts_of]:
                return branch
            self._purge()
            ones = np.ones(len(cuts.starts) - 1)
            self._add(ones, np.inf * ones, cuts.starts, cuts.columns, cuts.coefficients)
            self._add_rows(between)
            self._add_rows(rounding)

    def _cover_cuts(self, point: Floats) -> Cuts:
        """Restoration and cover cuts that ``point`` violates (see `cover_cuts`)."""
        if not self._context.has(Part.COVER_CUTS):
            return NO_CUTS
        with self._context.timed(Part.COVER_CUTS):
            return separate(self._problem, self.relaxation.columns, point, covers=True)

    def _rounding_cuts(self, point: Floats) -> Rows:
        """Rounded capacity rows that ``point`` violates (see `rounding_cuts`)."""
        if not self._context.has(Part.ROUNDING_CUTS):
            return Rows()
        with self._context.timed(Part.ROUNDING_CUTS):
            return self._rounding.separate(point)

    def _stage_cuts(self, upper: Floats, point: Floats, cutoff: Callable[[], float], budget: TimeBudget) -> Rows:
        """Cuts of the stages that ``point`` violates (see `stage_cuts`)."""
        if not self._context.has(Part.STAGE_CUTS):
            return Rows()
        with self._context.timed(Part.STAGE_CUTS):
            return self._stages.separate(upper, point, max(cutoff(), 0.0), budget)

    def rule_out(self, upper: Floats, point: Floats, cutoff: Callable[[], float], budget: TimeBudget) -> bool:
        """Add the cuts of the stages that a solution of the MILP violates; whether there are any.

        They stay, though the LP does not need them: the MILP would find the same solution again.
        """
        rows = self._stage_cuts(upper, point, cutoff, budget)
        self._idle = np.append(self._idle_lps(), np.full(len(rows.lower), -np.inf))
        self._add_rows(rows)
        return len(rows.lower) > 0

    def solve(self, branch: Branch, cutoff: Callable[[], float], budget: TimeBudget) -> Branch | None:
        """The branch after one LP, bounded by the cutoff where it has no solution; None if time is up."""
        import highspy

        if budget.expired:
            return None
        columns = np.arange(len(branch.lower), dtype=np.int32)
        self._highs.changeColsBounds(len(columns), columns, branch.lower, branch.upper)
        for row, (least, most) in enumerate(zip(branch.least, branch.most, strict=True), self._first_count):
            self._highs.changeRowBounds(row, least, most)
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(budget.left(), LEAST_S))
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return replace(branch, bound=max(branch.bound, cutoff()))
        if status != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        point = np.array(solution.col_value)
        value = self._highs.getInfo().objective_function_value
        reduced_cost = np.where(self.relaxation.model.integer, solution.col_dual, 0.0)
        lower, upper = _fixed(branch, point, reduced_cost, cutoff() - value)
        return replace(branch, lower=lower, upper=upper, bound=max(branch.bound, value), point=point)

    def model(self, branch: Branch) -> LinearModel:
        """The MILP of a branch: variables fixed, cuts in force appended."""
        base = self.relaxation.model
        self._highs.ensureRowwise()
        lp = self._highs.getLp()
        row_lower, row_upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
        counts = slice(self._first_count, self._first_cut)
        row_lower[counts], row_upper[counts] = branch.least, branch.most
        return LinearModel(
            base.cost,
            base.constant,
            branch.lower,
            branch.upper,
            base.integer,
            np.array(lp.a_matrix_.start_, dtype=np.int64),
            np.array(lp.a_matrix_.index_, dtype=np.int64),
            np.array(lp.a_matrix_.value_),
            row_lower,
            row_upper,
        )

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
        """For each cut, those just added included, how many LPs in a row did not need it; less than 0: it stays."""
        return np.append(self._idle, np.zeros(self._highs.getNumRow() - self._first_cut - len(self._idle)))

    def _purge(self) -> None:
        """Drop the cuts that have not been binding for long."""
        import highspy

        status = self._highs.getBasis().row_status[self._first_cut :]
        basic = np.array([at == highspy.HighsBasisStatus.kBasic for at in status], dtype=np.bool_)
        idle = self._idle_lps()
        self._idle = np.where(basic, idle + 1, np.minimum(idle, 0))
        old = np.nonzero(self._idle >= MOST_IDLE)[0]
        if len(old):
            self._highs.deleteRows(len(old), (self._first_cut + old).astype(np.int32))
            self._idle = np.delete(self._idle, old)


def _fixed(branch: Branch, point: Floats, reduced_cost: Floats, spare: float) -> tuple[Floats, Floats]:
    """The branch's bounds with every variable fixed whose change would cost more than a better schedule may."""
    tolerance = spare + 1e-6 * max(1.0, abs(spare))
    free = branch.lower < branch.upper
    to_zero: Flags = free & (reduced_cost > tolerance) & (point < 0.5)
    to_one: Flags = free & (reduced_cost < -tolerance) & (point > 0.5)
    return np.where(to_one, 1.0, branch.lower), np.where(to_zero, 0.0, branch.upper)


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


def counted(model: LinearModel) -> tuple[Ints, ...]:
    """The columns of each count: those of equal cost, where there are several that are not fixed."""
    free = np.nonzero((model.cost > 0) & (model.lower < model.upper) & model.integer)[0]
    by_cost = free[np.argsort(model.cost[free], kind="stable")]
    costs = model.cost[by_cost]
    ends = np.nonzero(np.diff(costs) > EQUAL * costs[1:])[0] + 1
    return tuple(group for group in np.split(by_cost, ends) if len(group) > 1)


def counting_rows(counts: tuple[Ints, ...]) -> Rows:
    """Rows without bounds whose activities are the counts."""
    rows = Rows()
    for columns in counts:
        rows.add(columns.tolist(), [1.0] * len(columns), -np.inf, np.inf)
    return rows
