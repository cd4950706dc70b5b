# SPDX-License-Identifier: Apache-2.0
"""Store-all as a method: the schedule, if it keeps the limits; of a whole batch, or of the fewest parts that fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.limits import refuse_time, within_limits
from poet_planner.planning.method import Aware, Method
from poet_planner.schedule.store_all import store_all_schedule

if TYPE_CHECKING:
    from poet_planner.solve import OptimiseOptions


def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """The store-all schedule, if it keeps the limits.

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
    parts = f" ({graph.micro_batches} micro-batches)" if graph.micro_batches > 1 else ""
    return within_limits(store_all_schedule(graph), f"store-all{parts}", ram_bytes, deadline_s)


METHOD = Method(
    name="store_all",
    source="what a framework does that neither recomputes nor pages",
    decides="nothing: every value is kept until its last use",
    schedule=schedule,
    recomputes=False,
    pages=False,
    keeps_deadline=False,
    takes=(),
    general=Aware.YES,
    compute_aware=Aware.NO,
    memory_aware=Aware.NO,
    power_aware=Aware.NO,
)
IN_MICRO_BATCHES = replace(
    METHOD,
    name="store_all_micro_batches",
    source="gradient accumulation, as people do it by hand",
    decides="in how many equal parts a batch goes through the network: as few as fit",
    memory_aware=Aware.YES,
    in_parts=True,
)
