# SPDX-License-Identifier: Apache-2.0
"""A linear model stated in Pyomo and handed to a MILP solver of the user's choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Floats
from poet_planner.solve.milp.linear_model import LinearModel
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.time_budget import OnProgress, TimeBudget, unheard


@dataclass(frozen=True)
class Answer:
    """Solutions found, best last, in the model's columns; and the bound (minus infinity where there is none)."""

    solutions: tuple[Floats, ...]
    bound: float
    infeasible: bool


def seconds_to_state(entries: int) -> float:
    """About how long it takes until a solver has a model of so many."""
    return 1.0 + entries / 5e4


def solve_milp(
    model: LinearModel,
    solver: Solver,
    budget: TimeBudget,
    absolute_gap: float,
    cutoff: float,
    on_progress: OnProgress = unheard,
) -> Answer:
    """Solve ``model``; variables that are fixed and rows that they satisfy do not reach the solver.

    Parameters
    ----------
    cutoff : float
        Solutions above are not wanted; a solver that can is told so, and answers "infeasible" where there is no better.
    on_progress : callable
        Told bound and best solution now and then, in units of the model, by a solver that can.
    """
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
        settled = float(coefficients @ fixed_value[columns])
        kept = number[columns] >= 0
        lower, upper = model.row_lower[row] - settled, model.row_upper[row] - settled
        columns, coefficients = columns[kept], coefficients[kept]
        if _always_holds(model, columns, coefficients, lower, upper):
            continue
        if len(columns) == 0:
            return Answer((), np.inf, True)
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
    outcome = solver.solve(stated, budget, absolute_gap, cutoff, on_progress)
    solutions = []
    for values in outcome.solutions:
        x = fixed_value.copy()
        # A variable that no row is left to speak of does not reach the solver.
        x[free] = [values.get(variable.name, low) for variable, low in zip(variables, model.lower[free], strict=True)]
        solutions.append(x)
    return Answer(tuple(solutions), outcome.bound, outcome.infeasible)


def _always_holds(model: LinearModel, columns: np.ndarray, coefficients: Floats, lower: float, upper: float) -> bool:
    """Whether no point within the columns' bounds violates the row."""
    low, high = coefficients * model.lower[columns], coefficients * model.upper[columns]
    least, most = np.minimum(low, high).sum(), np.maximum(low, high).sum()
    return bool(least >= lower - 1e-9 and most <= upper + 1e-9)
