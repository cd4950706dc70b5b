# SPDX-License-Identifier: Apache-2.0
"""A price of time in place of the deadline.

Where the deadline binds, few moves lead from one good schedule to another: what saves time in one place has to be spent
in another at once. With a price they are independent. The best schedule at a price is the best of all that take as
long (Everett 1963, generalized Lagrange multipliers), so a price at which that is about the deadline tells a start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Problem
from poet_planner.solve.params import DEFAULTS, LagrangianParams


@dataclass
class Price:
    """Looks for the price at which schedules are just in time.

    Attributes
    ----------
    now : float
        To be tried next, in units of plain training's energy over its time.
    low, high : float
        The highest at which schedules were late and the lowest at which they were in time.
    """

    now: float
    low: float = 0.0
    high: float = np.inf
    params: LagrangianParams = DEFAULTS.lagrangian

    def told(self, late: bool) -> None:
        """Whether the schedule at the price ``now`` was late."""
        self.low, self.high = (self.now, self.high) if late else (self.low, self.now)
        if self.high < np.inf:
            self.now = float(np.sqrt(self.low * self.high)) if self.low > 0 else self.high / self.params.decrease
        else:
            self.now = self.params.increase * self.low if self.low > 0 else self.params.first


def priced(problem: Problem, price: float) -> Problem:
    """``problem`` where a second costs so much, in units of plain training's energy over its time."""
    per_second = price * float(problem.node_energy.sum()) / max(float(problem.node_time.sum()), 1e-12)
    return problem._replace(
        node_energy=problem.node_energy + per_second * problem.node_time,
        in_energy=problem.in_energy + per_second * problem.in_time,
        out_energy=problem.out_energy + per_second * problem.out_time,
    )
