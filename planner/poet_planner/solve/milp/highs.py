# SPDX-License-Identifier: Apache-2.0
"""HiGHS: the one module that loads highspy, and runs it.

Each run is in a thread of its own. HiGHS keeps the number of threads of the first run in a thread, and refuses other
numbers there. So it does not matter how the program runs HiGHS itself, and its own runs never meet one of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poet_planner.solve.instance import Flags, Floats, Ints
from poet_planner.solve.milp.failure import SolverError, told_as
from poet_planner.solve.milp.linear_model import LinearModel
from poet_planner.solve.time_budget import TimeBudget

NAME = "highs"
# An iteration of the simplex method, and what each coefficient of the LP adds: reference seconds.
ITERATION_S = 5e-6
ITERATION_S_PER_ENTRY = 2e-9
ENTRY_S = 6e-7  # what comes before the first iteration and after the last, for each coefficient: reference seconds
MOST_ITERATIONS = 2**30


def load() -> Any:
    """The module highspy.

    Raises
    ------
    SolverError
        If it cannot be imported.
    """
    try:
        import highspy
    except ImportError as error:
        # OR-Tools has a HiGHS inside, whose symbols the loader takes for those that highspy before 1.16 asks for.
        if "ortools" in sys.modules:
            raise SolverError(
                "HiGHS cannot be loaded beside OR-Tools, which this program has imported: install highspy 1.16 or "
                "later, or plan in another process"
            ) from error
        reason = next(iter(str(error).splitlines()), "")
        raise SolverError(f"HiGHS cannot be loaded: {reason}; install highspy again") from error
    return highspy


def silent_highs() -> Any:
    """A new instance, which prints nothing and runs on one thread."""
    highspy = load()

    class Silent(highspy.Highs):  # type: ignore[misc, name-defined]
        def enableCallbacks(self) -> None:  # noqa: N802
            """Its constructor does so, and HiGHS 1.16 then prints its licence unless it is silent by now."""
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    highs = Silent()
    highs.setOptionValue("threads", 1)
    return highs


def run(highs: Any, stop: Callable[[], object] = lambda: None) -> None:
    """Run HiGHS to its end.

    ``stop`` is called if the wait for the end is interrupted, and makes it come soon.

    Raises
    ------
    SolverError
        If the run failed.
    """
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(highs.run)
        try:
            status = running.result()
        except BaseException:
            stop()
            raise
    check(highs, status, "run")


def check(highs: Any, status: Any, what: str) -> None:
    """Look at the status that a call of HiGHS returned.

    Raises
    ------
    SolverError
        If it is an error.
    """
    if status == load().HighsStatus.kError:
        raise _failed(highs, what)


def _failed(highs: Any, what: str) -> SolverError:
    ended = highs.modelStatusToString(highs.getModelStatus())
    return SolverError(f"HiGHS failed ({what}): its model status is {ended!r}; `poet-plan solvers` lists others")


def given(model: LinearModel) -> Any:
    """A new instance, which has been given the model as arrays."""
    highspy = load()
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
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[whole] for whole in model.integer.tolist()]
    highs = silent_highs()
    check(highs, highs.passModel(lp), "model")
    return highs


class LpStatus(Enum):
    """How an LP ended."""

    OPTIMAL = auto()
    INFEASIBLE = auto()
    OPEN = auto()  # the time is up, or HiGHS leaves open whether it is infeasible


class Lp:
    """The LP relaxation of a model, which HiGHS holds from one change to the next.

    Every method raises `SolverError` if HiGHS cannot be loaded, refuses a change, or fails.
    """

    @told_as(NAME)
    def __init__(self, model: LinearModel) -> None:
        self._base = model
        self._columns = np.arange(len(model.cost), dtype=np.int32)
        self._highs = given(replace(model, integer=np.zeros_like(model.integer)))

    @told_as(NAME)
    def set_bounds(self, lower: Floats, upper: Floats) -> None:
        """Bounds of all columns."""
        status = self._highs.changeColsBounds(len(self._columns), self._columns, lower, upper)
        check(self._highs, status, "bounds of columns")

    @told_as(NAME)
    def set_row_bounds(self, row: int, lower: float, upper: float) -> None:
        """Bounds of one row."""
        check(self._highs, self._highs.changeRowBounds(row, lower, upper), "bounds of a row")

    @told_as(NAME)
    def add_rows(
        self, lower: ArrayLike, upper: ArrayLike, starts: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> None:
        """Append rows; those of row r are ``starts[r]:starts[r + 1]`` of ``columns`` and ``values``."""
        begins = np.asarray(starts, dtype=np.int32)[:-1]
        numbers = np.asarray(columns, dtype=np.int32)
        status = self._highs.addRows(
            len(begins), np.asarray(lower), np.asarray(upper), len(numbers), begins, numbers, np.asarray(values)
        )
        check(self._highs, status, "rows")

    @told_as(NAME)
    def drop_rows(self, rows: Ints) -> None:
        """Take rows out."""
        check(self._highs, self._highs.deleteRows(len(rows), rows.astype(np.int32)), "rows")

    @told_as(NAME)
    def solve(self, budget: TimeBudget) -> LpStatus:
        """Solve it within as many iterations as the budget has left."""
        highs = self._highs
        entries = highs.getNumNz()
        iteration_s = ITERATION_S + ITERATION_S_PER_ENTRY * entries
        highs.setOptionValue("simplex_iteration_limit", min(MOST_ITERATIONS, max(1, budget.most_steps(iteration_s))))
        highs.setOptionValue("time_limit", highs.getRunTime() + budget.wall_s())
        try:
            run(highs)
        finally:
            budget.spend(ENTRY_S * entries + iteration_s * max(0, highs.getInfo().simplex_iteration_count))
        statuses = load().HighsModelStatus
        status = {
            statuses.kOptimal: LpStatus.OPTIMAL,
            statuses.kInfeasible: LpStatus.INFEASIBLE,
            statuses.kUnboundedOrInfeasible: LpStatus.OPEN,
            statuses.kIterationLimit: LpStatus.OPEN,
            statuses.kTimeLimit: LpStatus.OPEN,
        }.get(highs.getModelStatus())
        if status is None:
            raise _failed(highs, "run")
        return status

    @property
    def optimum(self) -> float:
        """Of the last solution."""
        return float(self._highs.getInfo().objective_function_value)

    @property
    def point(self) -> Floats:
        """The last solution. (columns,)"""
        return np.array(self._highs.getSolution().col_value)

    @property
    def reduced_cost(self) -> Floats:
        """Of each column in the last solution. (columns,)"""
        return np.array(self._highs.getSolution().col_dual)

    @property
    def is_slack(self) -> Flags:
        """Whether each row was slack in the last solution: rows added since are not among them. (rows,)"""
        basic = load().HighsBasisStatus.kBasic
        return np.array([at == basic for at in self._highs.getBasis().row_status], dtype=np.bool_)

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self._highs.getNumRow())

    @told_as(NAME)
    def model(self, lower: Floats, upper: Floats) -> LinearModel:
        """The model with its present rows and these bounds of its columns."""
        self._highs.ensureRowwise()
        lp = self._highs.getLp()
        return LinearModel(
            self._base.cost,
            self._base.constant,
            lower,
            upper,
            self._base.integer,
            np.array(lp.a_matrix_.start_, dtype=np.int64),
            np.array(lp.a_matrix_.index_, dtype=np.int64),
            np.array(lp.a_matrix_.value_),
            np.array(lp.row_lower_),
            np.array(lp.row_upper_),
        )
