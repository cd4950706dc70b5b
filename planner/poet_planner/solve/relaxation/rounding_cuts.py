# SPDX-License-Identifier: Apache-2.0
"""Chvátal-Gomory rounding of the capacity rows: 1.9 MB hold three values of half a megabyte, not 3.8.

See docs/optimiser/relaxation.md for the proof.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem, outside_working_set, working_set_bytes
from poet_planner.solve.milp.linear_model import Rows
from poet_planner.solve.relaxation.columns import Columns

MOST_DIVISORS = 16  # sizes, the largest first, that an event point's capacity row is divided by
VIOLATION = 1e-3  # least violation of a cut that is added, in values


class RoundingCuts:
    """Finds cuts ``sum(floor(size / d) * K) <= floor(spare / d)`` that a point violates, for sizes d."""

    def __init__(self, problem: Problem, columns: Columns) -> None:
        need = working_set_bytes(problem)
        # For each event point: columns; coefficients for each divisor; right-hand side for each divisor.
        self._rows: list[tuple[Ints, Ints, Ints]] = []
        for t, node in enumerate(columns.event_points):
            spare = problem.budget - int(need[node])
            values = np.nonzero(outside_working_set(problem, int(node)) & (columns.keep[t] >= 0))[0]
            sizes = sorted({*problem.size[values].tolist()}, reverse=True)
            divisors = np.array(sizes[:MOST_DIVISORS], dtype=np.int64)
            coefficients = problem.size[values][None, :] // divisors[:, None]
            self._rows.append((columns.keep[t, values], coefficients, spare // divisors))

    def separate(self, point: Floats) -> Rows:
        """The cuts violated by ``point``, (columns,)."""
        rows = Rows()
        for columns, coefficients, limit in self._rows:
            activity = coefficients @ point[columns]
            for at in np.nonzero(activity > limit + VIOLATION)[0]:
                used = np.nonzero(coefficients[at])[0]
                weights = coefficients[at, used].astype(float).tolist()
                rows.add(columns[used].tolist(), weights, -np.inf, float(limit[at]))
        return rows
