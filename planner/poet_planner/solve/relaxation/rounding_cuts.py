# SPDX-License-Identifier: Apache-2.0
"""Cuts that round the RAM at an instant to whole values: of values of half a megabyte, 1.9 MB hold three."""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem, node_need, others
from poet_planner.solve.milp.linear_model import Rows
from poet_planner.solve.relaxation.columns import Columns

# Sizes, the largest first, that the RAM is rounded to.
MOST_DIVISORS = 16
VIOLATION = 1e-3


class RoundingCuts:
    """Finds cuts ``sum(floor(size / d) * K) <= floor(spare / d)`` that a point violates, for sizes d."""

    def __init__(self, problem: Problem, columns: Columns) -> None:
        need = node_need(problem)
        # Columns, weights for each divisor, and what they may come to.
        self._of_instant: list[tuple[Ints, Ints, Ints]] = []
        for t, node in enumerate(columns.instants):
            spare = problem.budget - int(need[node])
            values = np.nonzero(others(problem, int(node)) & (columns.keep[t] >= 0))[0]
            divisors = np.unique(problem.size[values])[::-1][:MOST_DIVISORS]
            weights = problem.size[values][None, :] // divisors[:, None]
            self._of_instant.append((columns.keep[t, values], weights, spare // divisors))

    def separate(self, point: Floats) -> Rows:
        """The cuts violated by ``point``, (columns,)."""
        rows = Rows()
        for columns, weights, most in self._of_instant:
            taken = weights @ point[columns]
            for at in np.nonzero(taken > most + VIOLATION)[0]:
                used = np.nonzero(weights[at])[0]
                rows.add(columns[used].tolist(), weights[at, used].astype(float).tolist(), -np.inf, float(most[at]))
        return rows
