# SPDX-License-Identifier: Apache-2.0
"""A linear model as one of Pyomo, which any solver takes that Pyomo knows (docs/optimiser/relaxation.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from poet_planner.solve.instance import Floats
from poet_planner.solve.milp.linear_model import LinearModel

if TYPE_CHECKING:
    import pyomo.environ as pyo


def seconds_to_state(entries: int) -> float:
    """Estimated seconds until a solver has read a model with so many nonzero coefficients."""
    return 1.0 + entries / 5e4


def pyomo_of(model: LinearModel) -> pyo.ConcreteModel:
    """The model in Pyomo: column k is ``x[k]``. Columns that are fixed, and rows that always hold, are not in it."""
    import pyomo.environ as pyo
    from pyomo.core.expr import LinearExpression

    free = np.nonzero(model.lower < model.upper)[0]
    fixed_value = np.where(model.lower < model.upper, 0.0, model.lower)
    stated = pyo.ConcreteModel()
    stated.x = pyo.Var(free.tolist(), bounds=(0, 1))
    for column in free.tolist():
        stated.x[column].setlb(float(model.lower[column]))
        stated.x[column].setub(float(model.upper[column]))
        if model.integer[column]:
            stated.x[column].domain = pyo.Integers
    stated.rows = pyo.ConstraintList()
    for row in range(len(model.row_lower)):
        entries = slice(model.starts[row], model.starts[row + 1])
        columns, coefficients = model.columns[entries], model.coefficients[entries]
        fixed_part = float(coefficients @ fixed_value[columns])
        kept = model.lower[columns] < model.upper[columns]
        lower, upper = model.row_lower[row] - fixed_part, model.row_upper[row] - fixed_part
        columns, coefficients = columns[kept], coefficients[kept]
        if _always_holds(model, columns, coefficients, lower, upper):
            continue
        if len(columns) == 0:
            # Nothing can keep this row: Pyomo takes none without a variable.
            stated.never = pyo.Var(bounds=(0, 0))
            stated.rows.add(stated.never >= 1)
            break
        expression = LinearExpression(
            linear_vars=[stated.x[column] for column in columns.tolist()], linear_coefs=coefficients.tolist()
        )
        stated.rows.add(
            (float(lower) if np.isfinite(lower) else None, expression, float(upper) if np.isfinite(upper) else None)
        )
    constant = model.constant + float(model.cost @ fixed_value)
    variables = [stated.x[column] for column in free.tolist()]
    stated.energy = pyo.Objective(
        expr=LinearExpression(constant=constant, linear_vars=variables, linear_coefs=model.cost[free].tolist())
    )
    return stated


def point_of(model: LinearModel, values: dict[str, float]) -> Floats:
    """A solution of ``pyomo_of(model)`` in the model's columns. A variable that is in no row reaches no solver."""
    point = model.lower.copy()
    for column in np.nonzero(model.lower < model.upper)[0].tolist():
        point[column] = values.get(f"x[{column}]", point[column])
    return point


def _always_holds(model: LinearModel, columns: np.ndarray, coefficients: Floats, lower: float, upper: float) -> bool:
    """Whether no point within the columns' bounds violates the row."""
    low, high = coefficients * model.lower[columns], coefficients * model.upper[columns]
    least, most = np.minimum(low, high).sum(), np.maximum(low, high).sum()
    return bool(least >= lower - 1e-9 and most <= upper + 1e-9)
