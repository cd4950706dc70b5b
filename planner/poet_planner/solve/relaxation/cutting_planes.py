# SPDX-License-Identifier: Apache-2.0
"""The cutting-plane loop: the LP relaxation of the order-free MILP, with cuts and reduced-cost fixing.

See docs/optimiser/relaxation.md, "Cutting planes".
"""

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
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress

EQUAL = 1e-9  # columns whose costs differ by less are one aggregated integer: relative
LEAST_S = 0.01  # time limit of an LP at least: seconds


@dataclass(frozen=True)
class Branch:
    """The solutions of the relaxation within some bounds, and the last LP over them.

    Attributes
    ----------
    lower, upper : (columns,)
    aggregate_lower, aggregate_upper : (aggregated integers,)
    bound : float
        A lower bound on the energy of every schedule of the branch that costs less than the cutoff, in units of the
        model.
    point : (columns,) the last solution of the LP
    """

    lower: Floats
    upper: Floats
    aggregate_lower: Floats
    aggregate_upper: Floats
    bound: float
    point: Floats


class LpRelaxation:
    """The LP of the relaxation with its cuts, held by HiGHS.

    The cuts hold for every schedule that costs less than the cutoff, so all branches share them.

    Attributes
    ----------
    relaxation : Relaxation
    aggregates : the columns of each aggregated integer
    most_cuts_of : Part
        The part that found most of the cuts that the last LP added.
    """

    def __init__(self, problem: Problem, relaxation: Relaxation, context: Context | None = None) -> None:
        self._problem = problem
        self._context = context or Context()
        self._params = self._context.params.relaxation
        self.relaxation = relaxation
        self.most_cuts_of = Part.RELAXATION
        self.aggregates = aggregated_integers(relaxation.model)
        self._highs = lp_of(relaxation.model)
        self._first_aggregate = len(relaxation.model.row_lower)
        self._first_cut = self._first_aggregate + len(self.aggregates)
        self._idle = np.zeros(0)
        self._add_rows(aggregate_rows(self.aggregates))
        self._rounding = RoundingCuts(problem, relaxation.columns)
        self._stages = StageCuts(problem, relaxation)

    def whole(self) -> Branch:
        """The branch of all solutions."""
        model = self.relaxation.model
        free = np.full(len(self.aggregates), np.inf)
        return Branch(model.lower, model.upper, -free, free, -np.inf, np.zeros(len(model.lower)))

    def add_cuts(
        self,
        branch: Branch,
        cutoff: Callable[[], float],
        budget: TimeBudget,
        patience: int,
        on_progress: OnProgress = ignore_progress,
        with_stage_cuts: bool = False,
    ) -> Branch:
        """Run the cutting-plane loop: solve the LP, fix variables, add cuts, until the bound hardly rises.

        Parameters
        ----------
        cutoff : callable
            Nothing that costs more is looked for; in units of the model.
        patience : int
            LPs in a row that may raise the bound by little.
        on_progress : callable
            Called with the bound and the cutoff after every LP.
        with_stage_cuts : bool
            Whether to add Benders cuts, too.
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
            gap = cutoff() - branch.bound
            if gap <= 0:
                return branch
            if len(history) > patience and branch.bound - history[-patience - 1] < self._params.stall * gap:
                return branch
            cover = self._cover_cuts(branch.point)
            stage = Rows()
            if with_stage_cuts:
                stage = self._stage_cuts(branch.upper, branch.point, cutoff, budget)
            rounding = self._rounding_cuts(branch.point)
            found = {
                Part.COVER_CUTS: len(cover.starts) - 1,
                Part.STAGE_CUTS: len(stage.lower),
                Part.ROUNDING_CUTS: len(rounding.lower),
            }
            self.most_cuts_of = max(found, key=lambda part: found[part])
            if not found[self.most_cuts_of]:
                return branch
            self._drop_idle_cuts()
            ones = np.ones(len(cover.starts) - 1)
            self._add(ones, np.inf * ones, cover.starts, cover.columns, cover.coefficients)
            self._add_rows(stage)
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
        """Benders cuts of the stages that ``point`` violates (see `stage_cuts`)."""
        if not self._context.has(Part.STAGE_CUTS):
            return Rows()
        with self._context.timed(Part.STAGE_CUTS):
            return self._stages.separate(upper, point, max(cutoff(), 0.0), budget)

    def cut_off(self, upper: Floats, point: Floats, cutoff: Callable[[], float], budget: TimeBudget) -> bool:
        """Add the Benders cuts that a solution of the MILP violates; whether there are any.

        They are never dropped, even if they are slack in the LP: otherwise the MILP finds the same solution again.
        """
        rows = self._stage_cuts(upper, point, cutoff, budget)
        self._idle = np.append(self._idle_lps(), np.full(len(rows.lower), -np.inf))
        self._add_rows(rows)
        return len(rows.lower) > 0

    def solve(self, branch: Branch, cutoff: Callable[[], float], budget: TimeBudget) -> Branch | None:
        """The branch after one LP. Its bound is the cutoff if it has no solution. None if the time is up."""
        import highspy

        if budget.expired:
            return None
        columns = np.arange(len(branch.lower), dtype=np.int32)
        self._highs.changeColsBounds(len(columns), columns, branch.lower, branch.upper)
        bounds = zip(branch.aggregate_lower, branch.aggregate_upper, strict=True)
        for row, (lower, upper) in enumerate(bounds, self._first_aggregate):
            self._highs.changeRowBounds(row, lower, upper)
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
        fixed_lower, fixed_upper = _fixed(branch, point, reduced_cost, cutoff() - value)
        bound = max(branch.bound, value)
        return replace(branch, lower=fixed_lower, upper=fixed_upper, bound=bound, point=point)

    def model(self, branch: Branch) -> LinearModel:
        """The MILP of a branch: with its fixed variables and the present cuts."""
        base = self.relaxation.model
        self._highs.ensureRowwise()
        lp = self._highs.getLp()
        row_lower, row_upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
        aggregates = slice(self._first_aggregate, self._first_cut)
        row_lower[aggregates], row_upper[aggregates] = branch.aggregate_lower, branch.aggregate_upper
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
        """For how many LPs in a row each cut has been slack, new cuts included; below 0: it is never dropped."""
        return np.append(self._idle, np.zeros(self._highs.getNumRow() - self._first_cut - len(self._idle)))

    def _drop_idle_cuts(self) -> None:
        """Drop the cuts that have been slack for several LPs."""
        import highspy

        status = self._highs.getBasis().row_status[self._first_cut :]
        basic = np.array([at == highspy.HighsBasisStatus.kBasic for at in status], dtype=np.bool_)
        idle = self._idle_lps()
        self._idle = np.where(basic, idle + 1, np.minimum(idle, 0))
        old = np.nonzero(self._idle >= self._params.most_idle)[0]
        if len(old):
            self._highs.deleteRows(len(old), (self._first_cut + old).astype(np.int32))
            self._idle = np.delete(self._idle, old)


def _fixed(branch: Branch, point: Floats, reduced_cost: Floats, spare: float) -> tuple[Floats, Floats]:
    """Reduced-cost fixing: a variable is fixed if changing it costs more than ``spare``, in units of the model."""
    tolerance = spare + 1e-6 * max(1.0, abs(spare))
    free = branch.lower < branch.upper
    to_zero: Flags = free & (reduced_cost > tolerance) & (point < 0.5)
    to_one: Flags = free & (reduced_cost < -tolerance) & (point > 0.5)
    return np.where(to_one, 1.0, branch.lower), np.where(to_zero, 0.0, branch.upper)


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


def aggregated_integers(model: LinearModel) -> tuple[Ints, ...]:
    """The columns of each aggregated integer: those of equal cost, if several of them are not fixed."""
    free = np.nonzero((model.cost > 0) & (model.lower < model.upper) & model.integer)[0]
    by_cost = free[np.argsort(model.cost[free], kind="stable")]
    costs = model.cost[by_cost]
    ends = np.nonzero(np.diff(costs) > EQUAL * costs[1:])[0] + 1
    return tuple(group for group in np.split(by_cost, ends) if len(group) > 1)


def aggregate_rows(aggregates: tuple[Ints, ...]) -> Rows:
    """Rows without bounds whose activities are the aggregated integers."""
    rows = Rows()
    for columns in aggregates:
        rows.add(columns.tolist(), [1.0] * len(columns), -np.inf, np.inf)
    return rows
