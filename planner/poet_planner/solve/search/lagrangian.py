# SPDX-License-Identifier: Apache-2.0
"""A Lagrange multiplier of the deadline: the deadline is dropped, and each second costs energy instead.

If the deadline binds, few moves lead from one good schedule to another: the time saved in one place must be spent in
another at once. With a multiplier these changes are independent. A schedule that is best at a multiplier is best among
all that take no longer (Everett 1963, generalized Lagrange multipliers; proof in docs/optimiser/search.md). So a
multiplier whose schedule takes about as long as the deadline gives a start.

Multipliers are in units of E0 / T0: the energy of the store-all schedule over its time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from poet_planner.solve.instance import Problem

FIRST = 1.0  # the first multiplier, where eviction is late
DECREASE = 4.0  # divides it while no schedule is late
INCREASE = 2.0  # multiplies it while none is in time


@dataclass
class MultiplierSearch:
    """Finds the multiplier whose schedules are just in time, by bisection."""

    now: float  # the multiplier to try next
    # low, high: the highest one whose schedule was late, and the lowest one whose schedule was in time.
    low: float = 0.0
    high: float = np.inf

    def update(self, late: bool) -> None:
        """Take note of whether the schedule of ``now`` was late, and set ``now`` to the next multiplier."""
        self.low, self.high = (self.now, self.high) if late else (self.low, self.now)
        if self.high < np.inf:
            self.now = float(np.sqrt(self.low * self.high)) if self.low > 0 else self.high / DECREASE
        else:
            self.now = INCREASE * self.low if self.low > 0 else FIRST


def with_multiplier(problem: Problem, multiplier: float) -> Problem:
    """``problem``, where each second costs ``multiplier`` in addition to its energy."""
    per_second = multiplier * float(problem.node_energy.sum()) / max(float(problem.node_time.sum()), 1e-12)
    return replace(
        problem,
        node_energy=problem.node_energy + per_second * problem.node_time,
        in_energy=problem.in_energy + per_second * problem.in_time,
        out_energy=problem.out_energy + per_second * problem.out_time,
    )
