# SPDX-License-Identifier: Apache-2.0
"""The limits of a plan, for a schedule that was made without them; what no baseline plans for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.schedule import Objective, Schedule

from poet_planner.solve.options import NoScheduleError

if TYPE_CHECKING:
    from poet_planner.solve import OptimiseOptions


def refuse_time(options: OptimiseOptions) -> None:
    """Refuse the objective that only the optimiser knows."""
    if options.objective is not Objective.ENERGY:
        raise UserError("--objective time: only --method optimal plans for time; leave one of the two out")


def within_limits(made: Schedule, name: str, ram_bytes: int, deadline_s: float | None) -> Schedule:
    """``made``, whose RAM budget is what it needs, as the schedule for these limits.

    ``name`` is the schedule's, in messages; ``ram_bytes`` is all of the RAM, resident tensors included.

    Raises
    ------
    NoScheduleError
        If it needs more RAM, or more time.
    """
    fits, is_in_time = made.ram_budget_bytes <= ram_bytes, deadline_s is None or made.time_s <= deadline_s
    known: dict[str, Any] = {
        "impossible_below_bytes": made.ram_budget_bytes,
        "possible_bytes": made.ram_budget_bytes if is_in_time else None,
        "impossible_below_s": made.time_s,
        "possible_s": made.time_s if fits else None,
    }
    if not fits:
        raise NoScheduleError(
            f"the {name} schedule needs {made.ram_budget_bytes} B of RAM, the budget is {ram_bytes} B; "
            "raise --ram, or plan with --method optimal",
            **known,
        )
    if not is_in_time:
        raise NoScheduleError(
            f"the {name} schedule takes {made.time_s:.6g} s, the deadline is {deadline_s:.6g} s; raise --deadline",
            **known,
        )
    return replace(made, ram_budget_bytes=ram_bytes, deadline_s=deadline_s)
