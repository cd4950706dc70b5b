# SPDX-License-Identifier: Apache-2.0
"""Page-all as a method: the schedule, if it keeps the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.limits import refuse_time, within_limits
from poet_planner.planning.method import Aware, Method
from poet_planner.schedule.page_all import page_all_schedule

if TYPE_CHECKING:
    from poet_planner.solve import OptimiseOptions


def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """The page-all schedule, if it keeps the limits.

    Parameters
    ----------
    ram_bytes : int
        All of the RAM, resident tensors included.
    deadline_s : float or None
        None: no deadline.
    options : OptimiseOptions
        There is nothing to choose.

    Raises
    ------
    UserError
        If it needs more RAM, or more time; or the objective is time.
    """
    refuse_time(options)
    return within_limits(page_all_schedule(graph), "page-all", ram_bytes, deadline_s)


METHOD = Method(
    name="page_all",
    source="the simplest policy that trains beyond the RAM",
    decides="nothing: every value is paged out once, and in for each use",
    schedule=schedule,
    recomputes=False,
    pages=True,
    keeps_deadline=False,
    takes=(),
    general=Aware.YES,
    compute_aware=Aware.NO,
    memory_aware=Aware.NO,
    power_aware=Aware.NO,
)
