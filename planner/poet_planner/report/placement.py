# SPDX-License-Identifier: Apache-2.0
"""What static offsets cost: by how much the plan is more expensive than the cheapest schedule that was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poet_planner.solve.statistics import Unplaced

# Sums of the same energies in another order differ by less.
SAME_COST = 1e-9


@dataclass(frozen=True)
class PlacementReport:
    """The cheapest schedule found has no static offsets within the RAM, so that the plan is a more expensive one.

    ``cost`` is by how much the plan costs more, relative to that schedule's energy ``cheapest_j``. Where time is the
    objective, it is by how much longer the plan takes, and the joules are seconds. ``proven`` says that the blocks of
    that schedule, with their lives in its order of steps, fit the RAM in no way. It says nothing of other orders or
    other schedules. ``tried`` is how many schedules cheaper than the plan were given no offsets, this one included; for
    ``tried_proven`` of them that is proven.
    """

    cost: float
    cheapest_j: float
    proven: bool
    tried: int
    tried_proven: int

    def __str__(self) -> str:
        proven = "proven" if self.proven else "not proven"
        return f"the cheapest schedule found has no addresses in this RAM ({proven})"


def placement_report(unplaced: Unplaced | None, plan_j: float) -> PlacementReport | None:
    """The report of a plan that takes so much, in joules or, where time is the objective, seconds; None: no cost."""
    if unplaced is None or plan_j <= unplaced.energy_j * (1 + SAME_COST):
        return None
    cost = plan_j / unplaced.energy_j - 1
    return PlacementReport(cost, unplaced.energy_j, unplaced.impossible, unplaced.tried, unplaced.tried_impossible)
