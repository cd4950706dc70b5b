# SPDX-License-Identifier: Apache-2.0
"""What static offsets cost: by how much the plan is more expensive than the cheapest schedule that was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poet_profiles.plan_folder.summary import PlacementReport

if TYPE_CHECKING:
    from poet_planner.solve.statistics import Unplaced

# Sums of the same energies in another order differ by less.
SAME_COST = 1e-9


def placement_report(unplaced: Unplaced | None, plan_j: float) -> PlacementReport | None:
    """The report of a plan that takes so much, in joules or, where time is the objective, seconds; None: no cost."""
    if unplaced is None or plan_j <= unplaced.energy_j * (1 + SAME_COST):
        return None
    cost = plan_j / unplaced.energy_j - 1
    return PlacementReport(cost, unplaced.energy_j, unplaced.impossible, unplaced.tried, unplaced.tried_impossible)
