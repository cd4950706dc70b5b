# SPDX-License-Identifier: Apache-2.0
"""How often a schedule does what costs so much: the sums over columns of equal cost, on which to branch.

Networks repeat themselves. Which of twelve equal layers recomputes its product in which stage leaves a MILP solver a
maze of equivalent choices; how often it is recomputed in all is one integer, and decides the energy.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.linear_model import LinearModel, Rows
from poet_planner.solve.problem import Floats, Ints

EQUAL = 1e-9


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


def values_at(counts: tuple[Ints, ...], point: Floats) -> Floats:
    """The counts at a point of the LP."""
    return np.array([point[columns].sum() for columns in counts])
