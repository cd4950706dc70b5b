# SPDX-License-Identifier: Apache-2.0
"""States a linear model in Pyomo and solves it by the chosen MILP solver (docs/optimiser/relaxation.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Floats
from poet_planner.solve.milp.failure import told_as
from poet_planner.solve.milp.linear_model import LinearModel
from poet_planner.solve.milp.solvers import Solver, SolverStatus
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress


@dataclass(frozen=True)
class MilpResult:
    """The result for a `LinearModel`.

    Attributes
    ----------
    solutions : tuple of Floats
        In the model's columns; the best one last.
    bound : float
        Lower bound on the optimum, or at least on the cutoff if that is lower; minus infinity if there is none.
    status : SolverStatus
        Why the solver ended.
    """

    solutions: tuple[Floats, ...]
    bound: float
    status: SolverStatus


NOTHING = MilpResult((), -np.inf, SolverStatus.FAILED)


def seconds_to_state(entries: int) -> float:
    """Estimated seconds until a solver has read a model with so many nonzero coefficients."""
    return 1.0 + entries / 5e4


def solve_milp(
    model: LinearModel,
    solver: Solver,
    budget: TimeBudget,
    absolute_gap: float,
    cutoff: float,
    on_progress: OnProgress = ignore_progress,
) -> MilpResult:
    """Solve ``model``. Fixed variables, and rows that always hold, do not reach the solver.

    Parameters
    ----------
    cutoff : float
        Solutions above are not wanted. A solver that supports a cutoff ends with `SolverStatus.CUT_OFF` if there is
        none below.
    on_progress : callable
        A solver that ``reports_progress`` calls it a few times a second with its bound and its best solution, in units
        of the model.
    """
    with told_as(solver.name):
        import pyomo.environ as pyo
        from pyomo.core.expr import LinearExpression

    free = np.nonzero(model.lower < model.upper)[0]
    fixed_value = np.where(model.lower < model.upper, 0.0, model.lower)
    number = np.full(len(model.cost), -1, dtype=np.int64)
    number[free] = np.arange(len(free))

    stated = pyo.ConcreteModel()
    stated.x = pyo.Var(range(len(free)), bounds=(0, 1))
    variables = [stated.x[k] for k in range(len(free))]
    for k, column in enumerate(free):
        variables[k].setlb(float(model.lower[column]))
        variables[k].setub(float(model.upper[column]))
        if model.integer[column]:
            variables[k].domain = pyo.Integers
    stated.rows = pyo.ConstraintList()
    for row in range(len(model.row_lower)):
        entries = slice(model.starts[row], model.starts[row + 1])
        columns, coefficients = model.columns[entries], model.coefficients[entries]
        fixed_part = float(coefficients @ fixed_value[columns])
        kept = number[columns] >= 0
        lower, upper = model.row_lower[row] - fixed_part, model.row_upper[row] - fixed_part
        columns, coefficients = columns[kept], coefficients[kept]
        if _always_holds(model, columns, coefficients, lower, upper):
            continue
        if len(columns) == 0:
            return MilpResult((), np.inf, SolverStatus.INFEASIBLE)
        expression = LinearExpression(
            linear_vars=[variables[k] for k in number[columns]], linear_coefs=coefficients.tolist()
        )
        stated.rows.add(
            (float(lower) if np.isfinite(lower) else None, expression, float(upper) if np.isfinite(upper) else None)
        )
    constant = model.constant + float(model.cost @ fixed_value)
    stated.energy = pyo.Objective(
        expr=LinearExpression(constant=constant, linear_vars=variables, linear_coefs=model.cost[free].tolist())
    )
    result = solver.solve(stated, budget, absolute_gap, cutoff, on_progress)
    solutions = []
    for values in result.solutions:
        x = fixed_value.copy()
        # A variable that is in no row does not reach the solver.
        x[free] = [values.get(variable.name, low) for variable, low in zip(variables, model.lower[free], strict=True)]
        solutions.append(x)
    return MilpResult(tuple(solutions), result.bound, result.status)


def _always_holds(model: LinearModel, columns: np.ndarray, coefficients: Floats, lower: float, upper: float) -> bool:
    """Whether no point within the columns' bounds violates the row."""
    low, high = coefficients * model.lower[columns], coefficients * model.upper[columns]
    least, most = np.minimum(low, high).sum(), np.maximum(low, high).sum()
    return bool(least >= lower - 1e-9 and most <= upper + 1e-9)
